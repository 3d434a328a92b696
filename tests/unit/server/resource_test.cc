#include "server/resource.h"

#include <catch2/catch.hpp>
#include <deque>

#include "scene.h"

using namespace holdfast::server;
using namespace std::chrono_literals;

namespace {

/// One resource and those who want it. Leases last 100 unless told otherwise.
struct Scene {
  Resource resource{0};
  std::deque<Claim> claims;

  Claim& make(Micros ttl = 100us, Mode mode = Mode::exclusive, std::uint32_t count = 0) {
    Claim& claim = claims.emplace_back();
    claim.id = claims.size();
    claim.ttl = ttl;
    claim.mode = mode;
    claim.count = count;
    return claim;
  }
  Claim& enter(std::int64_t time, Micros ttl = 100us, Mode mode = Mode::exclusive,
               std::uint32_t count = 0) {
    Claim& claim = make(ttl, mode, count);
    resource.enter(claim, at(time));
    return claim;
  }
};

enum class From {
  waiting_behind_owner,
  waiting_behind_waiter,
  head_and_just_free,
  active,
  lapsed_without_rival,
  released,
  aborted,
  revoked,
  withdrawn,
  expired,
};

/// Brings a claim into that state by the time 1000.
Claim& bring(Scene& scene, From from) {
  Resource& resource = scene.resource;
  const auto ended = [&](Status status) -> Claim& {
    Claim& claim = scene.enter(900, 1000us);
    REQUIRE(resource.end(claim, status, {}, at(950)) == Outcome::ended);
    return claim;
  };
  switch (from) {
    case From::waiting_behind_owner:
      scene.enter(900, 1000us);
      return scene.enter(901);
    case From::waiting_behind_waiter:
      scene.enter(900, 1000us);
      scene.enter(901);
      return scene.enter(902);
    case From::head_and_just_free: {
      Claim& owner = scene.enter(900, 1000us);
      Claim& head = scene.enter(901);
      resource.end(owner, Status::released, {}, at(990));
      return head;
    }
    case From::active:
      return scene.enter(900, 1000us);
    case From::lapsed_without_rival:
      return scene.enter(800, 100us);
    case From::released:
      return ended(Status::released);
    case From::aborted:
      return ended(Status::aborted);
    case From::revoked:
      return ended(Status::revoked);
    case From::withdrawn:
      return ended(Status::withdrawn);
    case From::expired: {
      Claim& claim = scene.enter(800, 100us);
      scene.enter(950, 1000us);
      return claim;
    }
  }
  throw std::logic_error("no such state");
}

Change status(Status wanted) {
  Change change;
  change.status = wanted;
  return change;
}

Change ttl(Micros wanted) {
  Change change;
  change.ttl = wanted;
  return change;
}

}  // namespace

TEST_CASE("every cell of the table of changes", "[server][resource]") {
  using enum From;
  constexpr auto kNo = Outcome::wrong_state;
  constexpr auto kEnd = Outcome::ended;
  struct Row {
    From from;
    Outcome active, released, aborted, revoked, withdrawn, ttl;
  };
  // clang-format off
  const auto row = GENERATE(values<Row>({
      //                     active             released aborted revoked withdrawn ttl
      {waiting_behind_owner,  Outcome::conflict, kNo,     kEnd,   kEnd,   kEnd,     kNo},
      {waiting_behind_waiter, Outcome::conflict, kNo,     kEnd,   kEnd,   kEnd,     kNo},
      {head_and_just_free,    Outcome::active,   kEnd,    kEnd,   kEnd,   kEnd,     Outcome::active},
      {active,                Outcome::active,   kEnd,    kEnd,   kEnd,   kEnd,     Outcome::active},
      {lapsed_without_rival,  Outcome::active,   kEnd,    kEnd,   kEnd,   kEnd,     Outcome::active},
      {released,              kNo,               kEnd,    kNo,    kNo,    kNo,      kNo},
      {aborted,               kNo,               kNo,     kEnd,   kNo,    kNo,      kNo},
      {revoked,               kNo,               kNo,     kNo,    kEnd,   kNo,      kNo},
      {withdrawn,             kNo,               kNo,     kNo,    kNo,    kEnd,     kNo},
      {expired,               kNo,               kNo,     kNo,    kNo,    kNo,      kNo},
  }));
  // clang-format on
  const std::vector<std::pair<Change, Outcome>> cells{
      {status(Status::active), row.active},       {status(Status::released), row.released},
      {status(Status::aborted), row.aborted},     {status(Status::revoked), row.revoked},
      {status(Status::withdrawn), row.withdrawn}, {ttl(70us), row.ttl},
  };
  for (const auto& [change, wanted] : cells) {
    Scene scene;
    Claim& claim = bring(scene, row.from);
    (void)scene.resource.take_changed();
    const std::string before = told(claim);
    INFO(before << (change.status ? holdfast::claims::word(*change.status) : "ttl"));
    CHECK(apply(scene.resource, claim, change, at(1000)) == wanted);
    if (wanted == kNo || wanted == Outcome::conflict) CHECK(told(claim) == before);
    if (row.from >= released) {
      CHECK(told(claim) == before);  // an ended claim is never touched again
      CHECK(scene.resource.take_changed().empty());
    } else if (wanted == kEnd) {
      CHECK(claim.status == *change.status);
      CHECK(claim.ended.time == 1000us);
    } else if (change.ttl && wanted == Outcome::active) {
      CHECK(claim.deadline == 1070us);
    }
  }
}

