#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>

#include "event/loop.h"
#include "http/exchange.h"
#include "server/store.h"

namespace holdfast::routes {

/// Requests that wait for news of a claim before they are answered.
///
/// Promises: each is called once: with the news, or with nothing when its time is over or the
///           server drains. One whose peer went away is dropped, and its claim stays as it is.
/// Threads:  the loop's.
class Waiters {
 public:
  /// The claim as it is now, or nothing.
  using Wake = std::function<void(const server::View*, server::Stamp)>;

  Waiters(event::Loop& loop, server::Store& store) : loop_(loop), store_(store) {}

  void park(server::ClaimId id, std::chrono::nanoseconds limit,
            const std::shared_ptr<http::Exchange>& exchange, Wake wake);

  /// A claim was changed.
  void hear(const server::View& view, server::Stamp now);

  /// Nobody waits any more, and from now on nobody will.
  void drain();

  std::size_t size() const { return parked_.size(); }

 private:
  struct Parked {
    Wake wake;
    event::Timer timer;
  };
  using Parking = std::unordered_multimap<server::ClaimId, std::shared_ptr<Parked>>;

  std::shared_ptr<Parked> take(server::ClaimId id, const std::shared_ptr<Parked>& parked);

  event::Loop& loop_;
  server::Store& store_;
  Parking parked_;
  bool is_draining_ = false;
};

}  // namespace holdfast::routes
