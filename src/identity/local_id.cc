#include "identity/local_id.h"

#include <poll.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>
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

/// A look-up in a directory service has no place on the way to a lock, so the record has the number
/// of the user and what the environment says beside it.
void put_user(Record& record) {
  constexpr std::size_t kLongestName = 64;
  record.uid = getauxval(AT_EUID);
  for (const char* variable : {"LOGNAME", "USER"}) {
    const char* name = std::getenv(variable);
    if (!name || !*name) continue;
    record.user.assign(name, strnlen(name, kLongestName));
    return;
  }
}

/// Whether the kernel refused to look, which is not the same as "there is none".
bool is_no_look(std::error_code ec) {
  return ec && ec != std::errc::no_such_file_or_directory && ec != std::errc::no_such_process;
}

[[noreturn]] void cannot_read(const Path& file, std::error_code ec) {
  throw std::system_error(ec, "cannot read " + file.native());
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
  if (is_no_look(files[0].error)) cannot_read(proc_ / text / "stat", files[0].error);
  if (files[1].error) cannot_read(proc_ / "stat", files[1].error);
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
  put_user(record);
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
  put_user(record);
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
  if (!here.boot.empty() && record.boot == here.boot && record.pidns != here.pidns) {
    return check_elsewhere(record, id.btime, here);
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

/// Of a process of another pid namespace of this boot. From the first namespace, which contains all
/// others, a caller from whom no process is hidden can prove that it has ended. The boot times must
/// agree as well: machines that were resumed from one image share a boot id, but their clocks were
/// set when they were resumed.
Verdict LocalId::check_elsewhere(const Record& record, std::uint64_t btime,
                                 const Place& here) const {
  constexpr int kLooks = 2;  // a process that execs just now may be missed once
  const bool sees_all = here.pidns == kFirstPidNamespace && here.btime &&
                        is_same_boot_time(*here.btime, btime) && sees_every_process();
  for (int looks = 0; looks < kLooks; ++looks) {
    switch (find_elsewhere(record)) {
      case Search::found:
        return {Life::alive, "running in another pid namespace", true};
      case Search::not_found:
        break;
      case Search::cannot_tell:
        return {Life::unknown, "it runs in another pid namespace"};
    }
  }
  if (sees_all) return {Life::dead, "no process of this host is in its place in its pid namespace"};
  return {Life::unknown,
          "it was locked in another pid namespace, in a container perhaps, and only root outside "
          "of all containers can see whether it has ended"};
}

/// With CAP_SYS_PTRACE in the first user namespace, procfs hides no process. A procfs that was
/// mounted to hide some is not trusted even then.
bool LocalId::sees_every_process() const {
  constexpr std::uint64_t kMayTrace = std::uint64_t{1} << 19;  // CAP_SYS_PTRACE
  constexpr std::string_view kFirstUserNamespace = "user:[4026531837]";
  std::string users;
  if (disk_.read_link(proc_ / "self/ns/user", users) || users != kFirstUserNamespace) return false;
  const auto files = disk::read_files(disk_, {proc_ / "self/status", proc_ / "self/mountinfo"});
  const auto words = split(line_after(files[0].text, "CapEff:").value_or(""), " \t", true);
  std::uint64_t rights = 0;
  if (words.empty()) return false;
  std::from_chars(words[0].data(), words[0].data() + words[0].size(), rights, 16);
  return (rights & kMayTrace) != 0 && !files[1].error &&
         files[1].text.find("hidepid=") == std::string::npos;
}

/// The processes of an inner pid namespace can be seen from an outer one, under other numbers.
LocalId::Search LocalId::find_elsewhere(const Record& record) const {
  std::vector<std::string> names;
  if (disk_.list(proc_, names)) return Search::cannot_tell;
  std::string timens;
  (void)disk_.read_link(proc_ / "self/ns/time", timens);
  Search result = Search::not_found;
  for (const std::string& name : names) {
    if (!to_pid(name)) continue;
    std::string pidns;
    const std::error_code linked = disk_.read_link(proc_ / name / "ns/pid", pidns);
    if (!linked && pidns != record.pidns) continue;
    const auto files = disk::read_files(disk_, {proc_ / name / "status", proc_ / name / "stat"});
    if (files[1].error && !is_no_look(files[1].error)) continue;  // it ended while we looked
    const auto process = ProcStat::parse(files[1].text);
    if (process && process->is_dead()) continue;
    const auto pids = namespace_pids(files[0].text);
    if (!process || pids.empty() || process->is_in_transit()) {
      result = Search::cannot_tell;
      continue;
    }
    // one number: it is in the namespace of this procfs, which is not the one of the record
    if (pids.size() == 1 || to_number(pids.back()) != record.pid) continue;
    const bool is_same_start = process->start == record.start;
    if (is_same_start && !linked) return Search::found;
    // either its namespace cannot be read, or their start times do not compare
    if (is_same_start || record.timens != timens) result = Search::cannot_tell;
  }
  return result;
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
