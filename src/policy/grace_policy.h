#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/log.h"
#include "identity/checker.h"
#include "lock/fast_lock.h"
#include "policy/detach.h"
#include "policy/policy.h"
#include "policy/recovery.h"

namespace holdfast::policy {

/// Waits a random number of whole seconds below half the grace, as the shell lockers do.
void pause_at_random(std::chrono::seconds grace);

/// What a GracePolicy needs of the world besides the lock. Tests bring their own.
struct Means {
  const Clock& clock = real_clock();
  std::function<void(std::chrono::seconds grace)> pause = pause_at_random;
  std::function<void(const std::function<void()>& work)> background = run_detached;
};

/// Recovery for dear checks: an id is left in peace for a grace after its last sign of life and
/// after each check, whoever made it. The marks of the lock tell when that was, to shell peers too.
///
///     lock       one attempt. Who is refused ponders before it returns: it makes the marks fit
///                those who are there and, if the grace of some ids is over, waits a little (in
///                which another may be quicker), dates their marks, and asks about two at most.
///                An attempt that cleans a dead holder has failed already: the next one wins.
///     unlock     the same without the wait, in a detached child that is only started if there is
///                somebody to ask about; so does a lock that was got.
///     no grace   (none given, or 0) everybody is due at any time, and nobody waits.
///
/// A holder marks itself when it gets the lock, though the first one to be refused would do it as
/// well: from then on the grace would be counted, and a dead holder would cost a lone caller one
/// more refusal. That is two folders made and removed; somebody who is alone pays no more.
///
/// Decides:  nothing about exclusion, as Recovery.
/// Killed:   as Recovery; a mark that was dated for a check which never came delays the next one
///           by a grace.
class GracePolicy final : public Policy {
 public:
  using Grace = std::optional<std::chrono::seconds>;

  GracePolicy(lock::FastLock& lock, const identity::Checker& checker, Grace grace,
              const Log& log = silent_log(), Means means = {})
      : lock_(lock),
        marks_(lock.marks()),
        grace_(grace.value_or(std::chrono::seconds::zero())),
        log_(log),
        means_(std::move(means)),
        recovery_(lock, checker, log) {}

  lock::Answer lock(const Uid& id, const Record& record,
                    lock::Mode mode = lock::Mode::exclusive) override;

  /// As lock, but a refused attempt has `aloud` asked about the holders whatever their grace,
  /// cleans the dead, and tries once more. (`aloud` is the checker whose output the caller sees.)
  lock::Answer lock_check(const Uid& id, const Record& record, const identity::Checker& aloud);

  lock::Answer unlock(const Uid& id, const Record& caller = {}) override;

  void recover(const Uid& spared) override { ponder(&spared); }
  std::optional<identity::Verdict> staleness() const override { return recovery_.staleness(); }

  /// Asks about everybody, whatever their grace.
  bool clean(std::chrono::seconds age) override;

 private:
  lock::Answer followed_up(const Uid& id, lock::Answer answer);
  void ponder(const Uid* spared);
  void clean_in_background(const Uid* spared);
  bool has_grace() const { return grace_ > std::chrono::seconds::zero(); }
  std::vector<lock::Mark> track();
  bool is_foreign(const Uid& id) const;
  std::vector<lock::Mark> marks_in_use(std::vector<Uid>& ids);
  std::vector<Uid> due_ids(const Uid* spared);
  std::vector<Uid> claim(const std::vector<Uid>& due);
  bool is_due(const Uid& id);
  std::chrono::system_clock::time_point time_there();
  void clean_stale(const std::vector<Uid>& ids);
  void forget(const std::vector<Uid>& ids);

  lock::FastLock& lock_;
  lock::Marks marks_;
  std::chrono::seconds grace_;  ///< 0: none
  const Log& log_;
  Means means_;
  Recovery recovery_;
};

}  // namespace holdfast::policy
