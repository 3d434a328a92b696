#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "composite/guard.h"
#include "disk/disk.h"
#include "identity/checker.h"
#include "lock/fast_lock.h"

namespace holdfast::composite {

/// How much an attempt on a held slot may do.
enum class Effort {
  fast,     ///< it is refused
  recover,  ///< its holder is asked about, as the policy of the locker has it
};

/// What a look at a slot shows, before any attempt.
enum class Seen {
  free,     ///< nobody is in
  mine,     ///< our own id is
  held,     ///< another is, or nobody can look in
  foreign,  ///< a file or a link in the place of a slot: it is left alone
};

/// What came of an attempt on a slot.
struct Taken {
  lock::Answer answer;
  std::string slot{};  ///< its name, if it was got
  int status = -1;     ///< what a locker of the user's own exited with, where that was run

  bool is_held() const { return answer.outcome == lock::Outcome::held; }
  /// Nothing that another slot could answer differently: where a lock tool exits with 10 or more.
  bool is_final() const {
    using lock::Outcome;
    const Outcome is = answer.outcome;
    return is == Outcome::held || is == Outcome::already_mine || is == Outcome::cross_device ||
           status > kLastRetry;
  }

  static constexpr int kLastRetry = 9;
};

/// Locks the slots of a semaphore for one id, each a lock of its own at a path of its own.
class SlotLocker {
 public:
  virtual ~SlotLocker() = default;

  /// Whose slots, as messages name it.
  virtual std::string holder() const = 0;

  /// Whether it can tell before an attempt; else each slot has to be tried, and all are `held`.
  virtual bool can_look() const = 0;
  /// `ec`: why nobody can look in.
  virtual Seen look(const disk::SafePath& slot, std::error_code& ec) const = 0;
  virtual Taken lock(const disk::SafePath& slot, Effort effort) = 0;
  /// Of a held slot: no if a cheap check shows its holder alive, which spares an attempt in vain.
  virtual bool may_recover(const disk::SafePath& slot) const = 0;
  virtual lock::Answer unlock(const disk::SafePath& slot) = 0;
  /// No, with a reason in `ec`: nobody can look in.
  virtual bool is_mine(const disk::SafePath& slot, std::error_code& ec) const = 0;
  virtual std::vector<lock::Leaf> owner(const disk::SafePath& slot) = 0;

  /// Of a slot that lock() got, for a Guard.
  virtual std::unique_ptr<Held> hold(const disk::SafePath& slot, const Taken& taken) = 0;

  /// Whether it knows the two below.
  virtual bool can_clean() const = 0;
  /// As Policy::staleness.
  virtual std::optional<identity::Verdict> staleness(const disk::SafePath& slot) const = 0;
  /// Removes what nobody uses; true if nobody uses the slot.
  virtual bool clean(const disk::SafePath& slot, std::chrono::seconds age) = 0;
};

}  // namespace holdfast::composite
