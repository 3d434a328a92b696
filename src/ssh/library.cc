#include <fcntl.h>
#include <libssh/callbacks.h>
#include <libssh/libssh.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "ssh/worker.h"

namespace holdfast::ssh {
namespace {

using Session = std::unique_ptr<ssh_session_struct, decltype(&ssh_free)>;
using Key = std::unique_ptr<ssh_key_struct, decltype(&ssh_key_free)>;
using Channel = std::unique_ptr<ssh_channel_struct, decltype(&ssh_channel_free)>;
using Event = std::unique_ptr<ssh_event_struct, decltype(&ssh_event_free)>;
using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

std::string error_of(ssh_session session) {
  return one_line(ssh_get_error(session));
}

/// Calls until the answer is other than `again`. libssh's own waiting does not notice when the host
/// hangs up in the middle of a login, so it is told not to wait.
template <class Call>
int settle(ssh_session session, int again, int error, Call call) {
  constexpr int kLookAgain = 1000;  // ms; in case libssh waits for something else than the socket
  for (;;) {
    const int said = call();
    if (said != again) return said;
    if ((ssh_get_status(session) & (SSH_CLOSED | SSH_CLOSED_ERROR)) != 0) return error;
    const bool is_writing = (ssh_get_poll_flags(session) & SSH_WRITE_PENDING) != 0;
    pollfd stream{ssh_get_fd(session), static_cast<short>(is_writing ? POLLIN | POLLOUT : POLLIN),
                  0};
    (void)poll(&stream, 1, kLookAgain);
  }
}

/// 0 once it is connected, or the errno.
int finish_connect(int fd, std::chrono::milliseconds limit) {
  pollfd stream{fd, POLLOUT, 0};
  const int ready = poll(&stream, 1, static_cast<int>(limit.count()));
  if (ready == 0) return ETIMEDOUT;
  int error = 0;
  socklen_t size = sizeof error;
  if (ready < 0 || getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0) return errno;
  return error;
}

/// A descriptor, or -1 with errno.
int connect_to(const addrinfo& address, std::chrono::milliseconds limit) {
  const int fd = socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // slower without, not wrong
  int error = connect(fd, address.ai_addr, address.ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS) error = finish_connect(fd, limit);
  if (error == 0) return fd;
  close(fd);
  errno = error;
  return -1;
}

/// Tries each address of the host, as libssh itself would not. -1 after it reported why.
int connect_to_host(const Task& task) {
  const HostConfig& config = task.config;
  const std::string where = config.hostname + " port " + config.port;
  std::chrono::milliseconds limit = task.settings.connect;
  if (config.connect_timeout) limit = std::min(limit, {*config.connect_timeout});
  const Deadline deadline(real_clock(), limit);
  task.report.stage("looking up " + config.hostname);
  addrinfo hints{};
  hints.ai_family = config.family;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(config.hostname.c_str(), config.port.c_str(), &hints, &list)) {
    task.fail("cannot look up " + config.hostname + ": " +
              (error == EAI_SYSTEM ? std::strerror(errno) : gai_strerror(error)));
    return -1;
  }
  const Addresses addresses(list, freeaddrinfo);
  task.report.stage("connecting to " + where);
  std::chrono::milliseconds::rep untried = 0;
  for (const addrinfo* a = list; a; a = a->ai_next) ++untried;
  for (const addrinfo* a = list; a; a = a->ai_next) {
    const auto share = std::chrono::duration_cast<std::chrono::milliseconds>(deadline.left());
    const int fd = connect_to(*a, share / untried--);
    if (fd >= 0) return fd;
  }
  task.fail("cannot connect to " + where + ": " + std::strerror(errno));
  return -1;
}

std::string joined(const std::vector<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ",") + word;
  return list;
}

/// False if libssh knows none of what the config allows.
bool set_algorithms(ssh_session session, const Task& task) {
  const auto set = [&](ssh_options_e option, const std::string& list) {
    return list.empty() || ssh_options_set(session, option, list.c_str()) == SSH_OK;
  };
  const HostConfig& config = task.config;
  const std::vector<std::string> host_keys =
      host_key_algorithms(config.host_key_algorithms, task.known);
  return !host_keys.empty() && set(SSH_OPTIONS_HOSTKEYS, joined(host_keys)) &&
         set(SSH_OPTIONS_KEY_EXCHANGE, config.key_exchanges) &&
         set(SSH_OPTIONS_CIPHERS_C_S, config.ciphers) &&
         set(SSH_OPTIONS_CIPHERS_S_C, config.ciphers) && set(SSH_OPTIONS_HMAC_C_S, config.macs) &&
         set(SSH_OPTIONS_HMAC_S_C, config.macs) &&
         set(SSH_OPTIONS_PUBLICKEY_ACCEPTED_TYPES, config.key_types);
}

