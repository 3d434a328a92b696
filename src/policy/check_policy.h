#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "identity/checker.h"
#include "lock/fast_lock.h"

namespace holdfast::policy {

/// Recovery for cheap checks: whoever is refused asks at once whether the holder lives.
///
/// Decides:  nothing about exclusion; FastLock does. A dead id is cleaned by its name, so a late
///           cleaner cannot touch a new holder. A verdict of `unknown` leaves everything as it is
///           and says so on the log.
/// Killed:   as FastLock; a recovery cut short is done over by the next one.
class CheckPolicy {
 public:
  CheckPolicy(lock::FastLock& lock, const identity::Checker& checker,
              const Clock& clock = real_clock(), const Log& log = silent_log())
      : lock_(lock), checker_(checker), clock_(clock), log_(log) {}

  /// One attempt; if refused and holders are dead, they are cleaned and there is one more.
  lock::Answer lock(const Uid& id, const Record& record);

  /// Gives it up, then cleans after the dead among those that are left: before it returns if the
  /// checker is cheap, else in a detached child without streams. In the child this call does not
  /// return.
  lock::Answer unlock(const Uid& id);

  /// The holders, after dead ones were cleaned.
  std::vector<lock::Leaf> owner();

  /// Of the holders: alive if one lives, unknown if one is unknown, else dead; nothing if it is
  /// free. Changes nothing.
  std::optional<identity::Verdict> staleness() const;

  /// FastLock::clean, after all dead ids were cleaned.
  bool clean(std::chrono::seconds age);

 private:
  void sweep(std::chrono::seconds age);
  bool clean_stale_owner();
  void clean_stale();
  bool is_dead(const lock::Leaf& leaf) const;
  identity::Verdict judge(const lock::Leaf& leaf) const;

  lock::FastLock& lock_;
  const identity::Checker& checker_;
  const Clock& clock_;
  const Log& log_;
};

/// For a refusal: "LOCK is held by pid 4242 (make) of anna on build7 since ...".
std::string who_holds(const disk::Path& lock, const lock::Leaf& holder);

}  // namespace holdfast::policy
