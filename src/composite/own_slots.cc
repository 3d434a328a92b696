#include "composite/own_slots.h"

#include <algorithm>
#include <stdexcept>

#include "composite/holds.h"
#include "policy/recovery.h"

namespace holdfast::composite {

using lock::Answer;
using lock::FastLock;
using lock::Leaf;
using lock::Outcome;

OwnSlots::OwnSlots(disk::Disk& disk, RulesFor rules, std::optional<identity::Identity> self,
                   const Log& log)
    : disk_(disk), rules_(std::move(rules)), self_(std::move(self)), log_(log) {}

OwnSlots::OwnSlots(disk::Disk& disk, const policy::Rules& rules,
                   std::optional<identity::Identity> self, const Log& log)
    : OwnSlots(
          disk, [rules](const disk::SafePath&) { return rules; }, std::move(self), log) {}

std::string OwnSlots::holder() const {
  return name_.empty() && self_ ? self_->uid.str() : name_;
}

FastLock OwnSlots::lock_at(const disk::SafePath& slot) const {
  FastLock lock(disk_, slot, log_);
  lock.set_leaf_kind(leaf_kind_);
  return lock;
}

bool OwnSlots::is_self(const Leaf& leaf) const {
  return self_ && lock::is_own(leaf, self_->uid, self_->record);
}

std::optional<Uid> OwnSlots::my_id(const FastLock& lock, std::error_code& ec) const {
  const std::vector<Leaf> leaves = lock.owner(ec);
  if (leaves.size() != 1 || !is_self(leaves.front())) return std::nullopt;
  return leaves.front().id;
}

Seen OwnSlots::look(const disk::SafePath& slot, std::error_code& ec) const {
  const std::vector<Leaf> leaves = lock_at(slot).owner(ec);
  if (std::any_of(leaves.begin(), leaves.end(), [&](const Leaf& leaf) { return is_self(leaf); })) {
    return Seen::mine;
  }
  if (ec || !leaves.empty()) return Seen::held;
  disk::Status status;
  const bool is_there = !disk_.status(slot, status);
  return is_there && status.kind != disk::Kind::dir ? Seen::foreign : Seen::free;
}

Taken OwnSlots::lock(const disk::SafePath& slot, Effort effort) {
  if (!self_) throw std::logic_error("no id to lock for");
  FastLock lock = lock_at(slot);
  if (effort == Effort::fast) return {lock.lock(self_->uid, self_->record)};
  return {policy::policy_for(lock, rules_(slot))->lock(self_->uid, self_->record)};
}

bool OwnSlots::may_recover(const disk::SafePath& slot) const {
  const policy::Rules rules = rules_(slot);
  if (rules.grace) return true;  // its policy knows when to ask
  FastLock lock = lock_at(slot);
  const auto verdict = policy::policy_for(lock, rules)->staleness();
  return !verdict || verdict->life != identity::Life::alive;
}

Answer OwnSlots::unlock(const disk::SafePath& slot) {
  FastLock lock = lock_at(slot);
  std::error_code ec;
  const auto id = my_id(lock, ec);
  if (ec) return {Outcome::failed, "cannot look into " + slot.native() + ": " + ec.message()};
  if (!id) {
    const auto twin = self_ ? lock.twin_of(self_->uid, self_->record) : std::nullopt;
    return {Outcome::not_mine, twin.value_or(slot.native() + " is not locked by " + holder())};
  }
  return policy::policy_for(lock, rules_(slot))->unlock(*id, self_->record);
}

bool OwnSlots::is_mine(const disk::SafePath& slot, std::error_code& ec) const {
  const FastLock lock = lock_at(slot);
  auto id = my_id(lock, ec);
  // callers take a refusal for a firm answer, so it has to be given twice
  if (ec == std::errc::permission_denied) id = my_id(lock, ec);
  return id.has_value();
}

std::vector<Leaf> OwnSlots::owner(const disk::SafePath& slot) {
  FastLock lock = lock_at(slot);
  const policy::Rules rules = rules_(slot);
  if (!rules.grace) policy::Recovery(lock, rules.checker, rules.log).clean_stale_owner();
  return lock.owner();
}

std::unique_ptr<Held> OwnSlots::hold(const disk::SafePath& slot, const Taken& taken) {
  return std::make_unique<HeldLock>(lock_at(slot), self_->uid, taken.answer.nonce);
}

std::optional<identity::Verdict> OwnSlots::staleness(const disk::SafePath& slot) const {
  FastLock lock = lock_at(slot);
  return policy::policy_for(lock, rules_(slot))->staleness();
}

bool OwnSlots::clean(const disk::SafePath& slot, std::chrono::seconds age) {
  FastLock lock = lock_at(slot);
  return policy::policy_for(lock, rules_(slot))->clean(age) || lock.ids_in_use().empty();
}

}  // namespace holdfast::composite
