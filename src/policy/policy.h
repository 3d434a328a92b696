#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/log.h"
#include "identity/checker.h"
#include "lock/fast_lock.h"

namespace holdfast::policy {

/// When those who use a lock are asked about: what locks of several parts are built from, whatever
/// their ids are.
class Policy {
 public:
  virtual ~Policy() = default;

  /// One attempt, with what this policy does about dead holders.
  virtual lock::Answer lock(const Uid& id, const Record& record,
                            lock::Mode mode = lock::Mode::exclusive) = 0;

  /// Gives up what the caller holds (see lock::is_own), and has the dead among the others cleaned.
  /// Without a record: what `id` holds.
  virtual lock::Answer unlock(const Uid& id, const Record& caller = {}) = 0;

  /// What lock() does about dead holders when it is refused, without an attempt.
  virtual void recover(const Uid& spared) = 0;

  /// As Recovery::staleness.
  virtual std::optional<identity::Verdict> staleness() const = 0;

  /// FastLock::clean, after all dead ids were cleaned.
  virtual bool clean(std::chrono::seconds age) = 0;
};

/// How a user's locks are recovered: who tells the dead from the living, and how dear that is.
struct Rules {
  const identity::Checker& checker;
  /// Dear checks: how long an id is left in peace between two of them. None: checks are cheap.
  std::optional<std::chrono::seconds> grace{};
  /// Dear checks: whether a refused attempt may pause, which throttles those who spin. Who waits
  /// otherwise need not.
  bool may_pause = true;
  const Clock& clock = real_clock();
  const Log& log = silent_log();
};

/// A GracePolicy if the rules have a grace, else a CheckPolicy.
std::unique_ptr<Policy> policy_for(lock::FastLock& lock, const Rules& rules);

}  // namespace holdfast::policy
