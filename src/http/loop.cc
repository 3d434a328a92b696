#include "http/loop.h"

// One thread runs the loop, and what others post goes through a lock: fences have nothing to do,
// and the thread sanitizer cannot follow them.
#define BOOST_ASIO_DISABLE_FENCED_BLOCK

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <csignal>
#include <utility>

namespace holdfast::http {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

/// Longer than any server runs, and far from what overflows.
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
  // A peer that went away is an error of its write, not the end of the process.
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

void Loop::post(std::function<void()> call) {
  asio::post(impl_->io, std::move(call));
}

void Loop::defer(std::function<void()> call) {
  impl_->deferred.push_back(std::move(call));
  // What is posted stands behind the events that the kernel has told of already.
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
  std::shared_ptr<std::function<void()>> call;  ///< empty once called or cancelled
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
    // A cancelled call is empty already, even if its time had come as well.
    const std::function<void()> now = std::exchange(*kept, nullptr);
    if (now) now();
  });
  return Timer(std::move(timer));
}

struct Watch::State : std::enable_shared_from_this<Watch::State> {
  State(asio::io_context& io, std::function<void()> on_readable, std::function<void()> on_writable)
      : descriptor(io), readable(std::move(on_readable)), writable(std::move(on_writable)) {}

  asio::posix::stream_descriptor descriptor;
  std::function<void()> readable;
  std::function<void()> writable;
  bool is_live = false;
  bool awaits_read = false;
  bool awaits_write = false;

  void await(asio::posix::stream_descriptor::wait_type what, bool& awaits,
             const std::function<void()>& call) {
    if (!is_live || std::exchange(awaits, true)) return;
    descriptor.async_wait(what, [self = shared_from_this(), &awaits, &call](error_code) {
      awaits = false;
      if (self->is_live) call();
    });
  }
};

Watch::Watch(Loop& loop, int fd, std::function<void()> readable, std::function<void()> writable)
    : state_(std::make_shared<State>(loop.impl().io, std::move(readable), std::move(writable))) {
  error_code ec;
  state_->descriptor.assign(fd, ec);
  state_->is_live = !ec;
}

Watch::~Watch() {
  state_->is_live = false;
  if (state_->descriptor.is_open()) (void)state_->descriptor.release();
}

bool Watch::is_good() const {
  return state_->is_live;
}

void Watch::await_readable() {
  state_->await(asio::posix::stream_descriptor::wait_read, state_->awaits_read, state_->readable);
}

void Watch::await_writable() {
  state_->await(asio::posix::stream_descriptor::wait_write, state_->awaits_write, state_->writable);
}

}  // namespace holdfast::http
