#include "identity/local_id.h"

#include <poll.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

namespace holdfast::identity {

using disk::Handle;
using disk::Path;

namespace {

/// The first pid namespace has no ancestors: a procfs in which we find ourselves is then our own.
constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";

constexpr std::uint64_t kBootTimeTolerance = 1;  // seconds; btime is rounded, and slewed by NTP

std::optional<std::uint64_t> to_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || ec != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Digits without a leading zero: the one spelling that procfs knows.
std::optional<std::uint64_t> to_pid(std::string_view text) {
  const auto value = to_number(text);
  return value && *value != 0 && *value <= 0x7FFFFFFF && text.front() != '0' ? value : std::nullopt;
}

/// Parts between separators; with `join`, runs of separators count as one and the ends have none.
std::vector<std::string_view> split(std::string_view text, std::string_view separators, bool join) {
  const auto is_separator = [&](char c) {
    return std::any_of(separators.begin(), separators.end(), [c](char s) { return s == c; });
  };
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && !is_separator(text[at])) continue;
    if (!join || at > from) parts.push_back(text.substr(from, at - from));
    from = at + 1;
  }
  return parts;
}

/// The line of a procfs file that begins with `key`, without it.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key) {
  for (std::size_t from = 0; from < text.size();) {
    const std::size_t end = std::min(text.find('\n', from), text.size());
    if (text.substr(from).starts_with(key))
      return text.substr(from + key.size(), end - from - key.size());
    from = end + 1;
  }
  return std::nullopt;
}

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : b - a;
}

std::string without_newline(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

/// Names that many hosts share do not tell one from another.
bool is_telling_host_name(const std::string& host) {
  return !host.empty() && host != "(none)" && host != "localhost" &&
         !host.starts_with("localhost.");
}

bool ends_processes(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
         signal == SIGABRT;
}

constexpr const char* kBootId = "sys/kernel/random/boot_id";

std::optional<std::uint64_t> parse_boot_time(std::string_view stat) {
  const auto line = line_after(stat, "btime ");
  const auto words = split(line.value_or(""), " \t", true);
  return words.empty() ? std::nullopt : to_number(words[0]);
}

/// The pids of a process, outermost first, from its procfs status.
std::vector<std::string_view> namespace_pids(std::string_view status) {
  return split(line_after(status, "NSpid:").value_or(""), " \t", true);
}

std::string host_name() {
  utsname name{};
  uname(&name);
  return name.nodename;
}

/// As the login says it: a look-up in a directory service has no place on the way to a lock.
std::string user_name() {
  for (const char* variable : {"LOGNAME", "USER"}) {
    const char* name = std::getenv(variable);
    if (name && *name) return name;
  }
  return std::to_string(getauxval(AT_EUID));
}

/// FQDN:PID:START:BTIME, and what other helpers make with a place in front: not ours to call
/// malformed.
bool is_of_other_kind(std::string_view text) {
  const auto fields = split(text, ":", false);
  return fields.size() >= 4 && !fields[0].empty() && !fields[1].empty() && !fields[2].empty() &&
         !fields[3].empty();
}

std::optional<std::uint64_t> pid_of_other_kind(std::string_view text) {
  const auto fields = split(text, ":", false);
  if (fields.size() != 4 || fields[0].empty() || !to_number(fields[2]) || !to_number(fields[3]))
    return std::nullopt;
  return to_pid(fields[1]);
}

std::uint64_t ticks_per_second() {
  return static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
}

}  // namespace

struct LocalId::Process {
  std::string name;  ///< comm
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t start = 0;  ///< the true field 22
  std::string word;         ///< the 22nd blank-separated word: what the shell takes for it

  bool is_dead() const { return state == 'Z' && threads == 1; }

  /// Seen so for a moment when it ends, and also when a thread of a living process execs: proves
  /// nothing.
  bool is_in_transit() const { return state == 'X' || threads == 0; }
  static std::optional<Process> parse(const std::string& stat);
};

/// PID:START:BTIME. START is digits, but for a process whose name has blanks: then it is another
/// word of PID/stat.
struct LocalId::LocalFields {
  std::uint64_t pid;
  std::string start;
  std::uint64_t btime;

