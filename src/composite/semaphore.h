#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/log.h"
#include "composite/guard.h"
#include "composite/slot_locker.h"
#include "disk/disk.h"
#include "lock/layout.h"

namespace holdfast::composite {

/// A directory of slots, each an ordinary lock: who holds one of the slots 1 to max is in.
///
///     identity::LocalId ids(disk::posix());
///     std::string why;
///     const auto self = ids.identify(std::to_string(getpid()), why);
///     composite::OwnSlots slots(disk::posix(), policy::Rules{ids}, self);
///     composite::Semaphore semaphore(disk::posix(), "/srv/repo/builds", slots);
///     if (auto guard = semaphore.try_acquire(8)) ...  // held until the guard goes
///
/// The same semaphore as `semaphore -l acquire /srv/repo/builds 8 $$` takes.
///
/// Safe:     never more than max holders, because there are max locks and each lets one in. The
///           semaphore decides nothing: what it lists and looks at only says which slot is worth
///           an attempt, and an old view costs an attempt in vain or a needless "none free".
/// Max:      is stored nowhere. Each caller brings its own; a lower one evicts nobody.
/// Again:    an id that holds a slot is refused another by acquire() (already_mine), if the locker
///           can look, unless it asks for it. Two tasks that do so at once, under one id, may get
///           one each. Several slots of one id are got by acquire_slot() or Again::allowed.
/// On disk:  SEM/<slot>/; SEM goes with its last slot. Files, and names that begin with a dot, are
///           no slots, are passed over by all here, and stay.
/// Killed:   as FastLock, in one slot. An empty SEM may stay, which bars nobody.
/// Owns:     nothing between calls.
/// Threads:  one Semaphore, and one SlotLocker, per thread.
class Semaphore {
 public:
  static constexpr std::uint32_t kLargestMax = 1'000'000;

  /// What becomes of an id that holds a slot already.
  enum class Again { refused, allowed };

  Semaphore(disk::Disk& disk, const disk::SafePath& semaphore, SlotLocker& slots,
            const Log& log = silent_log())
      : disk_(disk), at_(semaphore), slots_(slots), log_(log) {}

  const disk::SafePath& path() const { return at_.folder(); }

  /// Takes one of the slots 1 to max. Where the locker can look, SEM is listed once and the slots
  /// that are absent from it are tried first, then empty ones, then those whose holder may be
  /// dead. Else each slot is tried fast, then each with recovery. Refused or failed it leaves
  /// nothing behind. A max above kLargestMax fails.
  Taken acquire(std::uint32_t max, Again again = Again::refused);

  /// The same without recovery.
  Taken fast_acquire(std::uint32_t max, Again again = Again::refused);

  /// Takes up to `count` of the slots 1 to max with one listing and one look at each slot, for an
  /// id that may hold others. Asks `is_over` before each slot and ends the search if it says so.
  /// Adds what it took to `taken`, also if it is not enough. Returns held if it took `count`. Needs
  /// a locker that can look.
  lock::Answer acquire_several(std::uint32_t max, std::size_t count,
                               const std::function<bool()>& is_over, std::vector<Taken>& taken);

  /// That slot, of any name that SlotLayout::is_slot, with recovery. An id may hold several.
  Taken acquire_slot(const std::string& slot);

  /// acquire() with a guard. Nothing if it was refused; refusal() tells why.
  std::optional<Guard> try_acquire(std::uint32_t max, Again again = Again::refused);
  const Taken& refusal() const { return refusal_; }

  /// Gives up the first slot, by name, that our id holds: released, not_mine or failed.
  lock::Answer release();
  lock::Answer release(const std::string& slot);

  // Looking. A semaphore that is there but may not be looked into is told by std::system_error, or
  // `ec`.

  /// All that could be slots, sorted by name.
  std::vector<std::string> slots(std::error_code& ec) const;
  std::vector<std::string> slots() const;

  /// The first slot that our id holds, or all of them. With an `ec` there may be more, where nobody
  /// could look; permission_denied: where only another user can.
  std::optional<std::string> slot(std::error_code& ec) const;
  std::optional<std::string> slot() const;
  std::vector<std::string> slots_held(std::error_code& ec) const;
  std::vector<std::string> slots_held() const;

  std::vector<lock::Leaf> owner(const std::string& slot);

  /// Holders by slot; free slots are left out.
  std::vector<std::pair<std::string, std::vector<lock::Leaf>>> owners();

  /// Slots with holders, all of them dead. Changes nothing.
  std::vector<std::string> stale() const;

  /// Cleans each slot as Policy::clean does, and removes SEM if nothing is in it. True if no slot
  /// is in use.
  bool clean(std::chrono::seconds age);

 private:
  class Scan;

  Taken scan(std::uint32_t max, Effort effort, Again again);
  lock::Answer cannot_look(std::error_code ec) const;
  Taken cannot_list(std::error_code ec) const;
  Taken none_free(std::uint32_t max, Taken last);
  Taken granted(const std::string& slot, Taken taken, Effort effort);
  std::error_code list(std::vector<std::string>& names) const;
  void tidy();

  disk::Disk& disk_;
  lock::SlotLayout at_;
  SlotLocker& slots_;
  const Log& log_;
  Taken refusal_{{lock::Outcome::failed, "not tried"}};
};

}  // namespace holdfast::composite
