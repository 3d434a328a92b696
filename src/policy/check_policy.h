#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "identity/checker.h"
#include "lock/fast_lock.h"
#include "policy/policy.h"
#include "policy/recovery.h"

namespace holdfast::policy {

/// Recovery for cheap checks: whoever is refused asks at once whether the holder lives.
///
/// Decides:  nothing about exclusion, as Recovery.
/// Killed:   as Recovery.
class CheckPolicy final : public Policy {
 public:
  CheckPolicy(lock::FastLock& lock, const identity::Checker& checker,
              const Clock& clock = real_clock(), const Log& log = silent_log())
      : lock_(lock), checker_(checker), clock_(clock), recovery_(lock, checker, log) {}

  /// One attempt; if refused and holders are dead, they are cleaned and there is one more.
  lock::Answer lock(const Uid& id, const Record& record,
                    lock::Mode mode = lock::Mode::exclusive) override;

  /// Gives it up, then cleans after the dead among those that are left, or one of them if they
  /// share it: before it returns if the checker is cheap, else in a detached child.
  lock::Answer unlock(const Uid& id, const Record& caller = {}) override;

  /// The holders, after dead ones were cleaned.
  std::vector<lock::Leaf> owner();

  void recover(const Uid&) override { recovery_.clean_stale_owner(); }
  std::optional<identity::Verdict> staleness() const override { return recovery_.staleness(); }
  bool clean(std::chrono::seconds age) override;

 private:
  void sweep(std::chrono::seconds age);

  lock::FastLock& lock_;
  const identity::Checker& checker_;
  const Clock& clock_;
  Recovery recovery_;
};

/// With the name of the user looked up, which can ask a directory service: for messages, never on
/// the way to a lock.
Record with_user_name(Record record);

/// For a refusal: "LOCK is held by pid 4242 (make) of anna on build7 since ...".
std::string who_holds(const disk::SafePath& lock, const lock::Leaf& holder);

}  // namespace holdfast::policy
