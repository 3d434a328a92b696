#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace holdfast::http {

/// A call in the future. Destroyed or cancelled, it does not happen.
///
/// Threads:  the loop's thread only.
class Timer {
 public:
  struct Impl;

  Timer();
  explicit Timer(std::unique_ptr<Impl> impl);
  Timer(Timer&&) noexcept;
  Timer& operator=(Timer&&) noexcept;
  ~Timer();

  void cancel();
  bool is_armed() const;  ///< neither called nor cancelled yet

 private:
  std::unique_ptr<Impl> impl_;
};

/// The one thread on which requests, timers and signals are handled, one call after the other.
///
/// Owns:     the event queue; outlives every Server, Timer and Watch made with it. While it is
///           there the process ignores SIGPIPE.
/// Threads:  run() is called by one thread; post() and stop() from anywhere; the rest from the
///           loop's thread, or from any while the loop does not run.
/// Never:    wakes up when there is nothing to do.
class Loop {
 public:
  Loop();
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;
  ~Loop();

  void run();   ///< until stop(); what throws in a call comes out of here
  void stop();  ///< returns at once; calls not made yet are kept for another run()

  void post(std::function<void()> call);

  /// After the events that are ready in this turn, in order: for work that is done best for several
  /// requests at once.
  void defer(std::function<void()> call);

  [[nodiscard]] Timer after(std::chrono::nanoseconds time, std::function<void()> call);

  /// From now on those signals no longer act on the process but come here.
  void on_signal(const std::vector<int>& numbers, const std::function<void(int)>& call);

  struct Impl;
  Impl& impl() { return *impl_; }  ///< for Watch and Timer

 private:
  std::unique_ptr<Impl> impl_;
};

/// Tells when a descriptor can be read or written. Each question is answered once.
///
/// Owns:     nothing: the descriptor is the caller's, and is closed only after the Watch is gone.
/// Threads:  the loop's thread only.
/// Never:    calls after its end, not even when that comes inside a call.
class Watch {
 public:
  Watch(Loop& loop, int fd, std::function<void()> readable, std::function<void()> writable);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  bool is_good() const;   ///< the kernel took it; if not, nothing is ever called
  void await_readable();  ///< also called at the end of the stream and after a failure
  void await_writable();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::http
