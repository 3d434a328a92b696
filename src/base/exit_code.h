/// Every number that a holdfast program can exit with. The shell lockers' numbers are law:
/// 0 is done, 1..9 is "not now, trying again makes sense", 10 and up is "stop spinning".
/// Two tools use one number for different things, hence one enum per family.
/// man/holdfast-exit.7 repeats this list, and a test compares the two.
#pragma once

namespace holdfast {

/// Locks: fast_lock, check_lock, grace_lock, hostpid_lock, lock_local, lock_ssh.
enum class LockExit : int {
  ok = 0,
  contended = 1,         ///< another id holds it, or the asked thing is not so
  proposal_failed = 2,   ///< the proposal could not be written or moved; stderr says why
  usage = 10,            ///< wrong words on the command line
  cross_device = 12,     ///< the lock directory spans two filesystems: no atomic rename there
  output_failed = 14,    ///< the answer could not be written to standard output
  already_mine = 20,     ///< this very id holds it
  no_such_process = 20,  ///< the pid given is not running, or is not a pid
};

/// semaphore, semaphore_ssh. With a locker of the user's own also what that exits with, from 10 up.
enum class SemaphoreExit : int {
  ok = 0,
  none_free = 1,         ///< all slots are held, or the asked thing is not so
  proposal_failed = 2,   ///< a slot could not be tried or given up; stderr says why
  usage = 10,            ///< wrong words on the command line
  cross_device = 12,     ///< the slot spans two filesystems: no atomic rename there
  output_failed = 14,    ///< the answer could not be written to standard output
  not_held = 19,         ///< release: this id holds no slot
  already_mine = 20,     ///< this very id holds a slot
  no_such_process = 20,  ///< the pid given is not running, or is not a pid
};

/// Locks with a line of waiters: rw_lock, fair_lock, fair_semaphore, multi_lock.
enum class LineExit : int {
  ok = 0,
  refused = 1,           ///< others hold it, or time is up, or the asked thing is not so
  failed = 2,            ///< could not be tried; stderr says why
  usage = 10,            ///< wrong words on the command line
  cross_device = 12,     ///< the lock directory spans two filesystems: no atomic rename there
  output_failed = 14,    ///< the answer could not be written to standard output
  not_held = 19,         ///< nothing to unlock, release, upgrade or downgrade
  already_mine = 20,     ///< this very id holds it
  no_such_process = 20,  ///< the pid given is not running, or is not a pid
  deadlock = 23,         ///< upgrade: another sharer upgrades already
};

/// `is_stale LOCK` of the lockers.
enum class StaleExit : int {
  stale = 0,     ///< the owner is dead
  alive = 1,     ///< the owner lives
  free = 2,      ///< there is no owner
  unknown = 13,  ///< nobody here can tell
};

/// local_id.
enum class LocalIdExit : int {
  ok = 0,        ///< done; for is_stale: the process is dead
  no = 1,        ///< not running; for is_stale: the process lives
  usage = 10,    ///< wrong words on the command line
  unknown = 13,  ///< nobody here can tell
};

/// ssh_id, and what its `is_stale` and `is_host_compatible` say.
enum class SshIdExit : int {
  ok = 0,            ///< done; for is_stale: the process is dead
  no = 1,            ///< not running; for is_stale: the process lives
  usage = 10,        ///< wrong words on the command line
  unreachable = 10,  ///< no answer from the host
  wrong_host = 11,   ///< the host that answers goes by another full name
  no_uid = 12,       ///< no boot time or host name to make an id of
  cut_short = 13,    ///< the answer is not whole, or does not tell
  malformed = 20,    ///< that is no uid
  no_pid = 127,      ///< an empty pid or uid
};

/// `kill` of the id helpers and `kill_owner` of the lockers.
enum class KillExit : int {
  killed = 0,          ///< signalled, and for a deadly signal seen to be gone
  already_stale = 1,   ///< it was dead before
  free = 2,            ///< kill_owner: there is no owner
  unknown = 13,        ///< nobody here can tell who that is: nothing was signalled
  still_running = 15,  ///< signalled, but it did not die in time
  not_permitted = 16,  ///< the kernel refused the signal
};

/// holdfastd.
enum class ServerExit : int {
  ok = 0,      ///< served until it was told to stop; for check: the database is sound
  failed = 1,  ///< could not do it, or check found faults; stderr says why
  usage = 10,  ///< wrong words on the command line or in the config file
};

/// An exit status, made from a number of any family.
class Exit {
 public:
  Exit(LockExit code) : code_(static_cast<int>(code)) {}
  Exit(SemaphoreExit code) : code_(static_cast<int>(code)) {}
  Exit(LineExit code) : code_(static_cast<int>(code)) {}
  Exit(StaleExit code) : code_(static_cast<int>(code)) {}
  Exit(LocalIdExit code) : code_(static_cast<int>(code)) {}
  Exit(SshIdExit code) : code_(static_cast<int>(code)) {}
  Exit(ServerExit code) : code_(static_cast<int>(code)) {}
  Exit(KillExit code) : code_(static_cast<int>(code)) {}

  /// The status of a program that we ran for the caller and pass on unchanged.
  static Exit of_program(int status) { return Exit(status); }

  int code() const { return code_; }

 private:
  explicit Exit(int code) : code_(code) {}
  int code_;
};

}  // namespace holdfast
