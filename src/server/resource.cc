#include "server/resource.h"

#include <algorithm>
#include <utility>

namespace holdfast::server {
namespace {

auto place_of(const std::deque<Claim*>& waiting, const Claim& claim) {
  const auto place =
      std::lower_bound(waiting.begin(), waiting.end(), claim.id,
                       [](const Claim* other, ClaimId id) { return other->id < id; });
  return place != waiting.end() && *place == &claim ? place : waiting.end();
}

}  // namespace

void Resource::restore(Claim& claim) {
  if (claim.status == Status::active) {
    active_.push_back(&claim);
    return;
  }
  waiting_.push_back(&claim);
  if (claim.waiting_ttl.count() != 0) ++with_waiting_ttl_;
}

/// Beside those who are active and not lapsed at that time.
bool Resource::admits(Mode mode, std::uint32_t count, Micros lapsed_at) const {
  std::size_t others = 0;
  std::size_t places = count;
  for (const Claim* other : active_) {
    if (other->is_lapsed(lapsed_at)) continue;
    if (mode == Mode::exclusive || other->mode != mode) return false;
    ++others;
    places = std::min<std::size_t>(places, other->count);
  }
  return others == 0 || mode == Mode::shared || others < places;
}

bool Resource::has_place_for(Mode mode, std::uint32_t count, Micros time) const {
  return waiting_.empty() && admits(mode, count, time);
}

Claim* Resource::lapsed_first(Micros time) const {
  Claim* first = nullptr;
  for (Claim* claim : active_) {
    if (claim->is_lapsed(time) && (first == nullptr || claim->deadline < first->deadline)) {
      first = claim;
    }
  }
  return first;
}

void Resource::make_active(Claim& claim, Micros lease, Stamp now) {
  claim.status = Status::active;
  claim.activated = now;
  claim.deadline = now.time + lease;
  claim.fence = ++fence_;
  active_.push_back(&claim);
  changed_.push_back(&claim);
}

void Resource::finish(Claim& claim, Status final_status, const std::string& reason, Stamp now) {
  if (claim.status == Status::active) {
    std::erase(active_, &claim);
  } else {
    waiting_.erase(place_of(waiting_, claim));
    if (claim.waiting_ttl.count() != 0) --with_waiting_ttl_;
  }
  claim.status = final_status;
  claim.reason = reason;
  claim.ended = now;
  changed_.push_back(&claim);
}

void Resource::drop_silent(Stamp now) {
  if (with_waiting_ttl_ == 0) return;
  const std::deque<Claim*> all = waiting_;
  for (Claim* claim : all) {
    const bool is_silent =
        claim->waiting_ttl.count() != 0 && claim->heard + claim->waiting_ttl <= now.time;
    if (is_silent) finish(*claim, Status::withdrawn, "not heard of while waiting", now);
  }
}

void Resource::settle(Stamp now) {
  drop_silent(now);
  while (!waiting_.empty()) {
    Claim& head = *waiting_.front();
    if (admits(head.mode, head.count, Micros::min())) {
      waiting_.pop_front();
      if (head.waiting_ttl.count() != 0) --with_waiting_ttl_;
      make_active(head, std::max(head.ttl, grant_grace_), now);
    } else if (Claim* lapsed = lapsed_first(now.time)) {
      finish(*lapsed, Status::expired, {}, now);
    } else {
      return;
    }
  }
}

Outcome Resource::enter(Claim& claim, Stamp now) {
  claim.queued = now;
  settle(now);
  // Whether it waits is known only after it stands in line: a lapsed owner makes way for it.
  waiting_.push_back(&claim);
  if (claim.waiting_ttl.count() != 0) ++with_waiting_ttl_;
  changed_.push_back(&claim);
  settle(now);
  if (claim.status != Status::active) return Outcome::waiting;
  claim.deadline = now.time + claim.ttl;
  claim.is_confirmed = true;
  return Outcome::active;
}

void Resource::hear(Claim& claim, Micros heard_for, Stamp now) {
  if (claim.status != Status::waiting || claim.waiting_ttl.count() == 0) return;
  // An earlier request may still be held, for longer than this one.
  claim.heard = std::max(claim.heard, now.time + heard_for);
  changed_.push_back(&claim);
}

Outcome Resource::activate(Claim& claim, Micros heard_for, Stamp now) {
  settle(now);
  if (claim.is_final()) return Outcome::wrong_state;
  if (claim.status == Status::waiting) {
    hear(claim, heard_for, now);
    return Outcome::conflict;
  }
  if (!claim.is_confirmed || claim.is_lapsed(now.time)) {
    claim.is_confirmed = true;
    claim.deadline = now.time + claim.ttl;
    changed_.push_back(&claim);
    settle(now);  // that may be nothing, where the grace was more
  }
  return Outcome::active;
}

Outcome Resource::renew(Claim& claim, Micros ttl, Stamp now) {
  settle(now);
  if (claim.status != Status::active) return Outcome::wrong_state;
  claim.is_confirmed = true;
  claim.deadline = now.time + ttl;
  changed_.push_back(&claim);
  settle(now);  // a lease of nothing is over at once
  return Outcome::active;
}

Outcome Resource::end(Claim& claim, Status final_status, const std::string& reason, Stamp now) {
  settle(now);
  if (claim.is_final()) {
    return claim.status == final_status && final_status != Status::expired ? Outcome::ended
                                                                           : Outcome::wrong_state;
  }
  if (claim.status == Status::waiting && final_status == Status::released) {
    return Outcome::wrong_state;
  }
  finish(claim, final_status, reason, now);
  settle(now);
  return Outcome::ended;
}

std::optional<Micros> Resource::next_due(Micros time) const {
  std::optional<Micros> due;
  const auto consider = [&due](Micros at) { due = due ? std::min(*due, at) : at; };
  for (const Claim* claim : active_) {
    if (!claim->is_lapsed(time)) consider(claim->deadline);
  }
  if (with_waiting_ttl_ != 0) {
    for (const Claim* claim : waiting_) {
      if (claim->waiting_ttl.count() != 0) consider(claim->heard + claim->waiting_ttl);
    }
  }
  return due;
}

std::size_t Resource::position(const Claim& claim) const {
  const auto place = place_of(waiting_, claim);
  return place == waiting_.end() ? 0 : static_cast<std::size_t>(place - waiting_.begin()) + 1;
}

std::vector<const Claim*> Resource::live() const {
  std::vector<const Claim*> all(active_.begin(), active_.end());
  all.insert(all.end(), waiting_.begin(), waiting_.end());
  std::sort(all.begin(), all.end(), [](const Claim* a, const Claim* b) { return a->id < b->id; });
  return all;
}

std::vector<Claim*> Resource::take_changed() {
  std::sort(changed_.begin(), changed_.end(),
            [](const Claim* a, const Claim* b) { return a->id < b->id; });
  changed_.erase(std::unique(changed_.begin(), changed_.end()), changed_.end());
  return std::exchange(changed_, {});
}

Outcome apply(Resource& resource, Claim& claim, const Change& change, Stamp now) {
  if (change.ttl) return resource.renew(claim, *change.ttl, now);
  if (change.status == Status::active) return resource.activate(claim, change.heard_for, now);
  return resource.end(claim, change.status.value(), {}, now);
}

Outcome repeat_post(Resource& resource, Claim& claim, Micros heard_for, Stamp now) {
  const Outcome outcome = resource.activate(claim, heard_for, now);
  if (outcome == Outcome::conflict) return Outcome::waiting;
  // A lease of nothing can be over as soon as it is given.
  return claim.status == Status::active ? Outcome::active : Outcome::wrong_state;
}

}  // namespace holdfast::server
