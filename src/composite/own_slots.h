#pragma once

#include <functional>
#include <optional>

#include "base/log.h"
#include "composite/slot_locker.h"
#include "disk/disk.h"
#include "identity/identity.h"
#include "policy/policy.h"

namespace holdfast::composite {

/// Slots locked in this process: each is a FastLock with a Policy.
///
/// Decides:  nothing; FastLock does.
/// Owns:     nothing between calls. The disk and the log must outlive the guards too.
/// Fork:     `self` is a process: a child needs slots of its own.
class OwnSlots final : public SlotLocker {
 public:
  /// How one slot is recovered. What the rules refer to must outlive this object.
  using RulesFor = std::function<policy::Rules(const disk::SafePath& slot)>;

  /// Without a `self` for looking and cleaning only.
  OwnSlots(disk::Disk& disk, RulesFor rules, std::optional<identity::Identity> self,
           const Log& log = silent_log());
  OwnSlots(disk::Disk& disk, const policy::Rules& rules, std::optional<identity::Identity> self,
           const Log& log = silent_log());

  /// As messages call the holder, if not by its uid.
  void set_holder(std::string name) { name_ = std::move(name); }
  void set_leaf_kind(lock::LeafKind kind) { leaf_kind_ = kind; }

  std::string holder() const override;
  bool can_look() const override { return true; }
  Seen look(const disk::SafePath& slot, std::error_code& ec) const override;
  Taken lock(const disk::SafePath& slot, Effort effort) override;
  bool may_recover(const disk::SafePath& slot) const override;
  lock::Answer unlock(const disk::SafePath& slot) override;
  bool is_mine(const disk::SafePath& slot, std::error_code& ec) const override;

  /// Cheap checks: after dead ones were cleaned.
  std::vector<lock::Leaf> owner(const disk::SafePath& slot) override;
  std::unique_ptr<Held> hold(const disk::SafePath& slot, const Taken& taken) override;
  bool can_clean() const override { return true; }
  std::optional<identity::Verdict> staleness(const disk::SafePath& slot) const override;
  bool clean(const disk::SafePath& slot, std::chrono::seconds age) override;

 private:
  lock::FastLock lock_at(const disk::SafePath& slot) const;
  bool is_self(const lock::Leaf& leaf) const;
  std::optional<Uid> my_id(const lock::FastLock& lock, std::error_code& ec) const;

  disk::Disk& disk_;
  RulesFor rules_;
  std::optional<identity::Identity> self_;
  const Log& log_;
  std::string name_;
  lock::LeafKind leaf_kind_ = lock::LeafKind::file;
};

}  // namespace holdfast::composite