  static std::optional<LocalFields> parse(std::string_view text) {
    const auto fields = split(text, ":", false);
    if (fields.size() != 3) return std::nullopt;
    const auto pid = to_pid(fields[0]);
    const auto btime = to_number(fields[2]);
    if (!pid || fields[1].empty() || fields[1].find_first_of(" \t\n") != std::string_view::npos ||
        !btime)
      return std::nullopt;
    return LocalFields{*pid, std::string(fields[1]), *btime};
  }
};

struct LocalId::Ours {
  std::string host, boot, pidns, timens;
};

std::optional<LocalId::Process> LocalId::Process::parse(const std::string& stat) {
  const std::size_t open = stat.find('(');
  const std::size_t close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  // after the name: state is field 3, threads 20, start 22
  const auto fields = split(std::string_view(stat).substr(close + 1), " \n", true);
  if (fields.size() < 20) return std::nullopt;
  const auto threads = to_number(fields[17]);
  const auto start = to_number(fields[19]);
  if (fields[0].size() != 1 || !threads || !start) return std::nullopt;
  Process process;
  process.name = stat.substr(open + 1, close - open - 1);
  process.state = fields[0].front();
  process.threads = *threads;
  process.start = *start;
  const auto words = split(stat, " \t\n", true);
  process.word = std::string(words[21]);
  return process;
}

LocalId::LocalId(disk::Disk& disk, Path proc, const Clock& clock)
    : disk_(disk), proc_(std::move(proc)), clock_(clock) {}

std::optional<Identity> LocalId::identify(const std::string& text, std::string& why) const {
  const auto no = [&](std::string reason) {
    why = std::move(reason);
    return std::nullopt;
  };
  if (!to_pid(text)) return no("'" + text + "' is not a pid");
  const auto files =
      disk::read_files(disk_, {proc_ / text / "stat", proc_ / "stat", proc_ / kBootId});
  const auto process = Process::parse(files[0].text);
  if (!process || process->is_dead()) return no("process " + text + " is not running");
  const auto btime = parse_boot_time(files[1].text);
  if (!btime) return no("no boot time in " + (proc_ / "stat").native());
  // The shell would read two lines there and make an id of two lines: nobody could agree on that.
  if (process->name.find('\n') != std::string::npos)
    return no("the name of process " + text + " has a newline in it");

  Record record;
  record.host = host_name();
  record.boot = without_newline(files[2].text);
  (void)disk_.read_link(proc_ / "self/ns/pid", record.pidns);
  (void)disk_.read_link(proc_ / "self/ns/time", record.timens);  // none before Linux 5.6
  if (!is_our_procfs(record.pidns))
    return no(proc_.native() + " shows the processes of another pid namespace");
  record.pid = *to_pid(text);
  record.start = process->start;
  record.user = user_name();
  record.cmd = process->name;
  record.since = to_since(clock_.wall());
  return Identity{Uid::found(text + ":" + process->word + ":" + std::to_string(*btime)),
                  std::move(record)};
}

Record LocalId::record_of_caller() const {
  Record record;
  record.host = host_name();
  record.boot = without_newline(disk::read_files(disk_, {proc_ / kBootId})[0].text);
  (void)disk_.read_link(proc_ / "self/ns/pid", record.pidns);
  (void)disk_.read_link(proc_ / "self/ns/time", record.timens);
  record.user = user_name();
  record.since = to_since(clock_.wall());
  return record;
}

std::optional<std::uint64_t> LocalId::pid_of(const Uid& uid) {
  const auto local = LocalFields::parse(uid.str());
  return local ? std::optional(local->pid) : pid_of_other_kind(uid.str());
}

std::optional<std::uint64_t> LocalId::pid(const Uid& uid) const {
  return check(uid, std::nullopt).life == Life::alive ? pid_of(uid) : std::nullopt;
}