/// False if it must be left to the ssh program.
bool set_options(ssh_session session, const Task& task) {
  const HostConfig& config = task.config;
  ssh_options_set(session, SSH_OPTIONS_HOST, task.errand.host.c_str());
  if (config.has_program) {
    const bool no = false;
    ssh_options_set(session, SSH_OPTIONS_PROCESS_CONFIG, &no);
    ssh_options_set(session, SSH_OPTIONS_HOST, config.hostname.c_str());
    ssh_options_set(session, SSH_OPTIONS_USER, config.user.c_str());
    if (!config.agent.empty()) {
      ssh_options_set(session, SSH_OPTIONS_IDENTITY_AGENT, config.agent.c_str());
    }
  } else {
    ssh_options_parse_config(session, nullptr);
  }
  return set_algorithms(session, task);
}

std::string fingerprint_of(ssh_key key) {
  unsigned char* hash = nullptr;
  std::size_t size = 0;
  if (ssh_get_publickey_hash(key, SSH_PUBLICKEY_HASH_SHA256, &hash, &size) != SSH_OK) return {};
  char* text = ssh_get_fingerprint_hash(SSH_PUBLICKEY_HASH_SHA256, hash, size);
  std::string fingerprint = text ? text : "";
  ssh_string_free_char(text);
  ssh_clean_pubkey_hash(&hash);
  return fingerprint;
}

HostKey host_key_of(ssh_session session) {
  ssh_key raw = nullptr;
  if (ssh_get_server_publickey(session, &raw) != SSH_OK) return {};
  const Key key(raw, ssh_key_free);
  char* base64 = nullptr;
  if (ssh_pki_export_pubkey_base64(raw, &base64) != SSH_OK) return {};
  HostKey made{ssh_key_type_to_char(ssh_key_type(raw)), base64, fingerprint_of(raw)};
  ssh_string_free_char(base64);
  return made;
}

/// Before anything is sent that tells who we are. False after it reported why.
bool accept_host_key(ssh_session session, Task& task) {
  const HostKey key = host_key_of(session);
  if (key.key.empty()) {
    task.fail("cannot read its host key: " + error_of(session));
    return false;
  }
  task.route.host_key = key.type + " " + key.fingerprint;
  if (task.host_keys == HostKeys::insecure) return true;
  const Judgement judgement = judge(task.config.key_name(), task.known, key);
  std::string refusal = judgement.kind == Judgement::Kind::known ? "" : judgement.text;
  task.route.known_by = judgement.text;
  if (judgement.kind == Judgement::Kind::unknown && task.host_keys == HostKeys::remember) {
    const std::string file = known_hosts_file(task.settings);
    task.report.stage("remembering its key in " + file);
    refusal = remember(file, task.config.key_name(), key);
    task.route.known_by = file + " (new)";
  }
  if (refusal.empty()) return true;
  task.route.known_by.clear();
  task.fail(refusal);
  return false;
}

/// Logs in with what needs nobody's help: keys of the agent, then key files without a passphrase.
class Login {
 public:
  Login(ssh_session session, Task& task) : session_(session), task_(task) {}

  bool is_done() {
    if (!task_.config.has_program) return try_as_libssh_does();
    return (!task_.config.uses_only_named_identities && try_agent()) || try_files();
  }

  /// Why the ssh program could do better; empty if it could not.
  std::string reason_for_program() const {
    if (is_agent_needed_) return "IdentitiesOnly with a key that only the agent can use";
    if (is_unreadable_key_there_) return "a key file of a kind that libssh cannot read";
    if (!ssh_is_connected(session_) && !task_.config.agent.empty()) {
      return "the agent offered more keys than the host wants to see";
    }
    const auto methods = static_cast<unsigned>(ssh_userauth_list(session_, nullptr));
    if (task_.config.may_use_gssapi && (methods & SSH_AUTH_METHOD_GSSAPI_MIC) != 0) {
      return "the host offers a login by GSSAPI";
    }
    return {};
  }

