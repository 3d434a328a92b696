#include "composite/semaphore.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "composite/holds.h"

namespace holdfast::composite {

using lock::Answer;
using lock::Leaf;
using lock::Outcome;
using lock::SlotLayout;

namespace {

/// What keeps one slot from being tried mostly keeps them all. A few more are tried because a busy
/// rival may be behind it.
constexpr int kMostFailures = 3;

constexpr const char* kTooLarge = "max is larger than a million";

/// A listing that a network filesystem interrupts is done over.
constexpr int kRetryLimit = 32;

/// Nothing there that could have slots in it.
bool is_nothing(std::error_code ec) {
  return ec == std::errc::no_such_file_or_directory || ec == std::errc::not_a_directory ||
         ec == std::errc::too_many_symbolic_link_levels;
}

/// Of two looks: a slot that another user keeps to himself is hardly ours.
std::error_code worse(std::error_code a, std::error_code b) {
  return !a || (b && a == std::errc::permission_denied) ? b : a;
}

/// A number from 1 to max in the one spelling that a scan uses.
std::optional<std::uint32_t> to_slot_number(const std::string& name, std::uint32_t max) {
  const auto number = to_number(name);
  if (!number || *number == 0 || *number > max || name.front() == '0') return std::nullopt;
  return static_cast<std::uint32_t>(*number);
}

/// 1 to max, from a random start, which is never max: as the shell's semaphore has it.
class Round {
 public:
  explicit Round(std::uint32_t max) : max_(max) {
    if (max > 2) first_ = 1 + std::random_device{}() % (max - 1);
  }

  /// `visit(number)` says whether that is enough.
  template <class Visit>
  bool any(Visit visit) const {
    for (std::uint32_t i = 0; i < max_; ++i) {
      if (visit((first_ - 1 + i) % max_ + 1)) return true;
    }
    return false;
  }

 private:
  std::uint32_t max_;
  std::uint32_t first_ = 1;
};

}  // namespace

/// One search for slots: tries until enough are taken, or nothing else could be.
class Semaphore::Scan {
 public:
  Scan(
      Semaphore& semaphore, std::uint32_t max, std::size_t wanted = 1,
      std::function<bool()> is_over = [] { return false; })
      : semaphore_(semaphore),
        round_(max),
        max_(max),
        wanted_(wanted),
        is_over_(std::move(is_over)) {}

  /// Tells the slot of our own id, if it has one; `ec`: if it can be seen.
  std::optional<std::string> look(const std::vector<std::string>& names, std::error_code& ec) {
    std::optional<std::string> mine;
    for (const std::string& name : names) {
      if (is_over_()) break;
      std::error_code looked;
      const Seen seen = semaphore_.slots_.look(semaphore_.at_.slot(name), looked);
      ec = worse(ec, looked);
      if (seen == Seen::mine && !mine) mine = name;
      if (const auto number = to_slot_number(name, max_)) seen_[*number] = seen;
    }
    return mine;
  }

  /// Those that were not listed, then those in which nobody was.
  bool try_free(Effort effort) {
    return round_.any([&](std::uint32_t n) { return !seen_.contains(n) && attempt(n, effort); }) ||
           round_.any([&](std::uint32_t n) { return was(n, Seen::free) && attempt(n, effort); });
  }

  /// Those in which somebody was, who may be dead.
  bool try_held() {
    return round_.any([&](std::uint32_t n) {
      if (!was(n, Seen::held)) return false;
      if (is_over_()) return true;
      if (semaphore_.slots_.may_recover(path(n))) return attempt(n, Effort::recover);
      can_be_released_ = true;
      return false;
    });
  }

  bool try_all(Effort effort) {
    return round_.any([&](std::uint32_t n) { return attempt(n, effort); });
  }

  /// What ended the search, or the last failure. A slot whose dead holder cannot be removed fails
  /// the search only if there is no other slot that somebody can release.
  Taken last() const {
    if (!stuck_ || last_.is_final() || last_.answer.outcome == Outcome::failed) return last_;
    Taken told = *stuck_;
    if (can_be_released_) told.answer = {Outcome::contended, {}};
    return told;
  }
  std::vector<Taken>& taken() { return taken_; }
  bool has_all() const { return taken_.size() == wanted_; }

 private:
  bool was(std::uint32_t number, Seen what) const {
    const auto seen = seen_.find(number);
    return seen != seen_.end() && seen->second == what;
  }

  disk::SafePath path(std::uint32_t number) const {
    return semaphore_.at_.slot(std::to_string(number));
  }

