#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <unordered_map>

namespace holdfast::http {

/// A bucket of tokens per peer: `rate` of them each second, and at most one second's worth kept.
///
/// Never:    remembers a peer that has been quiet for long.
class RateLimit {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit RateLimit(double per_second) : rate_(per_second) {}

  /// One request of that peer, now. Always true when the rate is 0.
  bool admit(const std::string& peer, Time now);

  bool is_on() const { return rate_ > 0; }
  std::size_t known_peers() const { return buckets_.size(); }

 private:
  struct Bucket {
    double tokens;
    Time at;
  };
  double capacity() const { return rate_ > 1 ? rate_ : 1; }
  double tokens(const Bucket& bucket, Time now) const;
  void forget_quiet(Time now);

  double rate_;
  std::unordered_map<std::string, Bucket> buckets_;
  std::size_t forget_at_ = 1024;
};

}  // namespace holdfast::http