Verdict LocalId::check(const Uid& uid, const std::optional<Record>& record) const {
  const auto local = LocalFields::parse(uid.str());
  const auto pid = pid_of(uid);
  const bool is_usable_record = record && record->names_process() && pid && record->pid == *pid;
  if (!is_usable_record && !local) {
    if (is_of_other_kind(uid.str())) return {Life::unknown, "an id of another kind"};
    return {Life::dead, "malformed"};
  }
  std::string why;
  const auto here = ours(why);
  if (!here) return {Life::unknown, why};
  if (is_usable_record) return check_by_record(*record, *here);
  Verdict verdict = check_by_text(*local);
  if (verdict.life != Life::dead || !record || record->pid != 0) return verdict;
  // A record without a process still tells where its id means something, and "dead" only counts
  // there.
  if (!record->boot.empty() && record->boot != here->boot) return restarted(*record, *here);
  if (!record->pidns.empty() && record->pidns != here->pidns) {
    return {Life::unknown, "it was locked in another pid namespace"};
  }
  return verdict;
}

/// Of a record from another boot. Containers on two hosts may share a name, so one only of hosts
/// themselves.
Verdict LocalId::restarted(const Record& record, const Ours& here) {
  if (here.boot.empty()) return {Life::unknown, "no boot id of our own to compare with"};
  const bool are_hosts = record.pidns == kFirstPidNamespace && here.pidns == kFirstPidNamespace;
  if (are_hosts && record.host == here.host && is_telling_host_name(record.host)) {
    return {Life::dead, "the host was restarted since"};
  }
  return {Life::unknown, "it was locked on another host or in a container: " + record.host};
}

Verdict LocalId::check_by_record(const Record& record, const Ours& here) const {
  if (here.boot.empty()) return {Life::unknown, "no boot id of our own to compare with"};
  if (record.boot != here.boot) return restarted(record, here);
  if (record.pidns != here.pidns) {
    if (is_found_elsewhere(record)) return {Life::alive, "running in another pid namespace", true};
    return {Life::unknown, "it runs in another pid namespace"};
  }
  Process process;
  if (auto verdict = check_by_look(record.pid, process)) return *verdict;
  if (record.timens != here.timens)
    return {Life::unknown, "its start time is from another time namespace"};
  if (process.start == record.start) return {Life::alive, "running"};
  return {Life::dead, "its pid belongs to another process now"};
}

/// What a look at the pid settles; nothing if there is a living process, whose start time must
/// tell.
std::optional<Verdict> LocalId::check_by_look(std::uint64_t pid, Process& process) const {
  switch (look(pid, process)) {
    case Seen::gone:
      return Verdict{Life::dead, "no such process"};
    case Seen::hidden:
      return Verdict{Life::alive, "running, and hidden from us"};
    case Seen::unreadable:
      return Verdict{Life::unknown, "its state cannot be read"};
    case Seen::yes:
      break;
  }
  if (process.is_dead()) return Verdict{Life::dead, "a zombie"};
  return std::nullopt;
}

Verdict LocalId::check_by_text(const LocalFields& id) const {
  Process process;
  if (auto verdict = check_by_look(id.pid, process)) return *verdict;
  const auto btime = parse_boot_time(disk::read_files(disk_, {proc_ / "stat"})[0].text);
  if (!btime) return {Life::unknown, "no boot time in " + (proc_ / "stat").native()};
  const std::string true_start = std::to_string(process.start);
  const bool same_start = id.start == true_start || id.start == process.word;
  const bool same_boot = distance(*btime, id.btime) <= kBootTimeTolerance;
  if (same_start && same_boot) return {Life::alive, "running", false, id.start == true_start};
  if (same_start)
    return {
        Life::unknown,
        "same pid and start time, other boot time: the clock was stepped, or the host restarted"};
  if (id.start == "0" || id.start.starts_with('-')) {
    return {Life::unknown, "the START of its id is no start time: its name had blanks"};
  }
  if (process.word != true_start)
    return {Life::unknown, "its name has blanks, so the START of its id may have been any number"};
  if (*btime == id.btime) return {Life::dead, "its pid belongs to another process now"};
  // Seen from another time namespace, START and BTIME move against each other: their sum stays.
  const std::uint64_t hz = ticks_per_second();
  const auto start = to_number(id.start);
  if (start && distance(id.btime * hz + *start, *btime * hz + process.start) <= hz) {
    return {Life::unknown, "its start time may be from another time namespace"};
  }
  return {Life::dead, "its pid belongs to another process now"};
}