  /// Whether the search is over.
  bool attempt(std::uint32_t number, Effort effort) {
    if (is_over_()) return true;
    Taken taken = semaphore_.slots_.lock(path(number), effort);
    const bool has_failed = taken.answer.outcome == Outcome::failed;
    if (taken.is_final()) {
      Taken granted = semaphore_.granted(std::to_string(number), std::move(taken), effort);
      if (granted.is_held()) {
        taken_.push_back(granted);
        can_be_released_ = true;
      }
      if (granted.is_held() && !has_all()) return false;
      last_ = std::move(granted);
      return true;
    }
    if (taken.answer.is_stuck) {
      stuck_ = std::move(taken);
      return false;
    }
    can_be_released_ = can_be_released_ || !has_failed;
    if (has_failed) last_ = std::move(taken);
    return has_failed && ++failures_ == kMostFailures;
  }

  Semaphore& semaphore_;
  Round round_;
  std::uint32_t max_;
  std::size_t wanted_;
  std::function<bool()> is_over_;
  std::vector<Taken> taken_;
  std::map<std::uint32_t, Seen> seen_;  ///< of the slots that were listed
  int failures_ = 0;
  bool can_be_released_ = false;  ///< somebody who may live holds a slot
  std::optional<Taken> stuck_;    ///< a slot whose dead holder cannot be removed
  Taken last_{{Outcome::contended, {}}};
};

Taken Semaphore::acquire(std::uint32_t max, Again again) {
  return scan(max, Effort::recover, again);
}

Taken Semaphore::fast_acquire(std::uint32_t max, Again again) {
  return scan(max, Effort::fast, again);
}

Taken Semaphore::scan(std::uint32_t max, Effort effort, Again again) {
  if (max > kLargestMax) return {{Outcome::failed, kTooLarge}};
  if (max == 0) return none_free(max, {{Outcome::contended, {}}});
  Scan scan(*this, max);
  if (!slots_.can_look()) {
    const bool is_over =
        scan.try_all(Effort::fast) || (effort == Effort::recover && scan.try_all(effort));
    return is_over ? scan.last() : none_free(max, scan.last());
  }
  std::vector<std::string> names;
  if (const auto ec = list(names); ec && !is_nothing(ec)) return none_free(max, cannot_list(ec));
  std::error_code looked;
  const auto mine = scan.look(names, looked);
  if (mine && again == Again::refused) {
    return {{Outcome::already_mine,
             path().native() + " already acquired by " + slots_.holder() + " (slot " + *mine + ")"},
            *mine};
  }
  if (looked && looked != std::errc::permission_denied && again == Again::refused) {
    return none_free(max, {cannot_look(looked)});
  }
  const bool is_over = scan.try_free(effort) || (effort == Effort::recover && scan.try_held());
  return is_over && scan.last().is_final() ? scan.last() : none_free(max, scan.last());
}

Answer Semaphore::acquire_several(std::uint32_t max, std::size_t count,
                                  const std::function<bool()>& is_over, std::vector<Taken>& taken) {
  if (!slots_.can_look()) throw std::logic_error("several slots of a locker that cannot look");
  if (max > kLargestMax) return {Outcome::failed, kTooLarge};
  std::vector<std::string> names;
  if (const auto ec = list(names); ec && !is_nothing(ec))
    return none_free(max, cannot_list(ec)).answer;
  Scan scan(*this, max, count, is_over);
  std::error_code looked;  // a slot that cannot be looked into counts as held
  (void)scan.look(names, looked);
  const bool is_ended = scan.try_free(Effort::recover) || scan.try_held();
  std::move(scan.taken().begin(), scan.taken().end(), std::back_inserter(taken));
  if (scan.has_all()) return {Outcome::held, {}};
  if (is_ended && scan.last().is_final()) return scan.last().answer;
  return none_free(max, scan.last()).answer;
}

Taken Semaphore::none_free(std::uint32_t max, Taken last) {
  tidy();
  log_.info("{} failed to be acquired by {} (max {})", path().native(), slots_.holder(), max);
  return last;
}

/// The end of a search: got, or stopped.
Taken Semaphore::granted(const std::string& slot, Taken taken, Effort effort) {
  if (taken.is_held()) {
    taken.slot = slot;
    log_.info("{} {}acquired by {}", path().native(), effort == Effort::fast ? "fast_" : "",
              slots_.holder());
  } else {
    tidy();
  }
  return taken;
}

Taken Semaphore::acquire_slot(const std::string& slot) {
  if (!SlotLayout::is_slot(slot)) return {{Outcome::failed, "'" + slot + "' cannot be a slot"}};
  Taken taken = granted(slot, slots_.lock(at_.slot(slot), Effort::recover), Effort::recover);
  return taken;
}

std::optional<Guard> Semaphore::try_acquire(std::uint32_t max, Again again) {
  refusal_ = acquire(max, again);
  if (!refusal_.is_held()) return std::nullopt;
  return Guard(
      std::make_unique<HeldIn>(slots_.hold(at_.slot(refusal_.slot), refusal_), disk_, path()));
}

Answer Semaphore::release() {
  std::error_code ec;
  const auto mine = slot(ec);
  if (mine) return release(*mine);
  if (ec) return cannot_look(ec);
  return {Outcome::not_mine, path().native() + " not held by " + slots_.holder()};
}

Answer Semaphore::release(const std::string& slot) {
  Answer answer = slots_.unlock(at_.slot(slot));
  if (answer.outcome == Outcome::released) {
    tidy();
    log_.info("{} released by {}", path().native(), slots_.holder());
  }
  return answer;
}

Answer Semaphore::cannot_look(std::error_code ec) const {
  return {Outcome::failed, "cannot look into " + path().native() + ": " + ec.message()};
}

Taken Semaphore::cannot_list(std::error_code ec) const {
  return {{Outcome::failed, "cannot list " + path().native() + ": " + ec.message()}};
}

std::vector<std::string> Semaphore::slots(std::error_code& ec) const {
  std::vector<std::string> names;
  ec = list(names);
  if (is_nothing(ec)) ec.clear();
  return names;
}

std::vector<std::string> Semaphore::slots() const {
  std::error_code ec;
  auto names = slots(ec);
  if (ec) throw std::system_error(ec, "cannot list " + path().native());
  return names;
}

std::optional<std::string> Semaphore::slot(std::error_code& ec) const {
  for (const std::string& name : slots(ec)) {
    std::error_code looked;
    if (slots_.is_mine(at_.slot(name), looked)) {
      ec.clear();
      return name;
    }
    ec = worse(ec, looked);
  }
  return std::nullopt;
}

std::optional<std::string> Semaphore::slot() const {
  std::error_code ec;
  auto name = slot(ec);
  if (ec) throw std::system_error(ec, "cannot look into " + path().native());
  return name;
}

std::vector<std::string> Semaphore::slots_held(std::error_code& ec) const {
  std::vector<std::string> names = slots(ec);
  std::erase_if(names, [&](const std::string& name) {
    std::error_code looked;
    const bool is_mine = slots_.is_mine(at_.slot(name), looked);
    ec = worse(ec, looked);
    return !is_mine;
  });
  return names;
}

std::vector<std::string> Semaphore::slots_held() const {
  std::error_code ec;
  auto names = slots_held(ec);
  const bool is_of_others = ec == std::errc::permission_denied && !names.empty();
  if (ec && !is_of_others) throw std::system_error(ec, "cannot look into " + path().native());
  return names;
}

std::vector<Leaf> Semaphore::owner(const std::string& slot) {
  return slots_.owner(at_.slot(slot));
}

std::vector<std::pair<std::string, std::vector<Leaf>>> Semaphore::owners() {
  std::vector<std::pair<std::string, std::vector<Leaf>>> all;
  const auto names = slots();
  for (const std::string& name : names) {
    auto leaves = owner(name);
    if (!leaves.empty()) all.emplace_back(name, std::move(leaves));
  }
  if (all.empty() && !names.empty()) tidy();  // a look may have cleaned after the dead
  return all;
}

std::vector<std::string> Semaphore::stale() const {
  auto names = slots();
  std::erase_if(names, [&](const std::string& name) {
    const auto verdict = slots_.staleness(at_.slot(name));
    if (verdict && verdict->life == identity::Life::unknown && !verdict->is_told) {
      log_.warn("WARNING: {}: unable to identify live/staleness of the owner: {}",
                at_.slot(name).native(), verdict->why);
    }
    return !verdict || verdict->life != identity::Life::dead;
  });
  return names;
}

bool Semaphore::clean(std::chrono::seconds age) {
  bool is_clean = true;
  for (const std::string& name : slots()) is_clean &= slots_.clean(at_.slot(name), age);
  tidy();
  return is_clean;
}

/// What could be slots, sorted. That the folder is missing counts only after the one above was
/// opened: see FastLock::look_into.
std::error_code Semaphore::list(std::vector<std::string>& names) const {
  std::error_code ec;
  bool is_fresh = false;
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    names.clear();
    ec = disk_.list(at_.inside(), names);
    if (ec == std::errc::no_such_file_or_directory && !is_fresh) {
      is_fresh = true;
      disk::Handle above;
      const disk::Path folder = path().whole().parent_path();
      (void)disk_.open_file(folder.empty() ? disk::Path(".") : folder, above);
      continue;
    }
    const bool is_passing =
        ec == std::errc::interrupted || ec == std::error_code(ESTALE, std::generic_category());
    if (!is_passing) break;
  }
  std::erase_if(names, [](const std::string& name) { return !SlotLayout::is_slot(name); });
  std::sort(names.begin(), names.end());
  return ec;
}

void Semaphore::tidy() {
  (void)disk_.remove_dir(path());  // stays while anything is in it
}

}  // namespace holdfast::composite
