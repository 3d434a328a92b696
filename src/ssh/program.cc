#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>

#include "ssh/child.h"
#include "ssh/worker.h"

namespace holdfast::ssh {
namespace {

constexpr int kSshFailed = 255;  // ssh's own failure; also that of a command which exits so
constexpr std::size_t kLongestLog = 65536;

/// A file in memory that the ssh program can open by name, and that nobody has to remove.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : fd_(memfd_create(name, MFD_CLOEXEC)) {}
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { close(fd_); }

  std::string path() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd_);
  }
  /// No: /proc is of another pid namespace, where our pid means another process and its files.
  bool is_at_path() const {
    struct stat by_name {};
    struct stat by_number {};
    return stat(path().c_str(), &by_name) == 0 && fstat(fd_, &by_number) == 0 &&
           by_name.st_dev == by_number.st_dev && by_name.st_ino == by_number.st_ino;
  }
  std::string text() const {
    std::string read(kLongestLog, '\0');
    const ssize_t got = pread(fd_, read.data(), read.size(), 0);
    read.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return read;
  }

 private:
  int fd_;
};

using Words = std::vector<std::string>;

/// As part of a list of files in an option: ssh splits at blanks and expands per cent signs.
std::string quoted(const std::string& file) {
  std::string made(1, '"');
  for (const char c : file) made.append(c == '%' ? 2 : 1, c);
  made += '"';
  return made;
}

void add_option(Words& words, const std::string& option) {
  words.insert(words.end(), {"-o", option});
}

void add_host_key_options(Words& words, const Task& task, const MemoryFile& met) {
  if (task.host_keys == HostKeys::insecure) {
    add_option(words, "StrictHostKeyChecking=no");
    add_option(words, "UserKnownHostsFile=/dev/null");
    add_option(words, "GlobalKnownHostsFile=/dev/null");
    return;
  }
  // A new key goes into the first file; it is remembered from there, under the lock.
  std::string files = "UserKnownHostsFile=" + met.path();
  for (const std::string& file : task.config.user_known_hosts) files.append(1, ' ') += quoted(file);
  add_option(words, files + " " + quoted(known_hosts_file(task.settings)));
  const bool may_be_new =
      task.host_keys == HostKeys::remember && task.known.keys.empty() && !task.known.has_authority;
  add_option(words, may_be_new ? "StrictHostKeyChecking=accept-new" : "StrictHostKeyChecking=yes");
  std::string algorithms;
  for (const std::string& algorithm :
       host_key_algorithms(task.config.host_key_algorithms, task.known)) {
    algorithms += (algorithms.empty() ? "" : ",") + algorithm;
  }
  if (!algorithms.empty()) add_option(words, "HostKeyAlgorithms=" + algorithms);
}

Words command_line(const Task& task, const MemoryFile& log, const MemoryFile& met) {
  auto limit = std::chrono::ceil<std::chrono::seconds>(task.settings.connect);
  if (task.config.connect_timeout) limit = std::min(limit, *task.config.connect_timeout);
  Words words{"ssh", "-T", "-a", "-x", "-E", log.path()};
  for (const char* option :
       {"BatchMode=yes", "PasswordAuthentication=no", "KbdInteractiveAuthentication=no",
        "ClearAllForwardings=yes", "ControlMaster=no", "PermitLocalCommand=no",
        "RemoteCommand=none", "UpdateHostKeys=no", "HashKnownHosts=no", "LogLevel=DEBUG1"}) {
    add_option(words, option);
  }
  for (const std::string& option : task.config.counteractions) add_option(words, option);
  add_option(words, "ConnectTimeout=" + std::to_string(limit.count()));
  add_host_key_options(words, task, met);
  words.insert(words.end(), {"--", task.errand.host, task.errand.command});
  return words;
}

/// What follows the last `before` in the log, up to the end of that line.
std::string after(std::string_view log, std::string_view before) {
  const std::size_t at = log.rfind(before);
  if (at == std::string_view::npos) return {};
  const std::string_view rest = log.substr(at + before.size());
  return one_line(rest.substr(0, rest.find_first_of("\r\n")));
}

/// The last line that is meant for people.
std::string last_words(std::string_view text) {
  std::string last;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string line = one_line(text.substr(0, end));
    const bool is_chatter = line.empty() || line.starts_with("debug") ||
                            line.starts_with("Warning: Permanently added") ||
                            line.find("by UNKNOWN port") != std::string::npos;
    if (!is_chatter) last = line;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return last;
}