LocalId::Seen LocalId::look(std::uint64_t pid, Process& process) const {
  constexpr int kLooks = 50;
  for (int looks = 0; looks < kLooks; ++looks) {
    const auto file = disk::read_files(disk_, {proc_ / std::to_string(pid) / "stat"})[0];
    if (!file.error) {
      const auto parsed = Process::parse(file.text);
      if (!parsed) return Seen::unreadable;
      process = *parsed;
      if (!process.is_in_transit()) return Seen::yes;
      sched_yield();
      continue;
    }
    if (file.error == std::errc::permission_denied ||
        file.error == std::errc::operation_not_permitted) {
      return Seen::hidden;
    }
    if (file.error != std::errc::no_such_file_or_directory &&
        file.error != std::errc::no_such_process) {
      return Seen::unreadable;
    }
    // procfs may be mounted so that it shows no foreign process; the kernel still tells that there
    // is one, and only ESRCH tells that there is none
    return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH ? Seen::gone : Seen::hidden;
  }
  return Seen::unreadable;
}

std::optional<LocalId::Ours> LocalId::ours(std::string& why) const {
  Ours here;
  here.host = host_name();
  here.boot = without_newline(disk::read_files(disk_, {proc_ / kBootId})[0].text);
  (void)disk_.read_link(proc_ / "self/ns/pid", here.pidns);
  (void)disk_.read_link(proc_ / "self/ns/time", here.timens);  // none before Linux 5.6
  if (is_our_procfs(here.pidns)) return here;
  why = "no " + proc_.native() + " of this pid namespace to look at";
  return std::nullopt;
}

/// One in which we have one number: the pids of a process are listed from the namespace of the
/// procfs inwards.
bool LocalId::is_our_procfs(const std::string& pidns) const {
  if (pidns.empty()) return false;
  if (pidns == kFirstPidNamespace) return true;
  return namespace_pids(disk::read_files(disk_, {proc_ / "self/status"})[0].text).size() == 1;
}

/// From an outer pid namespace the processes of an inner one can be seen, under other numbers.
bool LocalId::is_found_elsewhere(const Record& record) const {
  std::vector<std::string> names;
  if (disk_.list(proc_, names)) return false;
  for (const std::string& name : names) {
    std::string pidns;
    if (!to_pid(name) || disk_.read_link(proc_ / name / "ns/pid", pidns) || pidns != record.pidns)
      continue;
    const auto files = disk::read_files(disk_, {proc_ / name / "status", proc_ / name / "stat"});
    const auto process = Process::parse(files[1].text);
    const auto pids = namespace_pids(files[0].text);
    if (!process || process->is_dead()) continue;
    if (!pids.empty() && to_number(pids.back()) == record.pid && process->start == record.start)
      return true;
  }
  return false;
}

Killed LocalId::kill(const Uid& uid, const std::optional<Record>& record, int signal,
                     std::chrono::milliseconds patience) const {
  const auto pid = pid_of(uid);
  if (!pid) return check(uid, record).life == Life::dead ? Killed::already_stale : Killed::unknown;
  // The pidfd first: whoever it stands for, it stands for him for ever. The verdict after it tells
  // whether he is the one.
  const Handle pidfd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(*pid), 0)));
  const Verdict verdict = check(uid, record);
  Process process;
  if (verdict.life == Life::dead) return Killed::already_stale;
  if (!is_here(verdict) || !verdict.is_certain || look(*pid, process) != Seen::yes ||
      !pidfd.is_open())
    return Killed::unknown;
  if (syscall(SYS_pidfd_send_signal, pidfd.fd(), signal, nullptr, 0) != 0) {
    return errno == ESRCH ? Killed::already_stale : Killed::not_permitted;
  }
  if (!ends_processes(signal)) return Killed::killed;
  pollfd gone{pidfd.fd(), POLLIN, 0};
  const Deadline deadline(clock_, patience);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    if (poll(&gone, 1, static_cast<int>(left.count())) == 1) return Killed::killed;
    if (deadline.passed()) return Killed::still_running;
  }
}

std::string LocalId::command_line(const Record& record) const {
  std::string text =
      disk::read_files(disk_, {proc_ / std::to_string(record.pid) / "cmdline"})[0].text;
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F)
      c = ' ';  // ends of words; and nothing that moves a cursor
  }
  constexpr std::size_t kEnough = 80;
  if (text.size() > kEnough) text.replace(kEnough, std::string::npos, "...");
  return text.empty() ? record.cmd : text;
}

}  // namespace holdfast::identity
