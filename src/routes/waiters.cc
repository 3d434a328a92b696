#include "routes/waiters.h"

#include <utility>
#include <vector>

namespace holdfast::routes {

void Waiters::park(server::ClaimId id, std::chrono::nanoseconds limit,
                   const std::shared_ptr<http::Exchange>& exchange, Wake wake) {
  if (is_draining_) {
    wake(nullptr, {});
    return;
  }
  auto parked = std::make_shared<Parked>();
  parked->wake = std::move(wake);
  const std::weak_ptr<Parked> weak = parked;
  const auto leave = [this, id, weak](bool is_time_over) {
    const auto self = weak.lock();
    if (!self || !take(id, self)) return;
    if (is_time_over) self->wake(nullptr, {});
  };
  parked->timer = loop_.after(limit, [leave] { leave(true); });
  exchange->on_gone([leave] { leave(false); });
  parked_.emplace(id, std::move(parked));
  store_.watch(id);
}

std::shared_ptr<Waiters::Parked> Waiters::take(server::ClaimId id,
                                               const std::shared_ptr<Parked>& parked) {
  const auto [begin, end] = parked_.equal_range(id);
  for (auto place = begin; place != end; ++place) {
    if (place->second != parked) continue;
    parked_.erase(place);
    if (!parked_.contains(id)) store_.unwatch(id);
    return parked;
  }
  return nullptr;
}

void Waiters::hear(const server::View& view, server::Stamp now) {
  if (view.claim.status == server::Status::waiting) return;
  const auto [begin, end] = parked_.equal_range(view.claim.id);
  if (begin == end) return;
  std::vector<std::shared_ptr<Parked>> woken;
  for (auto place = begin; place != end; ++place) woken.push_back(place->second);
  parked_.erase(begin, end);
  store_.unwatch(view.claim.id);
  for (const auto& parked : woken) parked->wake(&view, now);
}

void Waiters::drain() {
  is_draining_ = true;
  const Parking all = std::exchange(parked_, {});
  for (const auto& [id, parked] : all) {
    store_.unwatch(id);
    parked->wake(nullptr, {});
  }
}

}  // namespace holdfast::routes
