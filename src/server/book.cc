#include "server/book.h"

#include <algorithm>
#include <utility>

#include "server/answers.h"
#include "server/wish.h"

namespace holdfast::server {
bool ListQuery::fits(const Claim& claim, Micros time) const {
  if (resource && claim.resource != *resource) return false;
  if (status && claim.status != *status) return false;
  if (mode && claim.mode != *mode) return false;
  if (ttl.is_set() && (claim.status != Status::active || !ttl.contains(claim.deadline - time))) {
    return false;
  }
  if (active_duration.is_set() &&
      (!claim.was_active() || !active_duration.contains(claim.was_active_for(time)))) {
    return false;
  }
  return waiting_duration.contains(claim.waited(time)) && created.contains(claim.queued.wall);
}

bool RevokeFilter::fits(const Claim& other) const {
  return (!claim || other.id == *claim) && (!resource || other.resource == *resource) &&
         (!owner || other.owner == *owner) && (!status || other.status == *status);
}

Book::Entry& Book::entry(const std::string& name) {
  const auto place = entries_.lower_bound(name);
  if (place != entries_.end() && place->first == name) return place->second;
  Entry fresh{name, Resource(fence_floor_, rules_.grant_grace), {}, {}, 0, 0, fence_floor_};
  return entries_.emplace_hint(place, name, std::move(fresh))->second;
}

void Book::keep(Entry& entry, Claim& claim) {
  entry.claims.push_back(claim.id);
  if (!claim.key.empty()) keys_[key_word(claim.owner, claim.key)] = claim.id;
  ++totals_.claims;
}

void Book::restore(std::vector<Claim> claims, ClaimId last_id, std::uint64_t fence_floor) {
  last_id_ = last_id;
  fence_floor_ = fence_floor;
  for (Claim& claim : claims) {
    const ClaimId id = claim.id;
    last_id_ = std::max(last_id_, id);
    Claim& kept = claims_.emplace_hint(claims_.end(), id, std::move(claim))->second;
    Entry& home = entry(kept.resource);
    keep(home, kept);
    home.resource.raise_fence(kept.fence);
    if (kept.is_final()) {
      ended_.emplace_back(kept.ended.time, id);
    } else {
      home.resource.restore(kept);
      count_live(kept, +1);
    }
  }
  std::sort(ended_.begin(), ended_.end());
  for (auto& [name, home] : entries_) {
    home.fence = home.resource.fence();  // granted before our time
    note(home, Micros::min());
  }
}

/// Brings every index in line with what happened to the claims of one resource.
void Book::note(Entry& entry, Micros time) {
  for (Claim* claim : entry.resource.take_changed()) {
    changed_.push_back(claim);
    if (!claim->is_final()) continue;
    ended_.emplace_back(claim->ended.time, claim->id);
    count_live(*claim, -1);
    if (claim->status == Status::expired) ++counters_.expired;
  }
  count(entry);
  const auto due = entry.resource.next_due(time);
  if (due == entry.due) return;
  if (entry.due) due_.erase({*entry.due, &entry});
  if (due) due_.emplace(*due, &entry);
  entry.due = due;
}

void Book::count(Entry& entry) {
  const std::size_t active = entry.resource.active().size();
  const std::size_t waiting = entry.resource.waiting().size();
  totals_.active += active - entry.active;
  totals_.waiting += waiting - entry.waiting;
  if (entry.active + entry.waiting == 0 && active + waiting != 0) ++totals_.resources;
  if (entry.active + entry.waiting != 0 && active + waiting == 0) --totals_.resources;
  entry.active = active;
  entry.waiting = waiting;
  counters_.granted += entry.resource.fence() - entry.fence;
  entry.fence = entry.resource.fence();
}

void Book::count_live(const Claim& claim, int difference) {
  if (difference > 0) {
    live_.insert(live_.end(), claim.id);
  } else {
    live_.erase(claim.id);
  }
  if (claim.owner.empty()) return;
  const auto owned = live_of_owner_.try_emplace(claim.owner, 0).first;
  owned->second += static_cast<std::size_t>(difference);
  if (owned->second == 0) live_of_owner_.erase(owned);
}

Claim* Book::remembered(const NewClaim& wish, Stamp now) {
  if (wish.key.empty()) return nullptr;
  const auto known = keys_.find(key_word(wish.owner, wish.key));
  if (known == keys_.end()) return nullptr;
  Claim& claim = claims_.at(known->second);
  return now.time - claim.queued.time < kKeyLife ? &claim : nullptr;
}

Answer Book::post(const NewClaim& wish, Stamp now) {
  if (Claim* earlier = remembered(wish, now)) {
    if (earlier->resource != wish.resource) return refusal(Answer::Kind::key_misused, now);
    Entry& home = entry(earlier->resource);
    const Outcome outcome = repeat_post(home.resource, *earlier, wish.heard_for, now);
    note(home, now.time);
    return answer_of(outcome, home.resource, *earlier, now);
  }
  const auto owned = live_of_owner_.find(wish.owner);
  if (rules_.max_claims_per_owner != 0 && owned != live_of_owner_.end() &&
      owned->second >= rules_.max_claims_per_owner) {
    return refusal(Answer::Kind::too_many, now);
  }
  Entry& home = entry(wish.resource);
  home.resource.settle(now);
  if (home.resource.waiting().size() >= rules_.max_queue &&
      !home.resource.has_place_for(wish.mode, wish.count, now.time)) {
    note(home, now.time);
    return refusal(Answer::Kind::queue_full, now);
  }
  const ClaimId id = ++last_id_;
  Claim& claim = claims_.emplace_hint(claims_.end(), id, to_claim(wish, now))->second;
  claim.id = id;
  keep(home, claim);
  count_live(claim, +1);
  const Outcome outcome = home.resource.enter(claim, now);
  note(home, now.time);
  return answer_of(outcome, home.resource, claim, now);
}

Answer Book::patch(ClaimId id, const Change& change, const Caller& caller, Stamp now) {
  const auto found = claims_.find(id);
  if (found == claims_.end()) return refusal(Answer::Kind::not_found, now);
  Claim& claim = found->second;
  if (!caller.is_admin && caller.name != claim.owner) {
    return refusal(Answer::Kind::forbidden, now);
  }
  Entry& home = entry(claim.resource);
  const Outcome outcome = apply(home.resource, claim, change, now);
  note(home, now.time);
  return answer_of(outcome, home.resource, claim, now);
}

std::vector<ClaimId> Book::revoke(const RevokeFilter& filter, const std::string& reason,
                                  Stamp now) {
  settle_due(now);
  std::vector<ClaimId> fitting;
  for (const ClaimId id : live_) {
    if (filter.fits(claims_.at(id))) fitting.push_back(id);
  }
  // From the back: a waiter that is to go must not become active for a moment.
  for (auto id = fitting.rbegin(); id != fitting.rend(); ++id) {
    Claim& claim = claims_.at(*id);
    Entry& home = entry(claim.resource);
    (void)home.resource.end(claim, Status::revoked, reason, now);  // they are live: it is done
    note(home, now.time);
  }
  return fitting;
}

View Book::view(const Claim& claim) const {
  const auto home = entries_.find(claim.resource);
  return {claim, claim.status == Status::waiting ? home->second.resource.position(claim) : 0};
}

Answer Book::claim(ClaimId id, Stamp now) const {
  const auto found = claims_.find(id);
  if (found == claims_.end()) return refusal(Answer::Kind::not_found, now);
  Answer answer;
  answer.view = view(found->second);
  answer.now = now;
  return answer;
}

std::vector<View> Book::list(const ListQuery& query, Stamp now) const {
  std::vector<View> page;
  std::size_t skip = query.offset;
  // Says whether the page has room for more.
  const auto look = [&](const Claim& claim) {
    if (page.size() >= query.limit) return false;
    if (!query.fits(claim, now.time)) return true;
    if (skip > 0) {
      --skip;
      return true;
    }
    page.push_back(view(claim));
    return true;
  };
  const bool is_of_live = query.ttl.is_set() || (query.status && !claims::is_final(*query.status));
  if (query.resource) {
    const auto home = entries_.find(*query.resource);
    if (home == entries_.end()) return page;
    if (is_of_live) {
      for (const Claim* claim : home->second.resource.live()) {
        if (!look(*claim)) break;
      }
      return page;
    }
    for (const ClaimId id : home->second.claims) {
      if (!look(claims_.at(id))) break;
    }
  } else if (is_of_live) {
    for (const ClaimId id : live_) {
      if (!look(claims_.at(id))) break;
    }
  } else {
    for (const auto& [id, claim] : claims_) {
      if (!look(claim)) break;
    }
  }
  return page;
}

ResourceView Book::resource_view(const Entry& entry) const {
  ResourceView shown;
  shown.name = entry.name;
  for (const Claim* claim : entry.resource.active()) shown.active.push_back({*claim, 0});
  shown.queue_length = entry.resource.waiting().size();
  shown.fence = entry.resource.fence();
  return shown;
}

std::vector<ResourceView> Book::resources(const ResourceQuery& query) const {
  std::vector<ResourceView> page;
  std::size_t skip = query.offset;
  for (const auto& [name, entry] : entries_) {
    if (page.size() >= query.limit) break;
    if (entry.resource.is_idle() && !query.with_idle) continue;
    if (name.find(query.contains) == std::string::npos) continue;
    if (skip > 0) {
      --skip;
    } else {
      page.push_back(resource_view(entry));
    }
  }
  return page;
}

QueueView Book::queue(const std::string& name, std::size_t limit, std::size_t offset) const {
  QueueView shown;
  const auto found = entries_.find(name);
  if (found == entries_.end()) {
    shown.resource.name = name;
    shown.resource.fence = fence_floor_;
    return shown;
  }
  shown.resource = resource_view(found->second);
  const auto& waiting = found->second.resource.waiting();
  for (std::size_t i = offset; i < waiting.size() && i - offset < limit; ++i) {
    shown.waiting.push_back({*waiting[i], i + 1});
  }
  return shown;
}

std::uint64_t Book::fence(const std::string& name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? fence_floor_ : found->second.resource.fence();
}

void Book::settle_due(Stamp now) {
  while (!due_.empty() && due_.begin()->first <= now.time) {
    Entry& home = *due_.begin()->second;
    home.resource.settle(now);
    note(home, now.time);
  }
}

std::optional<Micros> Book::next_due() const {
  std::optional<Micros> due;
  if (!due_.empty()) due = due_.begin()->first;
  if (!ended_.empty()) {
    const Micros drop = ended_.front().first + rules_.retain;
    due = due ? std::min(*due, drop) : drop;
  }
  return due;
}

bool Book::is_droppable(Micros time) const {
  return !ended_.empty() &&
         (ended_.size() > rules_.retain_claims || ended_.front().first + rules_.retain <= time);
}

void Book::drop_ended(Stamp now, std::size_t limit) {
  for (std::size_t i = 0; i < limit && is_droppable(now.time); ++i) {
    const auto claim = claims_.find(ended_.front().second);
    ended_.pop_front();
    fence_floor_ = std::max(fence_floor_, claim->second.fence);
    forget(claim->second);
    dropped_.push_back(std::move(claim->second));
    claims_.erase(claim);
  }
}

void Book::forget(const Claim& claim) {
  const auto home = entries_.find(claim.resource);
  auto& ids = home->second.claims;
  ids.erase(std::lower_bound(ids.begin(), ids.end(), claim.id));
  --totals_.claims;
  const auto key = keys_.find(key_word(claim.owner, claim.key));
  if (key != keys_.end() && key->second == claim.id) keys_.erase(key);
  std::erase(changed_, &claim);
  if (ids.empty()) entries_.erase(home);
}

void Book::rules_changed() {
  for (auto& [name, home] : entries_) home.resource.set_grant_grace(rules_.grant_grace);
}

Book::Changes Book::take_changes() {
  Changes changes{std::exchange(changed_, {}), std::exchange(dropped_, {}), last_id_, fence_floor_};
  return changes;
}

}  // namespace holdfast::server
