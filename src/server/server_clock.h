#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "server/claim.h"

namespace holdfast::server {

/// The time by which leases run: goes on with the kernel's monotonic clock while the server runs,
/// and stands still while it does not.
///
/// Promises: never goes back. What the wall clock does has no effect. A server that was down,
/// stopped or
///           on a host that slept does not count that time against the holders: they could not have
///           renewed. After a restart it goes on from the last moment that is stored; after a stop
///           it is noticed by a timer that should have fired long ago, and the clock stays just
///           before that timer, so that requests which wait in the sockets are heard first.
class ServerClock {
 public:
  /// The clocks beneath; tests bring their own.
  struct Sources {
    std::function<std::chrono::nanoseconds()> monotonic;
    std::function<std::chrono::nanoseconds()> wall;
    std::function<std::chrono::nanoseconds()>
        boot;  ///< like monotonic, but goes on in a host's sleep
  };
  static Sources real();

  using Notice = std::function<void(const std::string&)>;

  ServerClock(Micros start, Sources sources, Notice notice);

  Stamp now();

  /// A timer has been set for this moment, or for none: if the clock is asked much later, somebody
  /// stopped us.
  void expect(std::optional<Micros> due) { due_ = due; }

 private:
  void compare_clocks(std::chrono::nanoseconds monotonic, std::chrono::nanoseconds wall);

  Sources sources_;
  Notice notice_;
  Micros offset_{};  ///< of our time to the monotonic clock
  Micros last_;      ///< that was told
  std::optional<Micros> due_;
  std::chrono::nanoseconds wall_ahead_{}, boot_ahead_{};  ///< of the monotonic clock
  std::chrono::nanoseconds compared_{};
};

}  // namespace holdfast::server
