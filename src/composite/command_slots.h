#pragma once

#include <optional>
#include <string>
#include <vector>

#include "composite/slot_locker.h"

namespace holdfast::composite {

/// Slots locked by a program of the user's own, `WORD... ACTION SLOT [ID]`, which knows lock,
/// fast_lock, unlock, is_mine and owner. Its exit status speaks as that of a lock tool does: 0 is
/// done, 1 to 9 is not now, 10 and up is stop. What it says goes where our words go.
///
/// An unlock that says no is not believed (of some lockers it is 1 in any case): what is_mine says
/// afterwards is.
class CommandSlots final : public SlotLocker {
 public:
  CommandSlots(std::vector<std::string> words, std::optional<std::string> id)
      : words_(std::move(words)), id_(std::move(id)) {}

  std::string holder() const override { return id_.value_or(""); }
  bool can_look() const override { return false; }
  Seen look(const disk::SafePath&, std::error_code&) const override { return Seen::held; }
  Taken lock(const disk::SafePath& slot, Effort effort) override;
  bool may_recover(const disk::SafePath&) const override { return true; }
  lock::Answer unlock(const disk::SafePath& slot) override;
  bool is_mine(const disk::SafePath& slot) const;
  bool is_mine(const disk::SafePath& slot, std::error_code& ec) const override {
    ec.clear();
    return is_mine(slot);
  }
  std::vector<lock::Leaf> owner(const disk::SafePath& slot) override;
  std::unique_ptr<Held> hold(const disk::SafePath& slot, const Taken& taken) override;

  bool can_clean() const override { return false; }
  std::optional<identity::Verdict> staleness(const disk::SafePath&) const override {
    return std::nullopt;
  }
  bool clean(const disk::SafePath&, std::chrono::seconds) override { return false; }

 private:
  std::vector<std::string> command(const std::string& action, const disk::SafePath& slot,
                                   bool with_id = true) const;

  std::vector<std::string> words_;
  std::optional<std::string> id_;
};

}  // namespace holdfast::composite
