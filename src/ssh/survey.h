#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"

namespace holdfast::ssh {

/// What a host key must be. A key that is known, to the user, the system or us, must match under
/// the first two; a revoked or changed key is refused, and nobody is asked.
enum class HostKeys {
  remember,  ///< an unknown host is accepted once and kept in known_hosts_file()
  strict,    ///< an unknown host is refused
  insecure,  ///< anything is accepted, nothing is looked up or kept
};

/// Who speaks ssh. `automatic` is libssh, and the `ssh` program where the user's ssh config asks
/// for what libssh cannot do (ProxyJump for one), with a note at --info.
enum class Engine { automatic, command };

struct Settings {
  HostKeys host_keys = HostKeys::remember;
  Engine engine = Engine::automatic;
  std::chrono::milliseconds connect = std::chrono::seconds(10);  ///< until keys are exchanged
  std::chrono::milliseconds total = std::chrono::seconds(30);    ///< until the answer is whole
  std::size_t at_once = 16;                                      ///< connections
  std::size_t longest_answer = std::size_t{1} << 20;
  std::string state_dir = user_state_dir();

  static std::string user_state_dir();  ///< $XDG_STATE_HOME, or ~/.local/state
};

/// Where hosts are remembered that no other file knows.
std::string known_hosts_file(const Settings& settings);

struct Errand {
  std::string host;  ///< a name of the user's ssh config or of the network
  std::string command;
};

/// How a host was reached, for people who set things up. Empty where it did not come to that.
struct Route {
  std::string engine;    ///< "libssh", or "ssh program: REASON"
  std::string login;     ///< "USER with KEY FILE (SHA256:...)", or "USER with a key of the agent"
  std::string host_key;  ///< "ssh-ed25519 SHA256:..."
  std::string known_by;  ///< "FILE:LINE", "FILE (new)", or nothing with HostKeys::insecure
};

struct Reply {
  /// The command ran to its end. If not, the host told us nothing that can be relied upon.
  bool is_answered = false;
  int status = -1;     ///< of the command
  std::string output;  ///< its stdout; without an answer, what came before the line was cut
  std::string why;     ///< for people, one line: why there is no answer
  Route route;
};

/// Has each host run its command, and brings back what they print. Stdin is empty, stderr dropped.
///
/// Asks:     nobody. No prompt, no askpass program, no password; encrypted keys are passed over.
/// Bounded:  one process per connection, killed with all that it started when its time is over or
///           when this process dies, so that no host, look-up, agent or proxy can hold us up.
/// On disk:  hosts met for the first time, a line each, in known_hosts_file().
/// Returns:  replies in the order of the errands, a reason in each that has no answer.
/// Threads:  must not be called while other threads of this process hold locks that libssh needs.
std::vector<Reply> run(std::span<const Errand> errands, const Settings& settings, const Log& log);

}  // namespace holdfast::ssh