TEST_CASE("a lease that is asked for begins when it is asked for", "[server][resource]") {
  Scene scene;
  SECTION("by the first request of a claim that was promoted unasked, and by no other") {
    Claim& claim = bring(scene, From::head_and_just_free);
    CHECK(claim.deadline == 1090us);
    scene.resource.activate(claim, 0us, at(1000));
    CHECK(claim.deadline == 1100us);
    scene.resource.activate(claim, 0us, at(1050));
    CHECK(claim.deadline == 1100us);
  }
  SECTION("of a claim that has lapsed") {
    Claim& claim = bring(scene, From::lapsed_without_rival);
    scene.resource.activate(claim, 0us, at(1000));
    CHECK(claim.deadline == 1100us);
    CHECK(claim.fence == 1);
  }
  SECTION("not of one that was active from the start") {
    Claim& claim = scene.enter(900, 1000us);
    scene.resource.activate(claim, 0us, at(1000));
    CHECK(claim.deadline == 1900us);
  }
}

TEST_CASE("a place that nobody asked for is held for the grace", "[server][resource]") {
  Scene scene;
  scene.resource.set_grant_grace(500us);
  Claim& owner = scene.enter(0);
  CHECK(owner.deadline == 100us);  // it was asked for
  Claim& next = scene.enter(1);
  scene.enter(2);
  scene.resource.settle(at(100));
  CHECK(next.deadline == 600us);
  scene.resource.settle(at(599));
  CHECK(next.status == Status::active);
  scene.resource.activate(next, 0us, at(599));
  CHECK(next.deadline == 699us);
}

TEST_CASE("a lapsed owner makes way for whoever comes, and only for one it excludes",
          "[server][resource]") {
  Scene scene;
  Claim& owner = scene.enter(0);
  scene.resource.settle(at(5000));
  CHECK(owner.status == Status::active);
  Claim& rival = scene.make();
  CHECK(scene.resource.enter(rival, at(5000)) == Outcome::active);
  CHECK(owner.status == Status::expired);
  CHECK(owner.ended.time == 5000us);
  CHECK(rival.fence == owner.fence + 1);

  Scene shared;
  Claim& reader = shared.enter(0, 100us, Mode::shared);
  Claim& other = shared.enter(5000, 100us, Mode::shared);
  CHECK(reader.status == Status::active);
  CHECK(other.status == Status::active);
}

TEST_CASE("a newcomer does not overtake the queue when the owner has just lapsed",
          "[server][resource]") {
  Scene scene;
  Claim& owner = scene.enter(0);
  Claim& first = scene.enter(1);
  Claim& newcomer = scene.make();
  CHECK(scene.resource.enter(newcomer, at(100)) == Outcome::waiting);  // nobody settled before
  CHECK(owner.status == Status::expired);
  CHECK(first.status == Status::active);
}

TEST_CASE("a lease of nothing is over at once", "[server][resource]") {
  Scene scene;
  Claim& owner = scene.enter(0, 0us);
  CHECK(owner.status == Status::active);
  CHECK(scene.resource.renew(owner, 0us, at(10)) == Outcome::active);
  Claim& rival = scene.enter(10, 1000us);
  CHECK(owner.status == Status::expired);
  Claim& next = scene.enter(11);
  CHECK(scene.resource.renew(rival, 0us, at(20)) == Outcome::active);
  CHECK(rival.status == Status::expired);
  CHECK(next.status == Status::active);
}

