#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "composite/guard.h"
#include "composite/holder.h"
#include "composite/line.h"
#include "composite/patience.h"
#include "lock/fast_lock.h"
#include "policy/policy.h"

namespace holdfast::composite {

/// A lock that one holds alone or several share, with a line for those who wait.
///
///     std::string why;
///     const auto self = Holder::this_process(why);
///     RwLock lock("/srv/repo/index.lock", *self);
///     if (auto guard = lock.hold(Mode::shared, Patience::of(5s))) { ... }
///
/// Decides:  nothing; FastLock does, in owner/. So a shell script that takes the same path as a
///           plain lock counts as one that holds it alone, and is kept out as well as it keeps out.
/// Dead:     holders are judged by the policy of `holder`, all of them: several dead sharers are
///           recovered together.
/// Killed:   as FastLock and Line. A right to upgrade that stays goes with the hold.
/// Threads:  one RwLock per thread.
class RwLock {
 public:
  RwLock(const disk::SafePath& lock, const Holder& holder, Order order = Order::fair,
         disk::Disk& disk = disk::posix());

  /// held, already_mine, failed; contended: patience is over, or was_stopped().
  lock::Answer acquire(lock::Mode mode, const Patience& patience);

  /// As FastLock::upgrade, with patience. Refused, the hold is as before. deadlock: another one
  /// that shares it upgrades already, or another task of this id; each would wait for the other for
  /// ever.
  lock::Answer upgrade(const Patience& patience);
  lock::Answer downgrade();
  lock::Answer unlock();

  /// The same as acquire with a guard that unlocks, or nothing: then refusal() says why.
  std::optional<Guard> hold(lock::Mode mode, const Patience& patience);
  const lock::Answer& refusal() const { return refusal_; }

  bool was_stopped() const { return was_stopped_; }

  /// Called once, after a wait of a second.
  void set_teller(std::function<void()> tell) { tell_ = std::move(tell); }

  /// The leaf of `holder`, whatever the text of its id was when it locked.
  /// That it cannot be looked at is told by `ec`, or std::system_error.
  std::optional<lock::Leaf> own_leaf(std::error_code& ec) const;
  std::optional<lock::Leaf> own_leaf() const;
  const lock::FastLock& fast() const { return lock_; }

  /// Removes what the dead left, holders and waiters, and as Line::clean the tickets of waiters
  /// that nobody can judge. True if nothing is left of the lock.
  bool clean(std::chrono::seconds age, std::optional<std::chrono::seconds> unknown = std::nullopt);

 private:
  class Entry;
  class Newcomer;
  lock::Answer stand(Order order, lock::Mode mode, const Patience& patience, Entry& entry);
  lock::Answer wait_to_be_alone(const Uid& id, const Patience& patience);
  lock::Answer take_right();
  void give_up_right();
  lock::Answer take_back(const Uid& id);
  lock::Answer unreadable(const lock::Leaf& own) const;
  lock::Answer not_held(std::error_code looked) const;

  disk::Disk& disk_;
  const Holder& holder_;
  lock::FastLock lock_;
  std::unique_ptr<policy::Policy> policy_;
  Order order_;
  bool was_stopped_ = false;
  std::function<void()> tell_;
  lock::Answer refusal_{lock::Outcome::failed, "not tried"};
};

}  // namespace holdfast::composite
