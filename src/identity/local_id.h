#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "disk/disk.h"
#include "identity/checker.h"
#include "identity/identity.h"

namespace holdfast::identity {

enum class Killed { killed, already_stale, unknown, still_running, not_permitted };

/// Ids of processes on this host: PID:START:BTIME.
///
/// The text is exactly what the shell's local_id.sh computes, the "22nd blank-separated word" of
/// procfs PID/stat included: a shell peer that computed another text would call our live holder
/// stale. The true start time is in the record.
///
/// A verdict, first row that fits:
///
///   a record of this boot and pid namespace    no such pid, another start time: dead; same: alive
///   of this boot, another pid namespace        alive if found from here, else unknown
///   of another boot, same host name            dead, the host was restarted; in containers unknown
///   of another host                            unknown
///   no record, four fields or more             unknown: an id of another kind
///   no record, PID:START:BTIME                 same pid, START in either form, BTIME within 1 s:
///                                              alive; no such pid, or another START at our BTIME:
///                                              dead; what only a stepped clock or another time
///                                              namespace could explain: unknown
///   anything else                              dead: malformed, as the shell has it
///
/// A pid that exists but hides from us is alive. A zombie without a living thread is dead. Without
/// a procfs of our own pid namespace all are unknown.
class LocalId final : public Checker {
 public:
  explicit LocalId(disk::Disk& disk, disk::Path proc = "/proc", const Clock& clock = real_clock());

  /// Of a running process, or nothing with the reason in `why`. `pid` is what a user typed.
  std::optional<Identity> identify(const std::string& pid, std::string& why) const;

  /// A record for an id that stands for no process we know: who locks, from where, since when.
  Record record_of_caller() const;

  /// The pid of a living process's id.
  std::optional<std::uint64_t> pid(const Uid& uid) const;

  Verdict check(const Uid& uid, const std::optional<Record>& record) const override;
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }

  /// Signals the process behind `uid` through a pidfd, so that a recycled pid cannot be hit. After
  /// a signal that ends processes, waits until it is gone or `patience` is over.
  Killed kill(const Uid& uid, const std::optional<Record>& record, int signal,
              std::chrono::milliseconds patience) const;

  /// The command line of a process of this host, or the name that the record has. For people.
  std::string command_line(const Record& record) const;

  /// The pid in an id, of three fields or of four with a host name in front. Nothing: no locker
  /// wrote that.
  static std::optional<std::uint64_t> pid_of(const Uid& uid);

 private:
  struct Process;  // what PID/stat says
  struct Ours;     // this host, boot and namespaces
  struct LocalFields;
  enum class Seen { yes, gone, hidden, unreadable };

  Seen look(std::uint64_t pid, Process& process) const;
  std::optional<Ours> ours(std::string& why) const;
  bool is_our_procfs(const std::string& pidns) const;
  static Verdict restarted(const Record& record, const Ours& here);
  Verdict check_by_record(const Record& record, const Ours& here) const;
  Verdict check_by_text(const LocalFields& id) const;
  std::optional<Verdict> check_by_look(std::uint64_t pid, Process& process) const;
  bool is_found_elsewhere(const Record& record) const;

  disk::Disk& disk_;
  disk::Path proc_;
  const Clock& clock_;
};

}  // namespace holdfast::identity
