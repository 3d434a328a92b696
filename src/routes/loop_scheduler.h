#pragma once

#include <memory>
#include <utility>

#include "event/loop.h"
#include "server/store.h"

namespace holdfast::routes {

/// The store's view of the loop.
class LoopScheduler final : public server::Scheduler {
 public:
  explicit LoopScheduler(event::Loop& loop) : loop_(loop) {}
  void post(std::function<void()> task) override { loop_.post(std::move(task)); }
  void defer(std::function<void()> task) override { loop_.defer(std::move(task)); }
  Timer after(std::chrono::nanoseconds delay, std::function<void()> task) override {
    return std::make_shared<event::Timer>(loop_.after(delay, std::move(task)));
  }

 private:
  event::Loop& loop_;
};

}  // namespace holdfast::routes
