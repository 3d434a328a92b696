#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "server/store.h"

namespace holdfast::testing {

/// A thread that runs what is given to it.
class Loop final : public server::Scheduler {
 public:
  Loop() : thread_([this] { run(); }) {}
  ~Loop() override {
    post([this] { is_over_ = true; });
    thread_.join();
  }

  void post(std::function<void()> task) override {
    std::unique_lock lock(mutex_);
    tasks_.push_back(std::move(task));
    const int mine = ++posts_;
    given_.notify_all();
    if (!posts_take_long || std::this_thread::get_id() == thread_.get_id()) return;
    given_.wait(lock, [&] { return posts_done_ >= mine; });
  }
  void defer(std::function<void()> task) override { post(std::move(task)); }
  Timer after(std::chrono::nanoseconds, std::function<void()>) override {
    throw std::logic_error("no timers here");
  }

  /// Other threads that post are let go only when the task has run and is gone.
  std::atomic<bool> posts_take_long = false;

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (!is_over_) {
      given_.wait(lock, [this] { return !tasks_.empty(); });
      auto task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
      ++posts_done_;
      given_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<std::function<void()>> tasks_;
  int posts_ = 0;
  int posts_done_ = 0;
  bool is_over_ = false;
  std::thread thread_;
};

/// A store with a thread for it, whose calls wait for their answers. From any thread.
class StoreClient {
 public:
  explicit StoreClient(const std::string& where, const server::Rules& rules = {}) {
    auto opened = server::open_store(where, rules, loop_, silent_log());
    if (auto* error = std::get_if<server::StoreError>(&opened)) {
      throw std::runtime_error(error->why);
    }
    store_ = std::move(std::get<0>(opened));
    on_loop([this] {
      store_->on_change([this](const server::View& view, server::Stamp) {
        const std::scoped_lock lock(mutex_);
        news_.push_back(view);
      });
    });
  }
  StoreClient(const StoreClient&) = delete;
  StoreClient& operator=(const StoreClient&) = delete;
  ~StoreClient() {
    on_loop([this] { store_.reset(); });
  }

  server::Answer post(const server::NewClaim& wish) {
    return wait<server::Answer>([&](auto done) { store_->post(wish, done); });
  }
  server::Answer post(const std::string& resource, server::Micros ttl = std::chrono::minutes(1)) {
    server::NewClaim wish;
    wish.resource = resource;
    wish.ttl = ttl;
    wish.user_data = "null";
    return post(wish);
  }
  server::Answer patch(server::ClaimId id, const server::Change& change) {
    return wait<server::Answer>(
        [&](auto done) { store_->patch(id, change, server::Caller{}, done); });
  }
  server::Answer set(server::ClaimId id, server::Status status) {
    server::Change change;
    change.status = status;
    return patch(id, change);
  }
  server::Answer claim(server::ClaimId id) {
    return wait<server::Answer>([&](auto done) { store_->claim(id, done); });
  }
  server::Told<std::vector<server::View>> list(const server::ListQuery& query) {
    return wait<server::Told<std::vector<server::View>>>(
        [&](auto tell) { store_->list(query, tell); });
  }
  server::Told<std::vector<server::ResourceView>> resources(const server::ResourceQuery& query) {
    return wait<server::Told<std::vector<server::ResourceView>>>(
        [&](auto tell) { store_->resources(query, tell); });
  }
  server::Told<server::QueueView> queue(const std::string& name) {
    return wait<server::Told<server::QueueView>>(
        [&](auto tell) { store_->queue(name, 1000, 0, tell); });
  }
  std::uint64_t fence(const std::string& name) {
    return wait<server::Told<std::uint64_t>>([&](auto tell) { store_->fence(name, tell); })
        .value.value();
  }
  server::Totals totals() {
    return wait<server::Told<server::Totals>>([&](auto tell) { store_->totals(tell); })
        .value.value();
  }
  server::Told<std::vector<server::ClaimId>> revoke(const server::RevokeFilter& filter) {
    return wait<server::Told<std::vector<server::ClaimId>>>(
        [&](auto tell) { store_->revoke(filter, "because", tell); });
  }
  void watch(server::ClaimId id) {
    on_loop([&] { store_->watch(id); });
  }
  void set_rules(const server::Rules& rules) {
    on_loop([&] { store_->set_rules(rules); });
  }
  std::optional<std::string> trouble() {
    std::optional<std::string> told;
    on_loop([&] { told = store_->trouble(); });
    return told;
  }
  server::Counters counters() {
    server::Counters told;
    on_loop([&] { told = store_->counters(); });
    return told;
  }
  void close() {
    wait<int>([&](auto done) { store_->close([done] { done(0); }); });
  }

  /// Whether the listener heard of the claim with that status.
  bool has_heard(server::ClaimId id, server::Status status) {
    const std::scoped_lock lock(mutex_);
    return std::any_of(news_.begin(), news_.end(), [&](const server::View& view) {
      return view.claim.id == id && view.claim.status == status;
    });
  }

  /// The last that was heard of it.
  server::View news_of(server::ClaimId id) {
    const std::scoped_lock lock(mutex_);
    for (auto view = news_.rbegin(); view != news_.rend(); ++view) {
      if (view->claim.id == id) return *view;
    }
    throw std::runtime_error("nothing was heard of the claim");
  }

 private:
  template <class T, class Ask>
  T wait(Ask ask) {
    const auto promise = std::make_shared<std::promise<T>>();
    auto future = promise->get_future();
    loop_.post([&] { ask([promise](T told) { promise->set_value(std::move(told)); }); });
    if (future.wait_for(std::chrono::seconds(60)) != std::future_status::ready) {
      throw std::runtime_error("a call to the store was not answered");
    }
    return future.get();
  }
  void on_loop(const std::function<void()>& task) {
    // Shared: set_value is still at work in it when we go on.
    const auto done = std::make_shared<std::promise<void>>();
    auto future = done->get_future();
    loop_.post([&task, done] {
      task();
      done->set_value();
    });
    future.wait();
  }

  Loop loop_;
  std::mutex mutex_;
  std::vector<server::View> news_;
  std::unique_ptr<server::Store> store_;
};

}  // namespace holdfast::testing
