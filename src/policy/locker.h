#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>

#include "disk/disk.h"
#include "lock/fast_lock.h"

namespace holdfast {

/// A lock for the process that runs this code: the library's front door.
///
///     holdfast::Locker locker("/srv/repo/gc.lock");
///     if (auto guard = locker.try_lock()) {
///       ...                                 // held until the guard goes
///     } else {
///       std::cerr << locker.refusal().why;  // who has it, or what went wrong
///     }
///
/// The same lock as `lock_local lock /srv/repo/gc.lock $$` takes: shell and C++ holders exclude
/// each other, and a holder that died is recovered by the next try_lock.
///
/// Threads:  one Locker per thread; two threads of one process exclude each other like two
///           processes.
/// Fork:     the child does not hold what its parent holds; a guard that reaches it does nothing.
class Locker {
 public:
  class Guard {
   public:
    Guard(Guard&&) noexcept;
    Guard& operator=(Guard&&) noexcept;  ///< unlocks what it held before
    ~Guard();                            ///< unlocks, in the process that locked

    /// Unlocks now. False if it was not held any more (somebody removed it, and the work done under
    /// it is in doubt), or if the disk refused: then is_held() is still true, and it can be tried
    /// again.
    bool unlock();

    /// Whether it is still held, read from the disk: for a last look before work that cannot be
    /// undone.
    bool is_held() const;

   private:
    friend class Locker;
    struct Held;
    explicit Guard(std::unique_ptr<Held> held);
    std::unique_ptr<Held> held_;
  };

  explicit Locker(disk::SafePath lock, disk::Disk& disk = disk::posix());

  /// One attempt. Nothing if it is held by another (`refusal().outcome` is contended), held by this
  /// process through another guard (already_mine), or cannot be had (failed).
  std::optional<Guard> try_lock();

  /// What the last try_lock that gave nothing ran into.
  const lock::Answer& refusal() const { return refusal_; }

 private:
  struct Self;
  disk::SafePath path_;
  disk::Disk& disk_;
  std::shared_ptr<const Self>
      self_;  ///< read once in each process: an id must not change while it holds
  lock::Answer refusal_{lock::Outcome::failed, "not tried"};
};

}  // namespace holdfast
