#pragma once

#include <sys/types.h>

#include <memory>

#include "lock/fast_lock.h"

namespace holdfast::composite {

/// What a Guard keeps: one hold of one kind of lock.
class Held {
 public:
  virtual ~Held() = default;

  /// Gives up this hold and no later one of the same id: released, not_mine (somebody removed it),
  /// or failed (the disk refused; it can be tried again).
  virtual lock::Outcome release() = 0;

  /// Read from the disk.
  virtual bool is_held() const = 0;
};

/// Holds until it goes.
///
/// Fork:     the child does not hold what its parent holds; a guard that reaches it does nothing.
/// Threads:  one at a time; it may be moved to another.
class Guard {
 public:
  explicit Guard(std::unique_ptr<Held> held);
  Guard(Guard&&) noexcept = default;
  Guard& operator=(Guard&&) noexcept;  ///< releases what it held before
  ~Guard();                            ///< releases, in the process that acquired

  /// Releases now. False if it was not held any more (somebody removed it, and the work done under
  /// it is in doubt), or if the disk refused: then it can be tried again.
  bool release();

  /// Whether it is still held, read from the disk: for a last look before work that cannot be
  /// undone.
  bool is_held() const;

 private:
  bool is_ours() const;

  std::unique_ptr<Held> held_;
  pid_t process_;
};

}  // namespace holdfast::composite
