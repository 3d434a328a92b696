#include "event/loop.h"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <utility>

namespace holdfast::event {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Longer than any process runs, and far from an overflow.
constexpr std::chrono::hours kForever{24 * 365 * 100};

}  // namespace

struct Loop::Impl {
  asio::io_context io{1};
  asio::executor_work_guard<asio::io_context::executor_type> stay{io.get_executor()};
  std::vector<std::function<void()>> deferred;
  std::vector<std::unique_ptr<asio::signal_set>> signals;

  void run_deferred() {
    const std::vector<std::function<void()>> calls = std::exchange(deferred, {});
    for (const auto& call : calls) call();
  }
};

namespace {

void await_signal(asio::signal_set& set, const std::function<void(int)>& call) {
  set.async_wait([&set, call](error_code ec, int number) {
    if (ec) return;
    await_signal(set, call);
    call(number);
  });
}

}  // namespace

Loop::Loop() : impl_(std::make_unique<Impl>()) {
  // Writing to a peer that has gone is then an error of that write, not the end of the process.
  (void)std::signal(SIGPIPE, SIG_IGN);
}

Loop::~Loop() = default;

void Loop::run() {
  impl_->io.run();
  impl_->io.restart();
}

void Loop::stop() {
  impl_->io.stop();
}

asio::io_context& Loop::context() {
  return impl_->io;
}

void Loop::post(std::function<void()> call) {
  asio::post(impl_->io, std::move(call));
}

void Loop::defer(std::function<void()> call) {
  impl_->deferred.push_back(std::move(call));
  // A posted call runs after the events that the kernel has reported already.
  if (impl_->deferred.size() == 1) asio::post(impl_->io, [this] { impl_->run_deferred(); });
}

void Loop::on_signal(const std::vector<int>& numbers, const std::function<void(int)>& call) {
  auto set = std::make_unique<asio::signal_set>(impl_->io);
  for (const int number : numbers) set->add(number);
  await_signal(*set, call);
  impl_->signals.push_back(std::move(set));
}

struct Timer::Impl {
  asio::steady_timer timer;
  std::shared_ptr<std::function<void()>> call;  ///< empty after it was called or cancelled
};

Timer::Timer() = default;
Timer::Timer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Timer::Timer(Timer&&) noexcept = default;

Timer& Timer::operator=(Timer&& other) noexcept {
  if (this != &other) {
    cancel();
    impl_ = std::move(other.impl_);
  }
  return *this;
}

Timer::~Timer() {
  cancel();
}

void Timer::cancel() {
  if (!impl_) return;
  *impl_->call = nullptr;
  impl_.reset();
}

bool Timer::is_armed() const {
  return impl_ && *impl_->call;
}

Timer Loop::after(std::chrono::nanoseconds time, std::function<void()> call) {
  auto timer = std::make_unique<Timer::Impl>(Timer::Impl{
      asio::steady_timer(impl_->io), std::make_shared<std::function<void()>>(std::move(call))});
  timer->timer.expires_after(std::min<std::chrono::nanoseconds>(time, kForever));
  timer->timer.async_wait([kept = timer->call](error_code) {
    // A cancelled call is empty, even if its time came before it was cancelled.
    const std::function<void()> now = std::exchange(*kept, nullptr);
    if (now) now();
  });
  return Timer(std::move(timer));
}

}  // namespace holdfast::event
