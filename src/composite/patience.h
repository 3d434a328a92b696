#pragma once

#include <poll.h>

#include <chrono>
#include <optional>

#include "base/clock.h"

namespace holdfast::composite {

/// How long somebody is ready to wait for a lock.
class Patience {
 public:
  /// One attempt, and no place in line.
  static Patience none() { return Patience(std::chrono::nanoseconds::zero(), real_clock(), -1); }

  /// `stop`: a descriptor that ends the wait when it can be read (a signal came), or -1.
  static Patience of(std::chrono::nanoseconds longest, int stop = -1,
                     const Clock& clock = real_clock()) {
    return Patience(longest, clock, stop);
  }
  static Patience endless(int stop = -1) {
    return Patience(std::chrono::hours(24 * 365 * 100), real_clock(), stop);
  }

  bool is_none() const { return is_none_; }
  std::chrono::nanoseconds left() const { return until_.left(); }
  bool is_over() const { return until_.passed(); }
  int stop() const { return stop_; }
  bool is_stopped() const {
    pollfd one{stop_, POLLIN, 0};
    return stop_ >= 0 && poll(&one, 1, 0) == 1;
  }

 private:
  Patience(std::chrono::nanoseconds longest, const Clock& clock, int stop)
      : is_none_(longest <= std::chrono::nanoseconds::zero()),
        until_(clock, longest),
        stop_(stop) {}

  bool is_none_;
  Deadline until_;
  int stop_;
};

}  // namespace holdfast::composite
