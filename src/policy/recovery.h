#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/log.h"
#include "identity/checker.h"
#include "lock/fast_lock.h"

namespace holdfast::policy {

/// Nobody works an hour on a proposal: what a killed cleaner or proposer left that long ago is
/// anybody's to remove.
inline constexpr std::chrono::hours kAbandoned{1};

/// Asks a checker about those who use a lock, and cleans after the dead: what all policies share.
/// They differ in when they ask, and about whom.
///
/// Decides:  nothing about exclusion; FastLock does. A dead holder is cleaned by its name and
///           only while the leaf is the one that was judged, so a late cleaner cannot touch a new
///           holder. An id judged as a proposer loses its proposal
///           and no more: it may have become the holder meanwhile. A verdict of `unknown` leaves
///           everything as it is and says so on the log.
/// Killed:   as FastLock; a recovery cut short is done over by the next one.
class Recovery {
 public:
  Recovery(lock::FastLock& lock, const identity::Checker& checker, const Log& log)
      : lock_(lock), checker_(checker), log_(log) {}

  /// Of the holders: alive if one lives, unknown if one is unknown, else dead; nothing if it is
  /// free. Changes nothing.
  std::optional<identity::Verdict> staleness() const;

  /// Why the last cleaning could not remove the leaf of a dead holder; empty if it could.
  const std::string& stuck() const { return stuck_; }

  /// What an attempt is answered after a cleaning: a refusal by a dead holder whose leaf cannot be
  /// removed would be repeated for ever, so it becomes a failure that says so.
  lock::Answer explained(lock::Answer answer) const;

  /// Cleans the dead among the holders, and tells who they were.
  std::vector<Uid> clean_stale_owner();

  /// The dead among all who use the lock.
  void clean_stale();

  /// The dead among these, asked about together. Tells who they were.
  std::vector<Uid> clean_stale(std::span<const Uid> ids);

 private:
  std::vector<lock::Leaf> holders(const std::function<bool(const Uid&)>& wanted) const;
  std::vector<identity::Verdict> judge(std::span<const lock::Leaf> leaves) const;
  std::vector<lock::Leaf> dead_among(std::span<const lock::Leaf> leaves) const;
  void clean_proposals(const std::vector<lock::Leaf>& dead);
  void clean(std::span<const lock::Leaf> dead);
  std::string way_out(const Uid& id) const;

  lock::FastLock& lock_;
  const identity::Checker& checker_;
  const Log& log_;
  std::string stuck_;
};

}  // namespace holdfast::policy
