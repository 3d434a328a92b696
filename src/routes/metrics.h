#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "server/store.h"

namespace holdfast::routes {

/// What Prometheus is told: requests by method and code, and how long they took.
class Metrics {
 public:
  void count(std::string_view method, int status, std::chrono::nanoseconds took);

  struct Gauges {
    server::Totals totals;
    server::Counters counters;
    std::size_t connections = 0, parked = 0, listeners = 0;
    bool is_ready = true;
  };
  /// In the text format 0.0.4.
  std::string text(const Gauges& gauges) const;

  std::chrono::seconds uptime() const;

 private:
  /// Upper bounds of the histogram, in microseconds.
  static constexpr std::array<std::int64_t, 14> kBounds{100,    250,    500,     1000,    2500,
                                                        5000,   10000,  25000,   50000,   100000,
                                                        250000, 500000, 1000000, 10000000};

  std::map<std::pair<std::string, int>, std::uint64_t> requests_;
  std::array<std::uint64_t, kBounds.size() + 1> buckets_{};
  std::chrono::nanoseconds sum_{};
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace holdfast::routes
