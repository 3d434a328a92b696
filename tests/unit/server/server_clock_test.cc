#include "server/server_clock.h"

#include <catch2/catch.hpp>
#include <random>

#include "stage.h"

using namespace holdfast::server;
using namespace std::chrono_literals;

namespace {

struct Scene {
  FakeClocks clocks;
  std::vector<std::string> notices;
  ServerClock clock{Micros(5000), clocks.sources(),
                    [this](const std::string& text) { notices.push_back(text); }};
};

}  // namespace

TEST_CASE("the server's time goes on from where it was stored, with the monotonic clock",
          "[server][clock]") {
  Scene scene;
  CHECK(scene.clock.now().time == 5000us);
  scene.clocks.pass(3s);
  CHECK(scene.clock.now().time == 3s + 5000us);
  CHECK(scene.clock.now().wall == std::chrono::hours(500000) + 3s);
  CHECK(scene.notices.empty());
}

TEST_CASE("a step of the wall clock is noticed and does not move leases", "[server][clock]") {
  Scene scene;
  const auto step = GENERATE(as<std::chrono::nanoseconds>(), 2h, -2h);
  scene.clocks.wall += step;
  scene.clocks.pass(2s);
  CHECK(scene.clock.now().time == 2s + 5000us);
  REQUIRE(scene.notices.size() == 1);
  CHECK(scene.notices[0].find("stepped") != std::string::npos);
  scene.clocks.pass(2s);
  scene.clock.now();
  CHECK(scene.notices.size() == 1);
}

TEST_CASE("the sleep of the host is noticed and does not count", "[server][clock]") {
  Scene scene;
  scene.clocks.boot += 1h;
  scene.clocks.wall += 1h;
  scene.clocks.pass(2s);
  CHECK(scene.clock.now().time == 2s + 5000us);
  REQUIRE(scene.notices.size() == 1);
  CHECK(scene.notices[0].find("slept") != std::string::npos);
}

TEST_CASE("a stop is noticed by a late timer, and the clock stands before it", "[server][clock]") {
  Scene scene;
  const Micros start = scene.clock.now().time;
  scene.clock.expect(start + 10s);
  scene.clocks.pass(10s + 900ms);
  CHECK(scene.clock.now().time == start + 10s + 900ms);  // only late
  CHECK(scene.notices.empty());
  SECTION("when it comes before the timer") {
    scene.clock.expect(start + 20s);
    scene.clocks.pass(60s);
    const Micros woken = scene.clock.now().time;
    CHECK(woken < start + 20s);
    CHECK(woken >= start + 19s);
    CHECK(scene.notices.size() == 1);
    scene.clocks.pass(2s);
    CHECK(scene.clock.now().time == woken + 2s);
  }
  SECTION("without going back behind what it has told") {
    scene.clock.expect(start + 11s);
    const Micros told = scene.clock.now().time;  // a tenth of a second before
    scene.clocks.pass(60s);
    CHECK(scene.clock.now().time == told);
    scene.clocks.pass(500ms);
    CHECK(scene.clock.now().time == told);  // it waits: others are to be heard first
    scene.clocks.pass(1s);
    CHECK(scene.clock.now().time > told);
    CHECK(scene.clock.now().time < told + 1s);
  }
}

TEST_CASE("whatever the clocks do, the server's time never goes back", "[server][clock]") {
  std::mt19937_64 random(7);
  std::uniform_int_distribution<int> dice(0, 99);
  Scene scene;
  Micros last = scene.clock.now().time;
  for (int i = 0; i < 20000; ++i) {
    scene.clocks.pass(std::chrono::milliseconds(dice(random) * (dice(random) < 5 ? 500 : 3)));
    if (dice(random) < 3) scene.clocks.wall += std::chrono::seconds(dice(random) - 50);
    if (dice(random) < 3) scene.clocks.boot += std::chrono::seconds(dice(random));
    const Micros now = scene.clock.now().time;
    if (now < last) REQUIRE(now >= last);
    last = now;
    if (dice(random) < 20) scene.clock.expect(now + std::chrono::milliseconds(dice(random) * 30));
    if (dice(random) < 5) scene.clock.expect(std::nullopt);
  }
  CHECK_FALSE(scene.notices.empty());
}