/// Why ssh gave up, from its own log; what its proxy said is in `errors`.
std::string why_failed(const Task& task, const std::string& log, const std::string& errors) {
  const KeyName name = task.config.key_name();
  if (log.find("REVOKED HOST KEY DETECTED") != std::string::npos && !task.known.revoked.empty()) {
    return revoked_message(name, task.known.revoked.front());
  }
  if (const std::string offending = after(log, "Offending "); !offending.empty()) {
    const std::string place = after(offending, " key in ");
    return changed_message(name, place, place.substr(0, place.rfind(':')));
  }
  if (log.find("no matching host key type found") != std::string::npos &&
      !task.known.keys.empty()) {
    return other_type_message(name, task.known.keys.front());
  }
  if (log.find("and you have requested strict checking") != std::string::npos) {
    return unknown_message(name);
  }
  std::string words = last_words(log);
  if (words.find("Permission denied") != std::string::npos) {
    return "login as " + task.config.user + " refused; tried " + task.config.means_of_login() +
           " (" + words + ")";
  }
  const bool is_before_login = log.find("Authenticated to ") == std::string::npos;
  if (const std::string proxy = last_words(errors); is_before_login && !proxy.empty()) {
    words += (words.empty() ? "" : ": ") + proxy;
  }
  return words.empty() ? "the ssh program ended with 255 and said nothing" : words;
}

Route route_from(const Task& task, const std::string& log, const Known& met) {
  Route route = task.route;
  route.host_key = after(log, "Server host key: ");
  if (task.host_keys != HostKeys::insecure) {
    route.known_by = after(log, "Found key in ");
    if (!met.keys.empty()) route.known_by = known_hosts_file(task.settings) + " (new)";
  }
  if (log.find("Authenticated to ") != std::string::npos) {
    std::string key = after(log, "Server accepts key: ");
    if (key.empty()) key = after(log, "Trying private key: ");  // whose public half is not there
    route.login = task.config.user + " with " + key;
  }
  return route;
}

/// Of a host that ssh met for the first time. Empty if all is well.
std::string keep_met(const Task& task, const Known& met) {
  for (const KnownKey& key : met.keys) {
    std::string why =
        remember(known_hosts_file(task.settings), task.config.key_name(), {key.type, key.key, {}});
    if (!why.empty()) return why;
  }
  return {};
}

/// Before it is sent to a host whose key we could not keep. Empty if all is well.
std::string why_not_kept(const Task& task) {
  const bool may_be_new = task.host_keys == HostKeys::remember && task.known.is_empty();
  return may_be_new ? why_not_writable(known_hosts_file(task.settings)) : std::string();
}

}  // namespace

void run_program(Task& task) {
  if (const std::string why = why_not_kept(task); !why.empty()) return task.fail(why);
  const MemoryFile log("ssh log");
  const MemoryFile met_file("ssh known hosts");
  if (!log.is_at_path() || !met_file.is_at_path()) {
    return task.fail("the ssh program needs a /proc that shows this process");
  }
  task.report.stage("waiting for the ssh program to connect to " + task.errand.host);
  // ssh's own time-out ends with the host's greeting
  const auto is_connected = [&] {
    const bool is_so = task.config.has_shared_connection ||
                       log.text().find("SSH2_MSG_NEWKEYS received") != std::string::npos;
    if (is_so) task.report.connected("waiting for its answer through the ssh program");
    return is_so;
  };
  const ChildEnd end = run_child(
      command_line(task, log, met_file), task.settings.longest_answer,
      [&](std::string_view part) { task.report.output(part); }, is_connected);
  const std::string said = log.text();
  std::string why;
  const std::string met_path = met_file.path();
  const std::optional<Known> met = look_up(task.config.key_name(), {&met_path, 1}, why);
  task.route = route_from(task, said, met.value_or(Known{}));
  if (why.empty()) why = keep_met(task, met.value_or(Known{}));
  if (!why.empty()) return task.fail(why);
  if (!end.is_started) return task.fail("the ssh program is not installed");
  if (end.is_too_long) {
    return task.fail("its answer is longer than " + std::to_string(task.settings.longest_answer) +
                     " bytes");
  }
  if (end.status == kSshFailed) return task.fail(why_failed(task, said, end.errors));
  task.answer(end.status);
}

}  // namespace holdfast::ssh
