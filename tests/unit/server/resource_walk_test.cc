/// Random lives of one resource, compared step by step with a model that has no indexes and no
/// shortcuts, and with the promises themselves.
#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "scene.h"
#include "server/resource.h"

using namespace holdfast::server;
using namespace std::chrono_literals;

namespace {

/// May all of these be active at one time?
bool go_together(const std::vector<const Claim*>& claims) {
  if (claims.size() < 2) return true;
  return std::all_of(claims.begin(), claims.end(), [&](const Claim* claim) {
    if (claim->mode == Mode::shared) return claims.front()->mode == Mode::shared;
    return claim->mode == Mode::counted && claims.front()->mode == Mode::counted &&
           claims.size() <= claim->count;
  });
}

/// The specification, by looking at everything each time.
struct Model {
  std::deque<Claim> claims;  ///< by id
  std::uint64_t fence = 0;
  Micros grace{};

  std::vector<Claim*> with(Status status) {
    std::vector<Claim*> found;
    for (Claim& claim : claims) {
      if (claim.status == status) found.push_back(&claim);
    }
    return found;
  }

  void finish(Claim& claim, Status status, const std::string& reason, Stamp now) {
    claim.status = status;
    claim.reason = reason;
    claim.ended = now;
  }

  bool promote(Stamp now) {
    const auto waiting = with(Status::waiting);
    if (waiting.empty()) return false;
    Claim& head = *waiting.front();
    const auto active = with(Status::active);
    std::vector<const Claim*> together(active.begin(), active.end());
    together.push_back(&head);
    if (go_together(together)) {
      head.status = Status::active;
      head.fence = ++fence;
      head.activated = now;
      head.deadline = now.time + std::max(head.ttl, grace);
      return true;
    }
    Claim* victim = nullptr;
    for (Claim* claim : active) {
      if (claim->deadline > now.time) continue;
      if (victim == nullptr || claim->deadline < victim->deadline) victim = claim;
    }
    if (victim != nullptr) finish(*victim, Status::expired, {}, now);
    return victim != nullptr;
  }

  void settle(Stamp now) {
    for (Claim* claim : with(Status::waiting)) {
      if (claim->waiting_ttl > 0us && claim->heard + claim->waiting_ttl <= now.time) {
        finish(*claim, Status::withdrawn, "not heard of while waiting", now);
      }
    }
    while (promote(now)) continue;
  }

  Outcome enter(const Claim& wish, Stamp now) {
    settle(now);
    Claim& claim = claims.emplace_back(wish);
    claim.queued = now;
    settle(now);
    if (claim.status == Status::waiting) return Outcome::waiting;
    claim.deadline = now.time + claim.ttl;
    claim.is_confirmed = true;
    return Outcome::active;
  }