TEST_CASE("readers at the head are active together, and an exclusive claim stops later ones",
          "[server][resource]") {
  Scene scene;
  Claim& owner = scene.enter(0, 1000us);
  Claim& one = scene.enter(1, 100us, Mode::shared);
  Claim& two = scene.enter(2, 100us, Mode::shared);
  Claim& writer = scene.enter(3);
  Claim& three = scene.enter(4, 100us, Mode::shared);
  CHECK(scene.resource.position(three) == 4);
  scene.resource.end(owner, Status::released, {}, at(10));
  CHECK(one.status == Status::active);
  CHECK(two.status == Status::active);
  CHECK(one.fence == 2);
  CHECK(two.fence == 3);
  CHECK(writer.status == Status::waiting);
  CHECK(three.status == Status::waiting);
  scene.resource.end(one, Status::released, {}, at(20));
  scene.resource.end(two, Status::released, {}, at(20));
  CHECK(writer.status == Status::active);
  CHECK(three.status == Status::waiting);
}

TEST_CASE("counted claims share as many places as the smallest count among them",
          "[server][resource]") {
  Scene scene;
  Claim& one = scene.enter(0, 1000us, Mode::counted, 3);
  Claim& two = scene.enter(0, 1000us, Mode::counted, 2);
  Claim& three = scene.enter(0, 1000us, Mode::counted, 3);
  CHECK(two.status == Status::active);
  CHECK(three.status == Status::waiting);
  scene.resource.end(two, Status::released, {}, at(1));
  CHECK(three.status == Status::active);
  Claim& alone = scene.enter(2, 1000us, Mode::counted, 1);
  scene.resource.end(one, Status::released, {}, at(3));
  CHECK(alone.status == Status::waiting);
  scene.resource.end(three, Status::released, {}, at(4));
  CHECK(alone.status == Status::active);
  Claim& reader = scene.enter(5, 1000us, Mode::shared);
  CHECK(reader.status == Status::waiting);
}

TEST_CASE("a waiter that falls silent leaves the queue", "[server][resource]") {
  Scene scene;
  Claim& owner = scene.enter(0, 1000us);
  Claim& waiter = scene.make();
  waiter.waiting_ttl = 50us;
  waiter.heard = 10us;
  scene.resource.enter(waiter, at(10));
  CHECK(scene.resource.next_due(Micros(10)) == 60us);
  SECTION("after its waiting_ttl") {
    scene.resource.settle(at(59));
    CHECK(waiter.status == Status::waiting);
    scene.resource.settle(at(60));
    CHECK(waiter.status == Status::withdrawn);
    CHECK_FALSE(waiter.reason.empty());
  }
  SECTION("which begins anew with each request") {
    CHECK(scene.resource.activate(waiter, 0us, at(40)) == Outcome::conflict);
    CHECK(scene.resource.next_due(Micros(40)) == 90us);
  }
  SECTION("and not while its client stays on the line") {
    scene.resource.activate(waiter, 300us, at(40));
    // Another request of the same client does not hang up the one that is held.
    scene.resource.activate(waiter, 0us, at(50));
    scene.resource.settle(at(389));
    CHECK(waiter.status == Status::waiting);
    scene.resource.settle(at(390));
    CHECK(waiter.status == Status::withdrawn);
  }
  SECTION("but is not asked for it once it is active") {
    scene.resource.end(owner, Status::released, {}, at(20));
    scene.resource.settle(at(500));
    CHECK(waiter.status == Status::active);
    CHECK_FALSE(scene.resource.next_due(Micros(500)));
  }
}

TEST_CASE("what was changed is told once, by id", "[server][resource]") {
  Scene scene;
  Claim& owner = scene.enter(0);
  Claim& waiter = scene.enter(1);
  CHECK(scene.resource.take_changed() == std::vector<Claim*>{&owner, &waiter});
  CHECK(scene.resource.take_changed().empty());
  scene.resource.activate(waiter, 0us, at(2));  // conflict: nothing to keep
  CHECK(scene.resource.take_changed().empty());
  scene.resource.activate(waiter, 0us, at(100));
  CHECK(scene.resource.take_changed() == std::vector<Claim*>{&owner, &waiter});
}
