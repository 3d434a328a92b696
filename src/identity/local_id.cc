#include "identity/local_id.h"

#include <poll.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace holdfast::identity {

using disk::Handle;
using disk::Path;

namespace {

constexpr const char* kBootId = "sys/kernel/random/boot_id";

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

/// PID:START:BTIME.
std::optional<TextId> parse_local(std::string_view text) {
  const auto fields = split(text, ":", false);
  if (fields.size() != 3) return std::nullopt;
  return TextId::parse(fields[0], fields[1], fields[2]);
}

/// FQDN:PID:START:BTIME.
std::optional<TextId> parse_other(std::string_view text) {
  const auto fields = split(text, ":", false);
  if (fields.size() != 4 || fields[0].empty() || !to_number(fields[2])) return std::nullopt;
  return TextId::parse(fields[1], fields[2], fields[3]);
}

}  // namespace

bool ends_processes(int signal) {
  return signal == SIGKILL || signal == SIGTERM || signal == SIGINT || signal == SIGQUIT ||
         signal == SIGABRT;
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
  const auto process = ProcStat::parse(files[0].text);
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
  auto id = parse_local(uid.str());
  if (!id) id = parse_other(uid.str());
  return id ? std::optional(id->pid) : std::nullopt;
}

std::optional<std::uint64_t> LocalId::pid(const Uid& uid) const {
  return check(uid, std::nullopt).life == Life::alive ? pid_of(uid) : std::nullopt;
}

Verdict LocalId::check(const Uid& uid, const std::optional<Record>& record) const {
  const auto local = parse_local(uid.str());
  const auto other = local ? std::nullopt : parse_other(uid.str());
  const TextId* const id = local ? &*local : other ? &*other : nullptr;
  const bool is_usable_record = record && record->names_process() && id && record->pid == id->pid;
  if (!is_usable_record && !local) {
    if (is_of_other_kind(uid.str())) return {Life::unknown, "an id of another kind"};
    // with a record of ours it is somebody's own id, which only his own checker knows
    if (record && record->pid == 0) return {Life::unknown, "an id that is no uid"};
    return {Life::dead, "malformed"};
  }
  std::string why;
  const auto here = place(why);
  if (!here) return {Life::unknown, why};
  if (is_usable_record) return check_by_record(*record, *id, local.has_value(), *here);
  Verdict verdict = judge_by_text(*local, *here, look(local->pid));
  if (!record || record->pid != 0) return verdict;
  return dead_only_there(std::move(verdict), *record, local->btime, *here);
}

Verdict LocalId::check_by_record(const Record& record, const TextId& id, bool is_local,
                                 const Place& here) const {
  // The full name in an id of the other kind is not ours to compare: two hosts may share a short
  // one.
  if (!is_local && !here.boot.empty() && record.boot != here.boot) {
    return {Life::unknown, "it was locked on " + record.host + ", in another boot"};
  }
  if (record.boot == here.boot && record.pidns != here.pidns && is_found_elsewhere(record)) {
    return {Life::alive, "running in another pid namespace", true};
  }
  return judge_by_record(record, id.btime, here, look(record.pid));
}

Sight LocalId::look(std::uint64_t pid) const {
  using Kind = Sight::Kind;
  constexpr int kLooks = 50;
  for (int looks = 0; looks < kLooks; ++looks) {
    const auto file = disk::read_files(disk_, {proc_ / std::to_string(pid) / "stat"})[0];
    if (!file.error) {
      const auto parsed = ProcStat::parse(file.text);
      if (!parsed) return {Kind::unreadable};
      if (!parsed->is_in_transit()) return {Kind::seen, *parsed};
      sched_yield();
      continue;
    }
    if (file.error == std::errc::permission_denied ||
        file.error == std::errc::operation_not_permitted) {
      return {Kind::hidden};
    }
    if (file.error != std::errc::no_such_file_or_directory &&
        file.error != std::errc::no_such_process) {
      return {Kind::unreadable};
    }
    // procfs may be mounted so that it shows no foreign process; the kernel still tells that there
    // is one, and only ESRCH tells that there is none
    return {::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH ? Kind::gone : Kind::hidden};
  }
  return {Kind::unreadable};
}

std::optional<Place> LocalId::place(std::string& why) const {
  Place here;
  here.host = host_name();
  const auto files = disk::read_files(disk_, {proc_ / kBootId, proc_ / "stat"});
  here.boot = without_newline(files[0].text);
  here.btime = parse_boot_time(files[1].text);
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
    const auto process = ProcStat::parse(files[1].text);
    const auto pids = namespace_pids(files[0].text);
    if (!process || process->is_dead()) continue;
    if (!pids.empty() && to_number(pids.back()) == record.pid && process->start == record.start)
      return true;
  }
  return false;
}

KillExit LocalId::kill(const Uid& uid, const std::optional<Record>& record, int signal,
                       std::chrono::milliseconds patience) const {
  const auto pid = pid_of(uid);
  if (!pid)
    return check(uid, record).life == Life::dead ? KillExit::already_stale : KillExit::unknown;
  // The pidfd first: whoever it stands for, it stands for him for ever. The verdict after it tells
  // whether he is the one.
  const Handle pidfd(static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(*pid), 0)));
  const Verdict verdict = check(uid, record);
  if (verdict.life == Life::dead) return KillExit::already_stale;
  if (!is_here(verdict) || !verdict.is_certain || look(*pid).kind != Sight::Kind::seen ||
      !pidfd.is_open())
    return KillExit::unknown;
  if (syscall(SYS_pidfd_send_signal, pidfd.fd(), signal, nullptr, 0) != 0) {
    return errno == ESRCH ? KillExit::already_stale : KillExit::not_permitted;
  }
  if (!ends_processes(signal)) return KillExit::killed;
  pollfd gone{pidfd.fd(), POLLIN, 0};
  const Deadline deadline(clock_, patience);
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline.left());
    if (poll(&gone, 1, static_cast<int>(left.count())) == 1) return KillExit::killed;
    if (deadline.passed()) return KillExit::still_running;
  }
}

std::string LocalId::command_line(const Record& record) const {
  std::string text =
      disk::read_files(disk_, {proc_ / std::to_string(record.pid) / "cmdline"})[0].text;
  while (!text.empty() && text.back() == '\0') text.pop_back();
  text = printable(std::move(text), ' ');  // a zero byte ends each word
  constexpr std::size_t kEnough = 80;
  if (text.size() > kEnough) text.replace(kEnough, std::string::npos, "...");
  return text.empty() ? record.cmd : text;
}

}  // namespace holdfast::identity
