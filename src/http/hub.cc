#include "http/hub.h"

#include <algorithm>
#include <utility>

#include "http/connection.h"

namespace holdfast::http {
namespace {

constexpr std::size_t kScratch = 65536;
constexpr std::size_t kSpareBuffers = 16;
constexpr std::size_t kSpareBufferSize = 65536;
/// Beyond the limit so many are still told that there are too many.
constexpr std::size_t kRefusals = 100;
/// Deadlines are met that coarsely, so that many of them are one wake-up.
constexpr std::chrono::milliseconds kSweepStep{20};

}  // namespace

Hub::Hub(event::Loop& loop, Handler handler, Observer& observer, const Limits& limits)
    : loop_(loop),
      handler_(std::move(handler)),
      observer_(observer),
      limits_(limits),
      rate_(limits.rate),
      scratch_(kScratch) {}

Hub::~Hub() {
  for (const auto& connection : connections_) connection->forget_hub();
  for (const auto& connection : removed_) connection->forget_hub();
}

void Hub::add(std::unique_ptr<Channel> channel, Peer peer, Scheme scheme) {
  if (connections_.size() >= limits_.max_connections + kRefusals) return;
  const bool is_too_many = connections_.size() >= limits_.max_connections;
  auto connection =
      std::make_shared<Connection>(*this, std::move(channel), std::move(peer), scheme);
  if (!connection->is_good()) return;
  connection->set_index(connections_.size());
  connections_.push_back(connection);
  if (is_too_many) {
    connection->refuse(503, "too many connections");
  } else {
    connection->start();
  }
}

void Hub::set_limits(const Limits& limits) {
  if (limits.rate != limits_.rate) rate_ = RateLimit(limits.rate);
  limits_ = limits;
}

std::string Hub::take_buffer() {
  if (buffers_.empty()) return {};
  std::string buffer = std::move(buffers_.back());
  buffers_.pop_back();
  return buffer;
}

void Hub::give_buffer(std::string buffer) {
  if (buffers_.size() >= kSpareBuffers || buffer.capacity() > kSpareBufferSize) return;
  buffer.clear();
  buffers_.push_back(std::move(buffer));
}

void Hub::note_deadline(Time at) {
  if (at >= sweep_at_) return;
  sweep_at_ = at;
  sweep_timer_ = loop_.after(at - now(), [this] { sweep(); });
}

void Hub::sweep() {
  sweep_at_ = kNever;
  const Time time = now();
  Time next = kNever;
  // Backwards: one that is removed is replaced by one that had its turn.
  for (std::size_t i = connections_.size(); i-- > 0;) {
    if (i >= connections_.size()) continue;  // more than one was removed
    Connection& connection = *connections_[i];
    connection.check_deadlines(time);
    next = std::min(next, connection.deadline());
  }
  if (next != kNever) note_deadline(std::max(next, time + kSweepStep));
}

void Hub::remove(Connection& connection) {
  const std::size_t at = connection.index();
  if (removed_.empty()) {
    loop_.defer([weak = weak_from_this()] {
      if (const auto hub = weak.lock()) hub->removed_.clear();
    });
  }
  removed_.push_back(std::move(connections_[at]));
  if (at + 1 != connections_.size()) {
    connections_[at] = std::move(connections_.back());
    connections_[at]->set_index(at);
  }
  connections_.pop_back();
  if (!connections_.empty()) return;
  sweep_at_ = kNever;
  sweep_timer_.cancel();
  if (is_draining_) finish_drain();
}

void Hub::drain(std::chrono::nanoseconds limit, std::function<void()> done) {
  drained_ = std::move(done);
  is_draining_ = true;
  drain_timer_ = loop_.after(limit, [this] { close_all(); });
  // Later: who asks may stand inside a request.
  loop_.post([weak = weak_from_this()] {
    const auto hub = weak.lock();
    if (!hub) return;
    for (std::size_t i = hub->connections_.size(); i-- > 0;) {
      if (i < hub->connections_.size()) hub->connections_[i]->drain();
    }
    if (hub->connections_.empty()) hub->finish_drain();
  });
}

void Hub::close_all() {
  while (!connections_.empty()) connections_.back()->close();
  finish_drain();
}

void Hub::finish_drain() {
  drain_timer_.cancel();
  const std::function<void()> done = std::exchange(drained_, nullptr);
  if (done) loop_.post(done);
}

}  // namespace holdfast::http