  std::string why() const {
    const char* end = ssh_is_connected(session_) ? " refused; tried " : " cut off; tried ";
    return "login as " + task_.config.user + end + task_.config.means_of_login() + passed_over_;
  }

 private:
  template <class Call>
  bool is_accepted(Call call) {
    return settle(session_, SSH_AUTH_AGAIN, SSH_AUTH_ERROR, call) == SSH_AUTH_SUCCESS;
  }

  bool try_agent() {
    if (task_.config.agent.empty()) return false;
    if (!is_accepted([&] { return ssh_userauth_agent(session_, nullptr); })) return false;
    task_.route.login = task_.config.user + " with a key of the agent";
    return true;
  }

  bool try_files() {
    for (const std::string& file : task_.config.identity_files) {
      if (try_file(file)) return true;
      if (!ssh_is_connected(session_)) return false;
    }
    return false;
  }

  /// Without asking first whether the host would take the key: that saves a round trip, and only
  /// a wrong key costs a signature.
  bool try_file(const std::string& file) {
    ssh_key raw = nullptr;
    const auto refuse_passphrase = [](const char*, char*, std::size_t, int, int, void*) {
      return -1;
    };
    if (ssh_pki_import_privkey_file(file.c_str(), nullptr, refuse_passphrase, nullptr, &raw) !=
        SSH_OK) {
      pass_over(file);
      return false;
    }
    const Key key(raw, ssh_key_free);
    if (!is_accepted([&] { return ssh_userauth_publickey(session_, nullptr, raw); })) return false;
    task_.route.login = task_.config.user + " with " + file + " (" + fingerprint_of(raw) + ")";
    return true;
  }

  /// A key file that does not open: with a passphrase, unreadable for us, or of a kind that only
  /// the ssh program knows.
  void pass_over(const std::string& file) {
    if (access(file.c_str(), R_OK) != 0) {
      passed_over_ += "; cannot read " + file;
      return;
    }
    ssh_key raw = nullptr;
    const bool is_known_kind = ssh_pki_import_pubkey_file(file.c_str(), &raw) == SSH_OK ||
                               ssh_pki_import_pubkey_file((file + ".pub").c_str(), &raw) == SSH_OK;
    const Key key(raw, ssh_key_free);
    passed_over_ += "; passed over " + file + ", which needs a passphrase or is of another kind";
    if (!is_known_kind) is_unreadable_key_there_ = true;
    if (task_.config.uses_only_named_identities && !task_.config.agent.empty()) {
      is_agent_needed_ = true;
    }
  }

  bool try_as_libssh_does() {
    if (!is_accepted([&] { return ssh_userauth_publickey_auto(session_, nullptr, nullptr); })) {
      return false;
    }
    task_.route.login = task_.config.user + " with a key that libssh found";
    return true;
  }

  ssh_session session_;
  Task& task_;
  std::string passed_over_;
  bool is_agent_needed_ = false;
  bool is_unreadable_key_there_ = false;
};

/// What comes back over the channel, as libssh's callbacks tell it.
struct Answer {
  const Report& report;
  std::size_t longest;
  std::size_t taken = 0;
  int status = -1;
  std::string signal{};
  bool is_too_long = false;
  bool is_ended = false;  ///< no more output
  bool is_closed = false;
};

int on_data(ssh_session, ssh_channel, void* data, std::uint32_t size, int is_stderr, void* to) {
  Answer& answer = *static_cast<Answer*>(to);
  if (is_stderr == 0) {
    const std::size_t fitting = std::min<std::size_t>(size, answer.longest - answer.taken);
    answer.report.output({static_cast<const char*>(data), fitting});
    answer.taken += fitting;
    if (fitting < size) answer.is_too_long = true;
  }
  return static_cast<int>(size);
}
void on_eof(ssh_session, ssh_channel, void* to) {
  static_cast<Answer*>(to)->is_ended = true;
}
void on_close(ssh_session, ssh_channel, void* to) {
  static_cast<Answer*>(to)->is_closed = true;
}
void on_exit_status(ssh_session, ssh_channel, int status, void* to) {
  static_cast<Answer*>(to)->status = status;
}
void on_exit_signal(ssh_session, ssh_channel, const char* signal, int, const char*, const char*,
                    void* to) {
  static_cast<Answer*>(to)->signal = signal;
}

