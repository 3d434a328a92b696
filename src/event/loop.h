#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace boost::asio {
class io_context;
}

namespace holdfast::event {

/// A call in the future. The call is not made if the Timer is destroyed or cancelled first.
///
/// Threads:  The loop's thread only.
class Timer {
 public:
  struct Impl;

  Timer();
  explicit Timer(std::unique_ptr<Impl> impl);
  Timer(Timer&&) noexcept;
  Timer& operator=(Timer&&) noexcept;
  ~Timer();

  void cancel();
  bool is_armed() const;  ///< The call was neither made nor cancelled yet.

 private:
  std::unique_ptr<Impl> impl_;
};

/// The one thread on which descriptors, timers and signals are handled, one call after the other.
///
/// Owns:     The event queue. The Loop must outlive every Timer, Watch and ChildWatch made with it.
///           While the Loop exists, the process ignores SIGPIPE.
/// Threads:  run() is called by one thread; post() and stop() from anywhere; the rest from the
///           loop's thread, or from any thread while the loop does not run.
/// Never:    Wakes up when there is nothing to do.
class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  void run();   ///< Runs until stop(). An exception thrown by a call comes out of run().
  void stop();  ///< Returns at once. Calls that were not made yet are kept for the next run().

  void post(std::function<void()> call);

  /// Makes the call after the events that are ready in this turn. Deferred calls keep their order.
  /// This is for work that costs less when it is done for several requests at once.
  void defer(std::function<void()> call);

  [[nodiscard]] Timer after(std::chrono::nanoseconds time, std::function<void()> call);

  /// From now on, the signals no longer act on the process. Each one becomes a call.
  void on_signal(const std::vector<int>& numbers, const std::function<void(int)>& call);

  /// For code that uses Boost.Asio itself. One thread runs the context.
  boost::asio::io_context& context();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::event
