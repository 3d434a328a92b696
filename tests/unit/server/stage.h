/// A store's surroundings, all moved by hand: clocks, scheduler and rows.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include "server/rows.h"
#include "server/server_clock.h"
#include "server/store.h"

namespace holdfast::server {

struct FakeClocks {
  std::chrono::nanoseconds monotonic{std::chrono::hours(1)};
  std::chrono::nanoseconds wall{std::chrono::hours(500000)};
  std::chrono::nanoseconds boot{std::chrono::hours(2)};

  void pass(std::chrono::nanoseconds time) {
    monotonic += time;
    wall += time;
    boot += time;
  }
  ServerClock::Sources sources() {
    return {[this] { return monotonic; }, [this] { return wall; }, [this] { return boot; }};
  }
};

/// Runs tasks when it is told to.
class ManualScheduler final : public Scheduler {
 public:
  explicit ManualScheduler(FakeClocks& clocks) : clocks_(clocks) {}

  void post(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    posted_.push_back(std::move(task));
    const int mine = ++posts_;
    if (posts_take_long) done_.wait(lock, [&] { return posts_done_ >= mine; });
  }
  void defer(std::function<void()> task) override { deferred_.push_back(std::move(task)); }
  Timer after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    auto handle = std::make_shared<int>(0);
    timers_.push_back({clocks_.monotonic + delay, handle, std::move(task)});
    return handle;
  }

  /// From now on who posts is let go only when the task has run and is gone.
  std::atomic<bool> posts_take_long = false;

  /// All that is ready, and what that makes ready.
  void run() {
    while (step()) continue;
  }

  /// Runs until `is_so`, also what other threads bring; false if that takes too long.
  bool run_until(const std::function<bool()>& is_so) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > end) return false;
      if (!step()) std::this_thread::yield();
    }
    return true;
  }

  /// Time passes, and every timer fires when it is due.
  void pass(std::chrono::nanoseconds time) {
    const auto end = clocks_.monotonic + time;
    while (const auto next = next_timer()) {
      if (*next > end) break;
      clocks_.pass(std::max(std::chrono::nanoseconds::zero(), *next - clocks_.monotonic));
      fire();
      run();
    }
    clocks_.pass(end - clocks_.monotonic);
  }

  /// The timers that are due, however late.
  void fire() {
    std::erase_if(timers_, [](const Entry& entry) { return entry.handle.expired(); });
    const auto due = std::min_element(timers_.begin(), timers_.end(),
                                      [](const Entry& a, const Entry& b) { return a.at < b.at; });
    if (due == timers_.end() || due->at > clocks_.monotonic) return;
    const auto task = std::move(due->task);
    timers_.erase(due);
    task();
  }

  std::optional<std::chrono::nanoseconds> next_timer() const {
    std::optional<std::chrono::nanoseconds> next;
    for (const Entry& entry : timers_) {
      if (!entry.handle.expired()) next = next ? std::min(*next, entry.at) : entry.at;
    }
    return next;
  }

 private:
  struct Entry {
    std::chrono::nanoseconds at;
    std::weak_ptr<void> handle;
    std::function<void()> task;
  };

  bool step() { return run_posted() || run_deferred(); }

  bool run_posted() {
    std::function<void()> task;
    {
      const std::lock_guard lock(mutex_);
      if (posted_.empty()) return false;
      task = std::move(posted_.front());
      posted_.pop_front();
    }
    task();
    task = nullptr;
    const std::lock_guard lock(mutex_);
    ++posts_done_;
    done_.notify_all();
    return true;
  }

  bool run_deferred() {
    if (deferred_.empty()) return false;
    const std::function<void()> task = std::move(deferred_.front());
    deferred_.pop_front();
    task();
    return true;
  }

  FakeClocks& clocks_;
  std::mutex mutex_;
  std::condition_variable done_;
  int posts_ = 0;
  int posts_done_ = 0;
  std::deque<std::function<void()>> posted_;
  std::deque<std::function<void()>> deferred_;
  std::vector<Entry> timers_;
};

/// What a database holds, and how it behaves; shared with the test.
struct Disk {
  mutable std::mutex mutex;
  std::condition_variable moved;
  Rows::Contents contents;
  std::map<ClaimId, Claim> claims;
  int commits = 0;
  bool is_held = false;     ///< commits wait
  bool is_waiting = false;  ///< one does
  std::function<bool()> fails = [] { return false; };
  bool does_load = true;
  bool was_misused = false;  ///< a claim was new twice, or changed without being there

  void hold(bool held) {
    const std::lock_guard lock(mutex);
    is_held = held;
    moved.notify_all();
  }
  template <class T>
  T look(const std::function<T(const Disk&)>& at) const {
    const std::lock_guard lock(mutex);
    return at(*this);
  }
};

class FakeRows final : public Rows {
 public:
  explicit FakeRows(Disk& disk) : disk_(disk) {}

  std::variant<Contents, StoreError> load() override {
    const std::lock_guard lock(disk_.mutex);
    if (!disk_.does_load) return StoreError{"unreadable"};
    Contents contents = disk_.contents;
    for (const auto& [id, claim] : disk_.claims) contents.claims.push_back(claim);
    return contents;
  }

  std::optional<std::string> commit(const Batch& batch) override {
    std::unique_lock lock(disk_.mutex);
    disk_.is_waiting = true;
    disk_.moved.wait(lock, [this] { return !disk_.is_held; });
    disk_.is_waiting = false;
    if (disk_.fails()) return "disk full";
    ++disk_.commits;
    for (const Row& row : batch.changed) {
      const bool is_known = disk_.claims.count(row.view.claim.id) != 0;
      if (is_known == row.is_new) disk_.was_misused = true;
      disk_.claims[row.view.claim.id] = row.view.claim;
    }
    for (const Claim& claim : batch.dropped) {
      if (disk_.claims.erase(claim.id) != 1) disk_.was_misused = true;
    }
    if (batch.time < disk_.contents.last_time) disk_.was_misused = true;
    disk_.contents.last_time = batch.time;
    if (!batch.dropped.empty()) {
      disk_.contents.last_id = std::max(disk_.contents.last_id, batch.last_id);
      disk_.contents.fence_floor = std::max(disk_.contents.fence_floor, batch.fence_floor);
    }
    return std::nullopt;
  }

  std::optional<std::string> probe() override {
    const std::lock_guard lock(disk_.mutex);
    if (disk_.fails()) return "still full";
    return std::nullopt;
  }

 private:
  Disk& disk_;
};

}  // namespace holdfast::server
