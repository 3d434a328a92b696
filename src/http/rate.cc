#include "http/rate.h"

#include <algorithm>

namespace holdfast::http {

double RateLimit::tokens(const Bucket& bucket, Time now) const {
  const std::chrono::duration<double> passed = now - bucket.at;
  return std::min(capacity(), bucket.tokens + passed.count() * rate_);
}

bool RateLimit::admit(const std::string& peer, Time now) {
  if (!is_on()) return true;
  if (buckets_.size() >= forget_at_) forget_quiet(now);
  Bucket& bucket = buckets_.try_emplace(peer, Bucket{capacity(), now}).first->second;
  bucket = {tokens(bucket, now), now};
  if (bucket.tokens < 1) return false;
  bucket.tokens -= 1;
  return true;
}

void RateLimit::forget_quiet(Time now) {
  // A full bucket is what a stranger gets as well.
  std::erase_if(buckets_,
                [&](const auto& entry) { return tokens(entry.second, now) >= capacity(); });
  forget_at_ = std::max<std::size_t>(1024, buckets_.size() * 2);
}

}  // namespace holdfast::http
