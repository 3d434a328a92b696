#include "composite/command_slots.h"

#include "base/text.h"
#include "identity/program.h"

namespace holdfast::composite {

using identity::Output;
using identity::run_program;
using lock::Answer;
using lock::Outcome;

namespace {

constexpr int kNoSuchProgram = 127;

/// A slot that another program locked, which knows no nonces.
class CommandHeld final : public Held {
 public:
  CommandHeld(CommandSlots slots, disk::SafePath slot)
      : slots_(std::move(slots)), slot_(std::move(slot)) {}

  Outcome release() override {
    return is_held() ? slots_.unlock(slot_).outcome : Outcome::not_mine;
  }
  bool is_held() const override { return slots_.is_mine(slot_); }

 private:
  CommandSlots slots_;
  disk::SafePath slot_;
};

}  // namespace

std::vector<std::string> CommandSlots::command(const std::string& action,
                                               const disk::SafePath& slot, bool with_id) const {
  std::vector<std::string> words = words_;
  words.insert(words.end(), {action, slot.native()});
  if (with_id && id_) words.push_back(*id_);
  return words;
}

Taken CommandSlots::lock(const disk::SafePath& slot, Effort effort) {
  const int status =
      run_program(command(effort == Effort::fast ? "fast_lock" : "lock", slot)).status;
  Taken taken{{status == 0 ? Outcome::held : Outcome::contended, {}}, {}, status};
  if (taken.status > Taken::kLastRetry) taken.answer.outcome = Outcome::failed;
  if (status == kNoSuchProgram) taken.answer.why = "cannot run " + words_.front();
  return taken;
}

Answer CommandSlots::unlock(const disk::SafePath& slot) {
  const int status = run_program(command("unlock", slot)).status;
  if (status != 0 && is_mine(slot)) {
    return {Outcome::failed, words_.front() + " did not unlock " + slot.native()};
  }
  return {Outcome::released, {}};
}

bool CommandSlots::is_mine(const disk::SafePath& slot) const {
  return run_program(command("is_mine", slot)).status == 0;
}

std::vector<lock::Leaf> CommandSlots::owner(const disk::SafePath& slot) {
  std::vector<lock::Leaf> leaves;
  const auto ran = run_program(command("owner", slot, false), Output::captured);
  for (const std::string_view line : split(ran.output, "\n", true)) {
    leaves.push_back({Uid::found(std::string(line)), std::nullopt});
  }
  return leaves;
}

std::unique_ptr<Held> CommandSlots::hold(const disk::SafePath& slot, const Taken&) {
  return std::make_unique<CommandHeld>(*this, slot);
}

}  // namespace holdfast::composite
