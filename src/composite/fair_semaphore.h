#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "composite/guard.h"
#include "composite/holder.h"
#include "composite/line.h"
#include "composite/own_slots.h"
#include "composite/patience.h"
#include "composite/semaphore.h"

namespace holdfast::composite {

/// A Semaphore with a line: permits go to those who wait in the order in which they came.
///
/// Decides:  nothing; each slot is a lock, and there are max of them. So never more than max
///           permits are out, whatever becomes of the line.
/// Several:  a waiter that wants n permits and has its turn takes free slots in one search, and
///           keeps them until it has n. The search ends when its patience is over or a signal came.
///           Two waiters that arrive at the same time can both believe that it is their turn. So
///           after each search that did not find enough, a waiter looks at the queue again, and
///           gives all slots back if another one is before it. A waiter that gives up returns all
///           slots before it removes its ticket.
/// Others:   callers of Semaphore know no line; they may take a slot before everybody.
/// Killed:   as Semaphore and Line; slots that were taken so far are held by `self`, which may live
///           on if another process waited for it: release() gives them back.
/// Threads:  one FairSemaphore per thread.
class FairSemaphore {
 public:
  FairSemaphore(const disk::SafePath& semaphore, const Holder& holder,
                disk::Disk& disk = disk::posix());

  /// held, already_mine (this id has permits), failed; contended: patience is over, or
  /// was_stopped().
  lock::Answer acquire(std::uint32_t max, std::uint32_t permits, const Patience& patience);

  /// Gives back so many permits, or all. not_mine: there are none, or fewer.
  lock::Answer release(std::optional<std::uint32_t> permits = std::nullopt);

  /// acquire with a guard that gives all back, or nothing: then refusal() says why.
  std::optional<Guard> hold(std::uint32_t max, std::uint32_t permits, const Patience& patience);
  const lock::Answer& refusal() const { return refusal_; }

  bool was_stopped() const { return was_stopped_; }
  void set_teller(std::function<void()> tell) { tell_ = std::move(tell); }

  Semaphore& slots() { return semaphore_; }

  /// Semaphore::clean, after Line::clean.
  bool clean(std::chrono::seconds age, std::optional<std::chrono::seconds> unknown = std::nullopt);

 private:
  class Permits;
  lock::Answer acquire(Permits& wanted, std::uint32_t max, std::uint32_t permits,
                       const Patience& patience);
  lock::Answer cannot_look(std::error_code ec) const;

  disk::Disk& disk_;
  const Holder& holder_;
  OwnSlots own_;
  Semaphore semaphore_;
  bool was_stopped_ = false;
  std::function<void()> tell_;
  lock::Answer refusal_{lock::Outcome::failed, "not tried"};
};

}  // namespace holdfast::composite
