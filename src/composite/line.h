#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "composite/holder.h"
#include "composite/patience.h"
#include "disk/watch.h"
#include "lock/tickets.h"

namespace holdfast::composite {

/// Who may go before whom.
enum class Order {
  fair,            ///< first come, first served; sharers go together
  barge,           ///< no line: whoever tries at the right moment
  prefer_writers,  ///< a sharer waits as long as anybody waits for an exclusive hold, and lets
                   ///< those go first who came later for one
};

/// One who stands in line, as others see it.
struct Waiter {
  lock::Ticket ticket;
  std::chrono::seconds age;
  std::optional<Record> record;  ///< of the one who will hold
};

/// What somebody stands in line for.
class Goal {
 public:
  virtual ~Goal() = default;
  virtual lock::Answer try_once() = 0;         ///< contended: not now
  virtual void watch(disk::Watch& watch) = 0;  ///< what ends before it can be had
  /// Why it makes no sense to wait for it, asked before the wait.
  virtual std::optional<lock::Answer> objection() { return std::nullopt; }
  /// Whether a part of it is had and kept, so that two who believe to have their turn could wait
  /// for each other.
  virtual bool has_part() const { return false; }
  /// Another goes first after all, or it is given up: what was had so far is given back.
  virtual void yield() {}
};

/// Wakes whoever waits for the holders of that lock: when they unlock or share, and when they die.
void watch_holders(const lock::FastLock& lock, const Holder& who_waits, disk::Watch& watch);

/// The line before a lock: tickets, in order, with their waiters asleep.
///
/// Decides:  nothing about exclusion; the goal does. The line decides who tries when. Who starts to
///           arrive after a ticket of P is there gets nothing that conflicts with P before P does;
///           those who arrive at the same time may come in any order. Callers that know no line, a
///           shell script for one, may go before everybody.
/// Sleeps:   each waiter watches the one ticket that is next before its own, and the first one
///           watches the holders: an event wakes one waiter, however long the line. The first one
///           that wakes tries at once; only if it is refused it looks at the line again. Who keeps
///           a part of its goal looks before it sleeps, too. What cannot be watched (a network
///           filesystem, a process of another host) is looked at from time to time, the less often
///           the longer nothing happens.
/// Circles:  everybody waits for smaller tickets only, so none can close, whatever order each has.
///           Who prefers writers and finds only later ones gives up its place and goes behind them.
/// Dead:     a waiter has the one before it judged, and takes its ticket away if the process that
///           waits or the one that is to hold is dead; of a ticket that cannot be read, only the
///           latter, which its name tells. Slow checks: only of a ticket that was not renewed for a
///           grace period, and whose waiter nobody had checked for one, by the clock of the
///           filesystem; with a grace of 0, at each look.
/// Unknown:  a waiter renews its own ticket from time to time, and nobody else does. If nobody can
///           tell whether the process that waits is alive, a ticket that was not renewed for
///           TicketTimes::limit is removed. A waiter that is known to be alive keeps its place,
///           even if it is stopped. A waiter whose ticket was removed gives back what it has,
///           queues again at the end, and says so on the log.
/// Killed:   leaves a ticket of a dead process, or the file of a newcomer. Whoever arrives judges
/// one
///           or two such files as it would judge tickets, and removes them.
class Line {
 public:
  Line(disk::Disk& disk, const disk::SafePath& lock, const Holder& holder, Order order);

  /// Tries until the goal answers anything but contended, patience is over (contended), or the
  /// caller was stopped (`was_stopped`). Afterwards no ticket of ours is left, nor what the goal
  /// had so far, whatever came out of it.
  lock::Answer stand(lock::Mode mode, const Patience& patience, Goal& goal);

  bool was_stopped() const { return was_stopped_; }

  /// Called once, after a wait of a second.
  void set_teller(std::function<void()> tell) { tell_ = std::move(tell); }

  /// Those in line, the first one first.
  static std::vector<Waiter> waiters(disk::Disk& disk, const disk::SafePath& lock);

  /// Removes what one or two waiters left that were killed on arrival. For those who unlock.
  void sweep();

  /// Removes the tickets of dead waiters, and the files of those that began to arrive `age` ago.
  /// Removes the ticket of a waiter that nobody can judge if it was not renewed for `unknown`, or
  /// for TicketTimes::limit. Returns true if nobody is left.
  bool clean(std::chrono::seconds age, std::optional<std::chrono::seconds> unknown = std::nullopt);

 private:
  class Place;
  lock::Answer stand(lock::Mode mode, const Patience& patience, Goal& goal,
                     std::optional<lock::Ticket>& own);
  lock::Answer wait_for_turn(lock::Mode mode, const Patience& patience, Goal& goal,
                             std::optional<lock::Ticket>& own);
  std::vector<lock::Ticket> blockers(const lock::Ticket& own, bool& is_in_line) const;
  void let_pass(const std::vector<lock::Ticket>& before, lock::Ticket& own);
  bool watch_line(std::vector<lock::Ticket>& before, std::optional<lock::Ticket>& missed);
  bool remove_dead(std::vector<lock::Ticket>& before);
  bool is_lost(const lock::QueueFile& file, std::chrono::seconds limit);
  identity::Life judge(const lock::QueueFile& file);
  bool is_renewed(const lock::QueueFile& file, std::chrono::seconds limit);
  void sweep(const std::vector<lock::QueueFile>& newcomers);
  void leave_lost_place(Goal& goal, const lock::Ticket& lost);
  bool gives_way(lock::Mode mode) const;
  bool is_holder_dead();
  bool has_grace() const { return holder_.grace > std::chrono::seconds::zero(); }
  bool is_due(const lock::QueueFile& file);
  void watch_processes(const lock::Ticket& ticket);
  void watch_process(const std::optional<Record>& record);
  bool has_line(std::error_code& ec);  ///< `ec`: nobody can tell, so it counts as one
  std::chrono::nanoseconds pause(int looks) const;
  std::string text() const;

  const Holder& holder_;
  Order order_;
  lock::Tickets tickets_;
  disk::Watch watch_;
  bool was_stopped_ = false;
  std::function<void()> tell_;
};

}  // namespace holdfast::composite
