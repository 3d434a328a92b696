#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/exit_code.h"
#include "disk/disk.h"
#include "identity/checker.h"
#include "identity/identity.h"
#include "identity/ladder.h"

namespace holdfast::identity {

/// Whoever sends that wants to see the process gone.
bool ends_processes(int signal);

/// Ids of processes on this host: PID:START:BTIME.
///
/// The text is exactly what the shell's local_id.sh computes, the "22nd blank-separated word" of
/// procfs PID/stat included: a shell peer that computed another text would call our live holder
/// stale. The true start time is in the record.
///
/// A verdict comes from the ladder in ladder.h. Beyond it, a process of an inner pid namespace that
/// is found from here is alive. One that is not found is dead if the caller is in the first pid
/// namespace, is root there, and could look at every process; else it is unknown. An
/// id of another kind (four fields or more) is unknown unless its record is of this boot, and what
/// is no uid at all is unknown if it has a record without a pid: somebody locked with an id of his
/// own. Without one it is dead, as the shell has it.
///
/// A pid that exists but hides from us is alive. A zombie without a living thread is dead. Without
/// a procfs of our own pid namespace all are unknown.
class LocalId final : public Checker {
 public:
  explicit LocalId(disk::Disk& disk, disk::Path proc = "/proc", const Clock& clock = real_clock());

  /// Of a running process, or nothing with the reason in `why`. `pid` is what a user typed.
  /// Throws std::system_error if procfs cannot be read: that tells nothing about the process.
  std::optional<Identity> identify(const std::string& pid, std::string& why) const;

  /// A record for an id that stands for no process we know: who locks, from where, since when.
  Record record_of_caller() const;

  /// This host, boot and namespaces; nothing if their procfs is not there.
  std::optional<Place> place(std::string& why) const;

  /// The pid of a living process's id.
  std::optional<std::uint64_t> pid(const Uid& uid) const;

  Verdict check(const Uid& uid, const std::optional<Record>& record) const override;
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }

  /// Signals the process behind `uid` through a pidfd, so that a recycled pid cannot be hit. After
  /// a signal that ends processes, waits until it is gone or `patience` is over.
  KillExit kill(const Uid& uid, const std::optional<Record>& record, int signal,
                std::chrono::milliseconds patience) const;

  /// The command line of a process of this host, or the name that the record has. For people.
  std::string command_line(const Record& record) const;

  /// The pid in an id, of three fields or of four with a host name in front. Nothing: no locker
  /// wrote that.
  static std::optional<std::uint64_t> pid_of(const Uid& uid);

 private:
  Sight look(std::uint64_t pid) const;
  bool is_our_procfs(const std::string& pidns) const;
  Verdict check_by_record(const Record& record, const TextId& id, bool is_local,
                          const Place& here) const;
  enum class Search { found, not_found, cannot_tell };
  Verdict check_elsewhere(const Record& record, std::uint64_t btime, const Place& here) const;
  bool sees_every_process() const;
  Search find_elsewhere(const Record& record) const;

  disk::Disk& disk_;
  disk::Path proc_;
  const Clock& clock_;
};

}  // namespace holdfast::identity