  Outcome apply(ClaimId id, const Change& change, Stamp now) {
    settle(now);
    Claim& claim = claims.at(id - 1);
    const bool is_active = claim.status == Status::active;
    if (change.ttl) {
      if (!is_active) return Outcome::wrong_state;
      claim.deadline = now.time + *change.ttl;
      claim.is_confirmed = true;
      settle(now);
      return Outcome::active;
    }
    const Status wanted = *change.status;
    if (wanted == Status::active) {
      if (claim.is_final()) return Outcome::wrong_state;
      if (!is_active) {
        if (claim.waiting_ttl > 0us)
          claim.heard = std::max(claim.heard, now.time + change.heard_for);
        return Outcome::conflict;
      }
      if (!claim.is_confirmed || claim.deadline <= now.time) claim.deadline = now.time + claim.ttl;
      claim.is_confirmed = true;
      settle(now);
      return Outcome::active;
    }
    if (claim.is_final()) return claim.status == wanted ? Outcome::ended : Outcome::wrong_state;
    if (!is_active && wanted == Status::released) return Outcome::wrong_state;
    finish(claim, wanted, {}, now);
    settle(now);
    return Outcome::ended;
  }
};

/// What holds at any time, whatever was asked.
void check_invariants(const Resource& resource, const std::deque<Claim>& before,
                      const std::deque<Claim>& claims, Stamp now) {
  std::vector<const Claim*> active;
  std::vector<const Claim*> waiting;
  std::vector<std::uint64_t> fences;
  for (const Claim& claim : claims) {
    if (claim.status == Status::active) active.push_back(&claim);
    if (claim.status == Status::waiting) waiting.push_back(&claim);
    if (claim.fence != 0) fences.push_back(claim.fence);
    MUST((claim.status != Status::active || claim.fence != 0));
    MUST((claim.status != Status::waiting || claim.fence == 0));
    if (claim.fence != 0) REQUIRE(claim.queued.time <= claim.activated.time);
    if (claim.is_final()) {
      MUST(std::max(claim.queued.time, claim.activated.time) <= claim.ended.time);
    }
  }
  MUST(go_together(active));
  MUST(active.size() == resource.active().size());
  MUST(waiting == std::vector<const Claim*>(resource.waiting().begin(), resource.waiting().end()));
  for (std::size_t i = 0; i < waiting.size(); ++i) REQUIRE(resource.position(*waiting[i]) == i + 1);

  // By id the fences grow by one: nobody was overtaken, none is given twice, none is left out.
  for (std::size_t i = 0; i < fences.size(); ++i) REQUIRE(fences[i] == i + 1);
  MUST(resource.fence() == fences.size());
  if (!waiting.empty()) {
    MUST((active.empty() || active.back()->id < waiting.front()->id));
    auto together = active;
    together.push_back(waiting.front());
    MUST(!go_together(together));
    for (const Claim* claim : active) {
      const bool excludes = !go_together({claim, waiting.front()}) || claim->mode == Mode::counted;
      MUST((claim->deadline > now.time || !excludes));
    }
  }
  for (const Claim& old : before) {
    const Claim& claim = claims.at(old.id - 1);
    if (old.is_final()) MUST(same(claim, old));
    if (claim.fence != 0 && old.fence != 0) REQUIRE(claim.fence == old.fence);
    if (claim.status != Status::expired || old.is_final()) continue;
    MUST(claim.deadline <= now.time);
    // A rival was there: one that came later and was not active before this step.
    REQUIRE(std::any_of(claims.begin(), claims.end(), [&](const Claim& rival) {
      const bool was_active =
          rival.id <= before.size() && before.at(rival.id - 1).status != Status::waiting;
      return rival.id > claim.id && !was_active;
    }));
  }
}

struct Dice {
  std::mt19937_64 engine;
  explicit Dice(std::uint64_t seed) : engine(seed) {}
  int operator()(int below) { return std::uniform_int_distribution<int>(0, below - 1)(engine); }
};

/// Which kinds of claims a life knows.
struct Habits {
  bool shared = false, counted = false, silence = false;
  int grace = 0;
};

Claim wish(Dice& dice, ClaimId id, const Habits& habits, Micros time) {
  Claim claim;
  claim.id = id;
  claim.ttl = Micros(dice(8) == 0 ? 0 : dice(60));
  if (habits.shared && dice(2) == 0) claim.mode = Mode::shared;
  if (habits.counted && dice(2) == 0) {
    claim.mode = Mode::counted;
    claim.count = static_cast<std::uint32_t>(1 + dice(4));
  }
  if (habits.silence && dice(2) == 0) claim.waiting_ttl = Micros(1 + dice(40));
  claim.heard = time + Micros(dice(3) == 0 ? dice(50) : 0);
  return claim;
}

Change some_change(Dice& dice) {
  constexpr std::array kWanted{Status::active,  Status::active,    Status::active, Status::released,
                               Status::aborted, Status::withdrawn, Status::revoked};
  Change change;
  if (dice(4) == 0) {
    change.ttl = Micros(dice(5) == 0 ? 0 : dice(50));
  } else {
    change.status = kWanted.at(static_cast<std::size_t>(dice(kWanted.size())));
    if (dice(3) == 0) change.heard_for = Micros(dice(30));
  }
  return change;
}

/// Mostly one of the last few, so that there is life among them.
ClaimId some_id(Dice& dice, std::size_t count) {
  const auto last = static_cast<int>(count);
  return static_cast<ClaimId>(dice(5) == 0 ? 1 + dice(last) : last - dice(std::min(last, 12)));
}

void compare(const std::deque<Claim>& claims, const std::deque<Claim>& others) {
  MUST(claims.size() == others.size());
  for (std::size_t i = 0; i < claims.size(); ++i)
    if (!same(claims[i], others[i])) REQUIRE(told(claims[i]) == told(others[i]));
}

const auto kHabits = {Habits{},
                      Habits{.shared = true},
                      Habits{.counted = true},
                      Habits{.silence = true},
                      Habits{.shared = true, .counted = true, .silence = true},
                      Habits{.shared = true, .counted = true, .silence = true, .grace = 30}};

}  // namespace

