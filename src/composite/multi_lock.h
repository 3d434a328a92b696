#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "composite/guard.h"
#include "composite/holder.h"
#include "composite/patience.h"
#include "disk/disk.h"
#include "lock/fast_lock.h"

namespace holdfast::composite {

/// One of several locks, and how it is wanted.
struct Want {
  disk::Path path;
  lock::Mode mode = lock::Mode::exclusive;
};

/// Several locks at once: all, or none.
///
/// Decides:  nothing; each is an RwLock with its line.
/// Order:    by the number of the folder that a lock is in, then its name: those are the same on
///           every host of a server, whatever path or link leads there. All who take them in this
///           order cannot wait for each other in a circle. (Twins on two filesystems, with equal
///           numbers and names, come in an order of this host.) A lock that is named twice is taken
///           once, alone if one of the two says so.
/// Others:   may take them in another order, a script for one. So who has some and waits longer
///           than the hold limit for the next gives all back, and begins anew after a while.
/// Killed:   leaves single locks, each recovered by itself.
/// Threads:  one MultiLock per thread.
class MultiLock {
 public:
  static constexpr std::chrono::seconds kHoldLimit{30};

  /// A folder that is missing is told by acquire() and release().
  MultiLock(std::span<const Want> wants, const Holder& holder, disk::Disk& disk = disk::posix());

  /// Each once, or none of them (no patience); or in their order, until all are there.
  /// contended: one is held by others, or time is up, or was_stopped(); `at()` is the one. failed
  /// too if one that was had already may not have gone back.
  lock::Answer acquire(const Patience& patience, std::chrono::seconds hold_limit = kHoldLimit);

  /// Gives all back, the last one first. not_mine: one of them was not held, the others went.
  lock::Answer release();

  /// acquire with a guard, or nothing: then refusal() says why.
  std::optional<Guard> hold(const Patience& patience, std::chrono::seconds hold_limit = kHoldLimit);
  const lock::Answer& refusal() const { return refusal_; }

  bool was_stopped() const { return was_stopped_; }

  /// In their order, each once.
  const std::vector<Want>& wants() const { return wants_; }

  /// The one that the last answer was about.
  const disk::Path& at() const { return at_; }

 private:
  lock::Answer take_all(const Patience& patience, std::chrono::seconds hold_limit,
                        bool& is_limit_over);
  std::optional<lock::Answer> give_back(std::size_t count);

  disk::Disk& disk_;
  const Holder& holder_;
  std::vector<Want> wants_;
  std::vector<std::string> nonces_;  ///< of the holds, in the order of wants_
  std::optional<lock::Answer> missing_;
  disk::Path at_;
  bool was_stopped_ = false;
  lock::Answer refusal_{lock::Outcome::failed, "not tried"};
};

}  // namespace holdfast::composite
