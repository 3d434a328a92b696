#pragma once

#include <algorithm>
#include <chrono>

namespace holdfast {

/// Where time comes from; tests bring one that is moved by hand.
class Clock {
 public:
  virtual ~Clock() = default;

  /// For people and for ages of files. May be stepped: nothing that must be safe hangs on it.
  virtual std::chrono::system_clock::time_point wall() const = 0;

  /// For deadlines: never stepped, and goes on while the host sleeps (CLOCK_BOOTTIME).
  virtual std::chrono::nanoseconds boot() const = 0;
};

const Clock& real_clock();

/// A moment in CLOCK_BOOTTIME by which something must have happened.
class Deadline {
 public:
  Deadline(const Clock& clock, std::chrono::nanoseconds from_now)
      : clock_(clock), at_(clock.boot() + from_now) {}

  std::chrono::nanoseconds left() const {
    return std::max(std::chrono::nanoseconds::zero(), at_ - clock_.boot());
  }
  bool passed() const { return left() == std::chrono::nanoseconds::zero(); }

 private:
  const Clock& clock_;
  std::chrono::nanoseconds at_;
};

}  // namespace holdfast
