#include "composite/multi_lock.h"

#include <algorithm>
#include <memory>
#include <random>
#include <tuple>

#include "composite/holds.h"
#include "composite/rw_lock.h"
#include "disk/watch.h"
#include "lock/layout.h"

namespace holdfast::composite {

using lock::Answer;
using lock::Mode;
using lock::Outcome;
using namespace std::chrono_literals;

namespace {

/// A lock as all hosts see it.
struct Place {
  std::uint64_t folder;
  std::string name;
  std::uint64_t device;  ///< of this host: tells twins on two filesystems apart
  Want want;

  auto key() const { return std::tie(folder, name, device); }
};

/// Those who gave all back to each other must not meet again at once.
std::chrono::nanoseconds some_while() {
  static thread_local std::minstd_rand random{std::random_device{}()};
  return std::chrono::milliseconds(std::uniform_int_distribution<int>(10, 500)(random));
}

/// Where a lock really is: `path`, or what it leads to as a link.
std::error_code follow_links(disk::Disk& disk, disk::Path& path) {
  constexpr int kMostLinks = 40;  // as many as the kernel follows
  for (int links = 0; links <= kMostLinks; ++links) {
    std::string target;
    if (disk.read_link(path, target)) return {};  // no link, or nothing there yet
    path =
        lock::Layout(target.starts_with('/') ? target : path.parent_path() / target).lock().whole();
  }
  return std::make_error_code(std::errc::too_many_symbolic_link_levels);
}

}  // namespace

MultiLock::MultiLock(std::span<const Want> wants, const Holder& holder, disk::Disk& disk)
    : disk_(disk), holder_(holder) {
  std::vector<Place> places;
  places.reserve(wants.size());
  for (const Want& want : wants) {
    disk::Path lock = lock::Layout(want.path).lock().whole();
    disk::Status status;
    std::error_code ec = follow_links(disk_, lock);
    const disk::Path folder = lock.has_parent_path() ? lock.parent_path() : disk::Path(".");
    const disk::Path& looked_at = ec ? lock : folder;
    if (!ec) ec = disk_.status(folder / ".", status);
    if (ec) {
      missing_ = {Outcome::failed, "cannot look into " + looked_at.native() + ": " + ec.message()};
      at_ = want.path;
      return;
    }
    places.push_back({status.inode, lock.filename().native(), status.device, want});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const Place& a, const Place& b) { return a.key() < b.key(); });
  const Place* last = nullptr;
  for (const Place& place : places) {
    const bool is_same = last && last->key() == place.key();
    last = &place;
    if (!is_same) {
      wants_.push_back(place.want);
    } else if (place.want.mode == Mode::exclusive) {
      wants_.back().mode = Mode::exclusive;
    }
  }
}

Answer MultiLock::acquire(const Patience& patience, std::chrono::seconds hold_limit) {
  if (missing_) return *missing_;
  was_stopped_ = false;
  for (;;) {
    bool is_limit_over = false;
    Answer answer = take_all(patience, hold_limit, is_limit_over);
    if (!is_limit_over) return answer;
    holder_.log.info("gave all back after {} s of waiting for {}", hold_limit.count(),
                     at_.native());
    const auto woken = disk::Watch().wait(std::min(patience.left(), some_while()), patience.stop());
    was_stopped_ = woken == disk::Watch::Woken::stopped;
    if (was_stopped_ || patience.is_over()) return answer;
  }
}

/// Once through all of them. Not all: none.
Answer MultiLock::take_all(const Patience& patience, std::chrono::seconds hold_limit,
                           bool& is_limit_over) {
  nonces_.clear();
  for (std::size_t i = 0; i < wants_.size(); ++i) {
    at_ = wants_[i].path;
    const bool is_limited = i > 0 && !patience.is_none() && hold_limit < patience.left();
    const Patience here = patience.is_none() ? Patience::none()
                          : is_limited       ? Patience::of(hold_limit, patience.stop())
                                             : patience;
    RwLock lock(wants_[i].path, holder_, Order::fair, disk_);
    const Answer answer = lock.acquire(wants_[i].mode, here);
    if (answer.outcome == Outcome::held) {
      nonces_.push_back(answer.nonce);
      continue;
    }
    was_stopped_ = lock.was_stopped();
    is_limit_over = is_limited && !was_stopped_ && answer.outcome == Outcome::contended;
    const auto left = give_back(i);
    if (left) is_limit_over = false;
    return left.value_or(answer);
  }
  return {Outcome::held, {}};
}

/// Who was told no never gives it back later: a disk that refuses is asked once more. Tells of one
/// that may still be held.
std::optional<Answer> MultiLock::give_back(std::size_t count) {
  std::optional<Answer> left;
  for (std::size_t i = count; i-- > 0;) {
    RwLock lock(wants_[i].path, holder_, Order::fair, disk_);
    Answer answer = lock.unlock();
    if (answer.outcome == Outcome::failed) answer = lock.unlock();
    if (answer.outcome != Outcome::failed) continue;
    left = {Outcome::failed, answer.why + ": " + wants_[i].path.native() + " may be held by " +
                                 holder_.self.uid.str()};
    at_ = wants_[i].path;
  }
  return left;
}

Answer MultiLock::release() {
  if (missing_) return *missing_;
  Answer worst{Outcome::released, {}};
  for (std::size_t i = wants_.size(); i-- > 0;) {
    const Answer answer = RwLock(wants_[i].path, holder_, Order::fair, disk_).unlock();
    if (answer.outcome == Outcome::released) continue;
    if (worst.outcome == Outcome::failed) continue;
    worst = answer;
    at_ = wants_[i].path;
  }
  return worst;
}

std::optional<Guard> MultiLock::hold(const Patience& patience, std::chrono::seconds hold_limit) {
  refusal_ = acquire(patience, hold_limit);
  if (refusal_.outcome != Outcome::held) return std::nullopt;
  std::vector<std::unique_ptr<Held>> locks;
  for (std::size_t i = 0; i < wants_.size(); ++i) {
    locks.push_back(std::make_unique<HeldLock>(lock::FastLock(disk_, wants_[i].path),
                                               holder_.self.uid, nonces_[i]));
  }
  return Guard(std::make_unique<HeldAll>(std::move(locks)));
}

}  // namespace holdfast::composite
