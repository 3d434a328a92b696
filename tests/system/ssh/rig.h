#pragma once

#include <catch2/catch.hpp>
#include <list>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

using Words = std::vector<std::string>;

/// A reply as ssh_errand prints it.
struct Told {
  std::string host;
  bool is_answered = false;
  int status = -1;
  std::string why, engine, login, host_key, known_by, output;
  std::size_t size = 0;
};
std::ostream& operator<<(std::ostream& to, const Told& told);

struct Trip {
  std::vector<Told> told;
  std::string err;  ///< of ssh_errand itself
  int code = -1;
  double seconds = 0;

  const Told& operator[](std::size_t i) const { return told.at(i); }
};

/// A user with a home of its own and a network of its own, in which every address 127.x.y.z can be
/// a host with a real sshd on its usual port. All of it is gone at the end of the scope.
///
/// Names: NAME.test for each host; the user's ~/.ssh/config is empty at first and ~/.ssh/id_ed25519
/// opens every host. What has this user's eyes sees /etc/ssh empty.
class Rig {
 public:
  Rig();
  ~Rig();

  static bool is_possible();

  /// Starts an sshd. Key types as ssh-keygen has them; `port` is one that the config names.
  void start_host(const std::string& name, const Words& key_types = {"ed25519"},
                  const std::string& more_config = "", const std::string& port = "22");
  void stop_host(const std::string& name);
  /// With the same keys and its config read again.
  void restart_host(const std::string& name, const std::string& port = "22");
  /// Takes connections at the address of a name and then keeps silent.
  void start_silent(const std::string& name, const std::string& greeting = "");

  /// The same sshd with another host key.
  void set_up_anew(const std::string& name, const Words& key_types = {"ed25519"});

  std::string address(const std::string& name);  ///< given out on first use
  std::string public_key(const std::string& host, const std::string& type = "ed25519") const;

  Trip errand(const Words& options, const std::string& command, const Words& hosts,
              const std::map<std::string, std::string>& env = {}) const;
  Result as_user(const Words& command, const std::map<std::string, std::string>& env = {}) const;
  std::unique_ptr<Process> start_as_user(const Words& command,
                                         const std::map<std::string, std::string>& env = {}) const;
  Words errand_words(const Words& options, const std::string& command, const Words& hosts) const;

  /// For preparations by a shell, as the user, in the home. What it prints shows only if it fails.
  void must(const std::string& script) const;

  void write(const std::string& name, const std::string& text) const;  ///< below the home
  std::string home(const std::string& name = "") const;
  std::string known_hosts() const { return home(".ssh/known_hosts"); }
  std::string own_known_hosts() const { return home("state/holdfast/known_hosts"); }
  std::string path(const std::string& name) const { return dir_ / name; }

 private:
  struct Server {
    std::string name;
    std::unique_ptr<Process> process;
  };
  void make_keys(const std::string& name, const Words& key_types) const;
  void launch(const std::string& name, const Words& words, const std::string& port = "22");
  void write_hosts() const;
  Words enter(bool with_processes) const;
  Words environment(const std::map<std::string, std::string>& more) const;

  TempDir dir_;
  std::unique_ptr<Process> holder_;  ///< of the namespaces
  std::string inside_;               ///< pid of the first process inside of them
  std::vector<std::string> names_;
  std::list<Server> servers_;
};

/// Both engines, through the same case: words for ssh_errand.
inline Words either_engine() {
  return GENERATE(Words{"--engine", "automatic"}, Words{"--engine", "command"});
}

inline Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace holdfast::testing

#define NEEDS_RIG() \
  if (!Rig::is_possible()) SKIP_TEST("needs root, namespaces, sshd, ip and nsenter")