/// Until the command has ended and all of its output is here, or neither can be any more.
void receive(ssh_session session, ssh_channel channel, const std::string& command, Answer& answer) {
  ssh_channel_callbacks_struct callbacks{};
  callbacks.userdata = &answer;
  callbacks.channel_data_function = on_data;
  callbacks.channel_eof_function = on_eof;
  callbacks.channel_close_function = on_close;
  callbacks.channel_exit_status_function = on_exit_status;
  callbacks.channel_exit_signal_function = on_exit_signal;
  ssh_callbacks_init(&callbacks);
  if (ssh_set_channel_callbacks(channel, &callbacks) != SSH_OK ||
      settle(session, SSH_AGAIN, SSH_ERROR,
             [&] { return ssh_channel_request_exec(channel, command.c_str()); }) != SSH_OK) {
    return;
  }
  ssh_channel_send_eof(channel);  // its stdin is empty
  const Event event(ssh_event_new(), ssh_event_free);
  ssh_event_add_session(event.get(), session);
  const auto is_whole = [&] { return answer.is_ended && answer.status >= 0; };
  while (!is_whole() && !answer.is_closed && !answer.is_too_long && ssh_is_connected(session)) {
    if (ssh_event_dopoll(event.get(), -1) == SSH_ERROR) break;
  }
  ssh_event_remove_session(event.get(), session);
  ssh_remove_channel_callbacks(channel, &callbacks);
}

void run_command(ssh_session session, const Task& task) {
  task.report.connected("waiting for its answer");
  Answer answer{task.report, task.settings.longest_answer};
  const Channel channel(ssh_channel_new(session), ssh_channel_free);
  if (settle(session, SSH_AGAIN, SSH_ERROR,
             [&] { return ssh_channel_open_session(channel.get()); }) == SSH_OK) {
    receive(session, channel.get(), task.errand.command, answer);
  }
  const std::string error = error_of(session);
  ssh_disconnect(session);
  if (answer.is_too_long) {
    task.fail("its answer is longer than " + std::to_string(answer.longest) + " bytes");
  } else if (answer.status >= 0) {
    task.answer(answer.status);
  } else if (!answer.signal.empty()) {
    task.fail("the command was ended there by signal " + answer.signal);
  } else {
    task.fail("logged in, but the connection ended before the command did: " + error);
  }
}

/// After a key exchange that failed: the refusal is reported, or the program is to try.
std::string judge_failed_exchange(ssh_session session, const Task& task) {
  std::string error = error_of(session);
  if (error.find("no match for method server host key algo") != std::string::npos &&
      !task.known.keys.empty()) {
    task.fail(other_type_message(task.config.key_name(), task.known.keys.front()));
    return {};
  }
  if (error.find("no match for method") != std::string::npos) return error;
  task.fail("no ssh connection to " + task.config.hostname + " port " + task.config.port + ": " +
            error);
  return {};
}

}  // namespace

std::string run_library(Task& task) {
  const Session session(ssh_new(), ssh_free);
  if (!session) return "libssh cannot start a session";
  if (!set_options(session.get(), task)) return "algorithms that libssh does not know";
  socket_t fd = connect_to_host(task);
  if (fd < 0) return {};
  ssh_options_set(session.get(), SSH_OPTIONS_FD, &fd);
  task.report.stage("exchanging keys with " + task.config.hostname + " port " + task.config.port);
  ssh_set_blocking(session.get(), 0);
  if (settle(session.get(), SSH_AGAIN, SSH_ERROR, [&] { return ssh_connect(session.get()); }) !=
      SSH_OK) {
    return judge_failed_exchange(session.get(), task);
  }
  if (!accept_host_key(session.get(), task)) return {};
  task.report.connected("logging in");
  Login login(session.get(), task);
  if (!login.is_done()) {
    if (std::string reason = login.reason_for_program(); !reason.empty()) {
      if (task.config.has_program) return reason;
    }
    task.fail(login.why());
    return {};
  }
  run_command(session.get(), task);
  return {};
}

}  // namespace holdfast::ssh
