#pragma once

#include <memory>
#include <utility>

#include "http/loop.h"
#include "server/store.h"

namespace holdfast::routes {

/// The store's view of the loop.
class LoopScheduler final : public server::Scheduler {
 public:
  explicit LoopScheduler(http::Loop& loop) : loop_(loop) {}
  void post(std::function<void()> task) override { loop_.post(std::move(task)); }
  void defer(std::function<void()> task) override { loop_.defer(std::move(task)); }
  Timer after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    return std::make_shared<http::Timer>(loop_.after(delay, std::move(task)));
  }

 private:
  http::Loop& loop_;
};

}  // namespace holdfast::routes
