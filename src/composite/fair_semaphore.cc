#include "composite/fair_semaphore.h"

#include "composite/holds.h"

namespace holdfast::composite {

using lock::Answer;
using lock::Mode;
using lock::Outcome;

namespace {

/// How long a look at the slots may take that begins when patience is over.
constexpr std::chrono::milliseconds kLastLook{100};

}  // namespace

/// What a caller of acquire stands in line for.
class FairSemaphore::Permits final : public Goal {
 public:
  Permits(FairSemaphore& of, std::uint32_t max, std::uint32_t permits, const Patience& patience)
      : of_(of), max_(max), permits_(permits), patience_(patience) {}

  Answer try_once() override {
    const bool is_last = patience_.is_over();  // a look at the very end, or the only one
    const Deadline last_look(real_clock(), kLastLook);
    const auto is_over = [&] {
      if (patience_.is_stopped()) return true;
      if (patience_.is_none()) return false;
      return patience_.is_over() && (!is_last || last_look.passed());
    };
    return of_.semaphore_.acquire_several(max_, permits_ - taken_.size(), is_over, taken_);
  }

  void yield() override {
    for (; !taken_.empty(); taken_.pop_back()) give_back(taken_.back().slot);
  }

  bool has_part() const override { return !taken_.empty(); }

  void watch(disk::Watch& watch) override {
    std::error_code ec;
    // a slot that is not there yet may be taken by others
    watch.on_arrival(of_.semaphore_.path().whole());
    for (const std::string& slot : of_.semaphore_.slots(ec)) {
      watch_holders(lock::FastLock(of_.disk_, of_.semaphore_.path() / slot), of_.holder_, watch);
    }
    if (ec) watch.on_unseen();  // the attempt tells
  }

  const std::vector<Taken>& taken() const { return taken_; }

  /// Why a slot that was to be given back may still be held.
  const std::string& left() const { return left_; }

 private:
  /// Who was told no never gives it back later: a disk that refuses is asked once more.
  void give_back(const std::string& slot) {
    if (of_.semaphore_.release(slot).outcome == Outcome::released) return;
    const Answer answer = of_.semaphore_.release(slot);
    if (answer.outcome != Outcome::failed) return;
    left_ = answer.why + ": slot " + slot + " may be held by " + of_.own_.holder();
  }

  FairSemaphore& of_;
  std::uint32_t max_;
  std::uint32_t permits_;
  const Patience& patience_;
  std::vector<Taken> taken_;
  std::string left_;
};

FairSemaphore::FairSemaphore(const disk::SafePath& semaphore, const Holder& holder,
                             disk::Disk& disk)
    : disk_(disk),
      holder_(holder),
      own_(disk, holder.rules(), holder.self, holder.log),
      semaphore_(disk, semaphore, own_, holder.log) {}

Answer FairSemaphore::acquire(std::uint32_t max, std::uint32_t permits, const Patience& patience) {
  Permits wanted(*this, max, permits, patience);
  return acquire(wanted, max, permits, patience);
}

Answer FairSemaphore::acquire(Permits& wanted, std::uint32_t max, std::uint32_t permits,
                              const Patience& patience) {
  if (permits == 0 || permits > max) {
    return {Outcome::failed,
            "cannot have " + std::to_string(permits) + " permits of " + std::to_string(max)};
  }
  std::error_code ec;
  if (!semaphore_.slots_held(ec).empty()) {
    return {Outcome::already_mine,
            semaphore_.path().native() + " already acquired by " + own_.holder()};
  }
  if (ec && ec != std::errc::permission_denied) return cannot_look(ec);
  Line line(disk_, semaphore_.path(), holder_, Order::fair);
  line.set_teller(tell_);
  Answer answer = line.stand(Mode::exclusive, patience, wanted);
  was_stopped_ = line.was_stopped();
  if (answer.outcome != Outcome::held && !wanted.left().empty()) {
    return {Outcome::failed, wanted.left()};
  }
  return answer;
}

Answer FairSemaphore::cannot_look(std::error_code ec) const {
  return {Outcome::failed, "cannot look into " + semaphore_.path().native() + ": " + ec.message()};
}

Answer FairSemaphore::release(std::optional<std::uint32_t> permits) {
  std::error_code ec;
  std::vector<std::string> held = semaphore_.slots_held(ec);
  const std::size_t count = permits.value_or(static_cast<std::uint32_t>(held.size()));
  if (held.empty() || count > held.size()) {
    if (ec) return cannot_look(ec);
    return {Outcome::not_mine, semaphore_.path().native() + " not held by " + own_.holder()};
  }
  Answer worst{Outcome::released, {}};
  for (std::size_t i = 0; i < count; ++i) {
    Answer answer = semaphore_.release(held[held.size() - 1 - i]);
    if (answer.outcome != Outcome::released) worst = std::move(answer);
  }
  if (holder_.checker->is_cheap()) {
    Line(disk_, semaphore_.path(), holder_, Order::fair).sweep();
  }
  const bool may_be_more = !permits && ec && ec != std::errc::permission_denied;
  if (worst.outcome == Outcome::released && may_be_more) return cannot_look(ec);
  return worst;
}

std::optional<Guard> FairSemaphore::hold(std::uint32_t max, std::uint32_t permits,
                                         const Patience& patience) {
  Permits wanted(*this, max, permits, patience);
  refusal_ = acquire(wanted, max, permits, patience);
  if (refusal_.outcome != Outcome::held) return std::nullopt;
  std::vector<std::unique_ptr<Held>> slots;
  for (const Taken& one : wanted.taken()) {
    slots.push_back(own_.hold(semaphore_.path() / one.slot, one));
  }
  return Guard(std::make_unique<HeldIn>(std::make_unique<HeldAll>(std::move(slots)), disk_,
                                        semaphore_.path()));
}

bool FairSemaphore::clean(std::chrono::seconds age, std::optional<std::chrono::seconds> unknown) {
  const bool is_empty_line =
      Line(disk_, semaphore_.path(), holder_, Order::fair).clean(age, unknown);
  return semaphore_.clean(age) && is_empty_line;
}

}  // namespace holdfast::composite
