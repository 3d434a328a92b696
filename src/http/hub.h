#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "event/loop.h"
#include "http/channel.h"
#include "http/rate.h"
#include "http/render.h"
#include "http/server.h"

namespace holdfast::http {

class Connection;

/// All connections of a server, and what they share: limits, buffers, and one timer for all of
/// their deadlines, armed only while there is one.
///
/// Threads:  the loop's thread only.
class Hub : public std::enable_shared_from_this<Hub> {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr Time kNever = Time::max();

  Hub(event::Loop& loop, Handler handler, Observer& observer, const Limits& limits);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;
  ~Hub();

  void add(std::unique_ptr<Channel> channel, Peer peer, Scheme scheme);
  void set_limits(const Limits& limits);
  void drain(std::chrono::nanoseconds limit, std::function<void()> done);
  std::size_t connections() const { return connections_.size(); }

  // For the connections.

  static Time now() { return std::chrono::steady_clock::now(); }
  event::Loop& loop() { return loop_; }
  const Handler& handler() const { return handler_; }
  Observer& observer() { return observer_; }
  const Limits& limits() const { return limits_; }
  Renderer& renderer() { return renderer_; }
  RateLimit& rate() { return rate_; }
  bool is_draining() const { return is_draining_; }

  /// Room to read into; what is in it is lost with the next read of anybody.
  std::span<char> scratch() { return scratch_; }

  /// Room to write into, used over and over.
  std::string take_buffer();
  void give_buffer(std::string buffer);

  void note_deadline(Time at);
  void remove(Connection& connection);  ///< it is destroyed in a later turn

 private:
  void sweep();
  void close_all();
  void finish_drain();

  event::Loop& loop_;
  Handler handler_;
  Observer& observer_;
  Limits limits_;
  Renderer renderer_;
  RateLimit rate_;
  std::vector<char> scratch_;
  std::vector<std::string> buffers_;
  std::vector<std::shared_ptr<Connection>> connections_;
  std::vector<std::shared_ptr<Connection>> removed_;
  Time sweep_at_ = kNever;
  event::Timer sweep_timer_;
  bool is_draining_ = false;
  event::Timer drain_timer_;
  std::function<void()> drained_;
};

}  // namespace holdfast::http