TEST_CASE("any life of a resource is the one that the model leads", "[server][resource]") {
  const Habits habits = GENERATE(values(kHabits));
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    Resource resource(0, Micros(habits.grace));
    std::deque<Claim> claims;
    Model model;
    model.grace = Micros(habits.grace);
    std::int64_t time = 0;
    for (int step = 0; step < 150; ++step) {
      time += dice(3) == 0 ? 0 : dice(25);
      const Stamp now = at(time);
      const std::deque<Claim> before = claims;
      const int what = dice(10);
      if (claims.empty() || what < 4) {
        const Claim claim = wish(dice, claims.size() + 1, habits, now.time);
        MUST(resource.enter(claims.emplace_back(claim), now) == model.enter(claim, now));
      } else if (what == 4) {
        resource.settle(now);
        model.settle(now);
      } else {
        const ClaimId id = some_id(dice, claims.size());
        const Change change = some_change(dice);
        MUST(apply(resource, claims.at(id - 1), change, now) == model.apply(id, change, now));
      }
      compare(claims, model.claims);
      check_invariants(resource, before, claims, now);
      // All that differs is told, so that all of it is stored.
      std::vector<ClaimId> changed;
      for (const Claim* claim : resource.take_changed()) changed.push_back(claim->id);
      MUST(std::is_sorted(changed.begin(), changed.end()));
      for (const Claim& claim : claims) {
        const bool is_same = claim.id <= before.size() && same(before[claim.id - 1], claim);
        if (!is_same) REQUIRE(std::count(changed.begin(), changed.end(), claim.id) == 1);
      }
    }
  }
}

TEST_CASE("settling when something is due is as good as settling all the time",
          "[server][resource]") {
  const Habits habits = GENERATE(values(kHabits));
  for (std::uint64_t seed = 100; seed < 140; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    Resource eager(0, Micros(habits.grace));
    Resource lazy(0, Micros(habits.grace));
    std::deque<Claim> of_eager;
    std::deque<Claim> of_lazy;
    std::int64_t time = 0;
    for (int step = 0; step < 150; ++step) {
      const std::int64_t until = time + (dice(3) == 0 ? 0 : dice(30));
      for (std::int64_t t = time; t <= until; ++t) eager.settle(at(t));
      for (auto due = lazy.next_due(Micros(time)); due && due->count() <= until;
           due = lazy.next_due(*due)) {
        MUST(due->count() > time);
        lazy.settle(at(due->count()));
      }
      time = until;
      compare(of_eager, of_lazy);
      if (of_eager.empty() || dice(10) < 5) {
        const Claim claim = wish(dice, of_eager.size() + 1, habits, Micros(time));
        eager.enter(of_eager.emplace_back(claim), at(time));
        lazy.enter(of_lazy.emplace_back(claim), at(time));
      } else {
        const ClaimId id = some_id(dice, of_eager.size());
        const Change change = some_change(dice);
        apply(eager, of_eager.at(id - 1), change, at(time));
        apply(lazy, of_lazy.at(id - 1), change, at(time));
      }
      compare(of_eager, of_lazy);
    }
  }
}

TEST_CASE("a resource that is restored at any moment goes on as if nothing had been",
          "[server][resource]") {
  for (std::uint64_t seed = 200; seed < 260; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const Habits habits{.shared = true, .counted = true, .silence = true};
    auto resource = std::make_unique<Resource>(0);
    std::deque<Claim> claims;
    Model model;
    std::int64_t time = 0;
    for (int step = 0; step < 150; ++step) {
      time += dice(20);
      if (dice(4) == 0) {
        const std::uint64_t fence = resource->fence();
        resource = std::make_unique<Resource>(fence);
        for (Claim& claim : claims) {
          if (!claim.is_final()) resource->restore(claim);
        }
      }
      if (claims.empty() || dice(2) == 0) {
        const Claim claim = wish(dice, claims.size() + 1, habits, Micros(time));
        resource->enter(claims.emplace_back(claim), at(time));
        model.enter(claim, at(time));
      } else {
        const ClaimId id = some_id(dice, claims.size());
        const Change change = some_change(dice);
        MUST(apply(*resource, claims.at(id - 1), change, at(time)) ==
             model.apply(id, change, at(time)));
      }
      compare(claims, model.claims);
    }
  }
}
