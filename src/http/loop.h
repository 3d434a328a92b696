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
/// Owns:     the event queue. Outlives every Server and Timer made with it.
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
  void on_signal(const std::vector<int>& numbers, std::function<void(int)> call);

  struct Impl;
  Impl& impl() { return *impl_; }  ///< for the sockets of this folder

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::http
