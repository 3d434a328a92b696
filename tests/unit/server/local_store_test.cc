#include "server/local_store.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "scene.h"
#include "stage.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::server;
using holdfast::testing::eventually;
using namespace std::chrono_literals;

namespace {

const Caller kAdmin;

NewClaim wish(const std::string& resource, Micros ttl = 10s) {
  NewClaim claim;
  claim.resource = resource;
  claim.ttl = ttl;
  return claim;
}

Change to(Status status) {
  Change change;
  change.status = status;
  return change;
}

Change renewal(Micros ttl) {
  Change change;
  change.ttl = ttl;
  return change;
}

/// A store on a stage. Every answer is noted; a second one to the same question is a fault.
struct Scene {
  FakeClocks clocks;
  ManualScheduler scheduler{clocks};
  Disk disk;
  Rules rules;
  std::unique_ptr<LocalStore> store;
  std::vector<std::pair<View, int>> heard;  ///< by the listener, and how many commits there were
  int asked = 0;
  int answered = 0;

  explicit Scene(Rules with = {}) : rules(std::move(with)) { open(); }
  Scene(const Scene&) = delete;
  Scene& operator=(const Scene&) = delete;
  ~Scene() {
    disk.hold(false);
    if (store) close();
  }

  void open() {
    auto rows = std::make_unique<FakeRows>(disk);
    auto contents = std::get<Rows::Contents>(rows->load());
    store = std::make_unique<LocalStore>(std::move(rows), std::move(contents), rules, scheduler,
                                         clocks.sources(), Log(Log::Level::silent));
    store->on_change([this](const View& view, Stamp) { heard.emplace_back(view, commits()); });
  }
  void close() {
    bool is_closed = false;
    store->close([&] { is_closed = true; });
    CHECK_FALSE(is_closed);
    CHECK(scheduler.run_until([&] { return is_closed; }));
    store.reset();
  }
  int commits() {
    return disk.look<int>([](const Disk& d) { return d.commits; });
  }
  bool is_committing() {
    return disk.look<bool>([](const Disk& d) { return d.is_waiting; });
  }
  void set_failing(bool fails) {
    const std::lock_guard lock(disk.mutex);
    disk.fails = [fails] { return fails; };
  }

  /// An answer that is not there yet.
  std::shared_ptr<std::optional<Answer>> slot() {
    ++asked;
    return std::make_shared<std::optional<Answer>>();
  }
  Store::Done into(const std::shared_ptr<std::optional<Answer>>& place) {
    return [this, place](Answer answer) {
      if (*place) FAIL("answered twice");
      *place = std::move(answer);
      ++answered;
    };
  }
  std::shared_ptr<std::optional<Answer>> post(NewClaim claim) {
    auto place = slot();
    store->post(std::move(claim), into(place));
    CHECK_FALSE(*place);  // never inside the call
    return place;
  }
  std::shared_ptr<std::optional<Answer>> patch(ClaimId id, Change change) {
    auto place = slot();
    store->patch(id, change, kAdmin, into(place));
    CHECK_FALSE(*place);
    return place;
  }
  std::shared_ptr<std::optional<Answer>> read(ClaimId id) {
    auto place = slot();
    store->claim(id, into(place));
    CHECK_FALSE(*place);
    return place;
  }
  Answer wait(const std::shared_ptr<std::optional<Answer>>& place) {
    if (!scheduler.run_until([&] { return place->has_value(); })) FAIL("no answer");
    return **place;
  }
  Status status(ClaimId id) { return wait(read(id)).view.claim.status; }

  /// Memory and rows tell the same.
  void compare() {
    std::optional<std::vector<View>> all;
    ListQuery query;
    query.limit = 1000000;
    store->list(query, [&](Told<std::vector<View>> told) { all = std::move(told.value).value(); });
    REQUIRE(scheduler.run_until([&] { return all.has_value(); }));
    const std::lock_guard lock(disk.mutex);
    REQUIRE(all->size() == disk.claims.size());
    for (const View& view : *all) {
      if (!same(view.claim, disk.claims.at(view.claim.id))) {
        REQUIRE(told(view.claim) == told(disk.claims.at(view.claim.id)));
      }
    }
    REQUIRE_FALSE(disk.was_misused);
  }
};

}  // namespace

TEST_CASE("what an answer refers to is let go by the thread that asked", "[server][store]") {
  // A connection, say, that the answer ends.
  const auto here = std::this_thread::get_id();
  std::atomic<int> elsewhere = 0;
  const auto belonging = [&] {
    return std::shared_ptr<int>(new int, [&](const int* place) {
      if (std::this_thread::get_id() != here) ++elsewhere;
      delete place;
    });
  };
  Scene scene;
  scene.scheduler.posts_take_long = true;
  bool is_told = false;
  scene.store->post(wish("r"), [&is_told, held = belonging()](const Answer&) { is_told = true; });
  REQUIRE(scene.scheduler.run_until([&] { return is_told; }));
  bool is_closed = false;
  scene.store->close([&is_closed, held = belonging()] { is_closed = true; });
  REQUIRE(scene.scheduler.run_until([&] { return is_closed; }));
  scene.store.reset();
  CHECK(elsewhere == 0);
}

TEST_CASE("the writer goes on with what came in, before anybody has heard what it did",
          "[server][store]") {
  Scene scene;
  scene.disk.hold(true);
  const auto first = scene.post(wish("r"));
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  const auto second = scene.post(wish("r"));
  const auto third = scene.patch(1, renewal(60s));
  scene.disk.hold(false);
  CHECK(eventually([&] { return scene.commits() == 2; }));  // nothing else runs
  CHECK_FALSE(*first);
  CHECK_FALSE(*second);
  CHECK(scene.wait(first).outcome == Outcome::active);
  CHECK(scene.wait(second).outcome == Outcome::waiting);
  CHECK(scene.wait(third).outcome == Outcome::active);
  CHECK(scene.commits() == 2);
  scene.compare();
}

TEST_CASE("who reads what was written last has been told of all that was before",
          "[server][store]") {
  Scene scene;
  scene.disk.hold(true);
  scene.post(wish("r"));
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  scene.patch(1, to(Status::released));
  scene.disk.hold(false);
  REQUIRE(eventually([&] { return scene.commits() == 2; }));  // and nobody has heard of either
  std::optional<Status> read;
  std::size_t heard_before = 0;
  scene.store->claim(1, [&](const Answer& answer) {
    read = answer.view.claim.status;
    heard_before = scene.heard.size();
  });
  REQUIRE(scene.scheduler.run_until([&] { return read.has_value(); }));
  CHECK(read == Status::released);
  CHECK(heard_before >= 1);
  REQUIRE(scene.scheduler.run_until([&] { return scene.heard.size() == 2; }));
  CHECK(scene.heard[0].first.claim.status == Status::active);
  CHECK(scene.heard[1].first.claim.status == Status::released);
}

TEST_CASE("a read that comes at the end of a commit is answered", "[server][store]") {
  Scene scene;
  for (int round = 0; round < 2000; ++round) {
    scene.disk.hold(true);
    const auto change = scene.post(wish("r"));
    REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
    const auto read = scene.read(1);
    scene.disk.hold(false);
    scene.wait(read);
    scene.wait(change);
  }
}

TEST_CASE("after a commit that failed the writer begins no other", "[server][store]") {
  Scene scene;
  scene.disk.hold(true);
  const auto first = scene.post(wish("r"));
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  const auto second = scene.post(wish("s"));  // would be taken
  std::atomic<int> tries = 0;
  {
    const std::lock_guard lock(scene.disk.mutex);
    scene.disk.fails = [&tries] { return ++tries == 1; };
  }
  scene.disk.hold(false);
  REQUIRE(eventually([&] { return tries == 1; }));
  CHECK_FALSE(eventually([&] { return tries == 2; }, 1s));
  CHECK(scene.wait(first).kind == Answer::Kind::unavailable);
  CHECK(scene.wait(second).kind == Answer::Kind::unavailable);
  CHECK(scene.commits() == 0);
  CHECK(scene.scheduler.run_until([&] { return !scene.store->trouble(); }));
  scene.compare();
  CHECK(scene.wait(scene.post(wish("s"))).outcome == Outcome::active);
}

TEST_CASE("nobody is answered before the commit, not even a reader", "[server][store]") {
  Scene scene;
  scene.disk.hold(true);
  const auto post = scene.post(wish("r"));
  const auto read = scene.read(1);
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  scene.scheduler.run();
  const auto late = scene.read(1);  // comes while the disk works
  scene.scheduler.run();
  CHECK_FALSE(*post);
  CHECK_FALSE(*read);
  CHECK_FALSE(*late);
  CHECK(scene.heard.empty());
  scene.disk.hold(false);
  CHECK(scene.wait(post).outcome == Outcome::active);
  CHECK(scene.wait(read).view.claim.id == 1);
  CHECK(scene.wait(late).view.claim.id == 1);
  scene.scheduler.run();
  REQUIRE(scene.heard.size() == 1);
  CHECK(scene.heard[0].second == 1);
  CHECK(scene.heard[0].first.claim.status == Status::active);
}

TEST_CASE("what comes together is one commit", "[server][store]") {
  Scene scene;
  std::vector<std::shared_ptr<std::optional<Answer>>> places;
  for (int i = 0; i < 50; ++i) places.push_back(scene.post(wish("r" + std::to_string(i % 7))));
  for (const auto& place : places) scene.wait(place);
  CHECK(scene.commits() == 1);
  scene.disk.hold(true);
  const auto first = scene.patch(1, to(Status::released));
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  places.clear();
  for (int i = 0; i < 50; ++i) places.push_back(scene.post(wish("s")));
  scene.scheduler.run();
  scene.disk.hold(false);
  for (const auto& place : places) scene.wait(place);
  CHECK(scene.commits() == 3);
  CHECK(*first);
  scene.compare();
}

TEST_CASE("reads and refusals alone cost no commit", "[server][store]") {
  Scene scene;
  CHECK(scene.wait(scene.read(1)).kind == Answer::Kind::not_found);
  CHECK(scene.wait(scene.patch(1, to(Status::released))).kind == Answer::Kind::not_found);
  CHECK(scene.commits() == 0);
}

TEST_CASE("a commit that fails answers unavailable to all that hung on it", "[server][store]") {
  Scene scene;
  scene.wait(scene.post(wish("r")));
  scene.scheduler.run();
  scene.heard.clear();
  scene.disk.hold(true);
  scene.set_failing(true);
  const auto post = scene.post(wish("r"));
  const auto read = scene.read(2);
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  const auto late = scene.patch(1, to(Status::released));  // decided upon what is lost
  const auto late_read = scene.read(2);
  scene.disk.hold(false);
  CHECK(scene.wait(post).kind == Answer::Kind::unavailable);
  CHECK(scene.wait(post).reason == "disk full");
  CHECK(scene.wait(read).kind == Answer::Kind::unavailable);
  CHECK(scene.wait(late).kind == Answer::Kind::unavailable);
  CHECK(scene.wait(late_read).kind == Answer::Kind::unavailable);
  CHECK(scene.store->trouble());
  CHECK(scene.heard.empty());

  // Reads are served from what is stored, changes are refused.
  REQUIRE(scene.scheduler.run_until([&] { return scene.scheduler.next_timer().has_value(); }));
  CHECK(scene.wait(scene.read(1)).view.claim.status == Status::active);
  CHECK(scene.wait(scene.read(2)).kind == Answer::Kind::not_found);
  CHECK(scene.wait(scene.post(wish("s"))).kind == Answer::Kind::unavailable);
  CHECK(scene.wait(scene.patch(1, to(Status::released))).kind == Answer::Kind::unavailable);
  std::optional<Told<std::vector<ClaimId>>> revoked;
  scene.store->revoke({}, "x", [&](Told<std::vector<ClaimId>> told) { revoked = told; });
  REQUIRE(scene.scheduler.run_until([&] { return revoked.has_value(); }));
  CHECK_FALSE(revoked->value);
  scene.compare();

  // It tries again and again, and goes on where the rows are.
  for (int i = 0; i < 5; ++i) {
    scene.scheduler.pass(500ms);
    REQUIRE(scene.scheduler.run_until([&] { return scene.scheduler.next_timer().has_value(); }));
    CHECK(scene.store->trouble());
  }
  scene.set_failing(false);
  scene.scheduler.pass(500ms);
  REQUIRE(scene.scheduler.run_until([&] { return !scene.store->trouble(); }));
  const Answer again = scene.wait(scene.post(wish("r")));
  CHECK(again.outcome == Outcome::waiting);
  CHECK(again.view.claim.id == 2);  // nobody has heard of the other one
  scene.compare();
  CHECK(scene.asked == scene.answered);
}

TEST_CASE("rows that cannot be read make even reads unavailable until they can",
          "[server][store]") {
  Scene scene;
  scene.wait(scene.post(wish("r")));
  scene.set_failing(true);
  {
    const std::lock_guard lock(scene.disk.mutex);
    scene.disk.does_load = false;
  }
  CHECK(scene.wait(scene.post(wish("s"))).kind == Answer::Kind::unavailable);
  REQUIRE(scene.scheduler.run_until([&] { return scene.scheduler.next_timer().has_value(); }));
  CHECK(scene.wait(scene.read(1)).kind == Answer::Kind::unavailable);
  scene.set_failing(false);
  {
    const std::lock_guard lock(scene.disk.mutex);
    scene.disk.does_load = true;
  }
  scene.scheduler.pass(500ms);
  REQUIRE(scene.scheduler.run_until([&] { return !scene.store->trouble(); }));
  CHECK(scene.status(1) == Status::active);
}

TEST_CASE("a lease ends when it is over, without anybody asking", "[server][store]") {
  Scene scene;
  scene.wait(scene.post(wish("r", 10s)));
  scene.wait(scene.post(wish("r", 10s)));
  scene.scheduler.run();
  scene.heard.clear();
  scene.scheduler.pass(9999ms);
  scene.scheduler.run();
  CHECK(scene.heard.empty());
  scene.scheduler.pass(1ms);
  REQUIRE(scene.scheduler.run_until([&] { return scene.heard.size() == 2; }));
  CHECK(scene.heard[0].first.claim.status == Status::expired);
  CHECK(scene.heard[1].first.claim.status == Status::active);
  scene.compare();
}

TEST_CASE("close lets everything be written and answered first", "[server][store]") {
  Scene scene;
  scene.disk.hold(true);
  const auto first = scene.post(wish("r"));
  REQUIRE(scene.scheduler.run_until([&] { return scene.is_committing(); }));
  const auto second = scene.post(wish("r"));
  bool is_closed = false;
  scene.store->close([&] { is_closed = true; });
  scene.scheduler.run();
  CHECK_FALSE(is_closed);
  scene.disk.hold(false);
  REQUIRE(scene.scheduler.run_until([&] { return is_closed; }));
  CHECK(*first);
  CHECK(*second);
  CHECK(scene.disk.claims.size() == 2);
  scene.store.reset();
}

TEST_CASE("close in trouble answers everybody", "[server][store]") {
  Scene scene;
  scene.set_failing(true);
  const auto post = scene.post(wish("r"));
  bool is_closed = false;
  scene.store->close([&] { is_closed = true; });
  REQUIRE(scene.scheduler.run_until([&] { return is_closed; }));
  CHECK((*post)->kind == Answer::Kind::unavailable);
  scene.store.reset();
  CHECK(scene.disk.claims.empty());
}

TEST_CASE("a restart keeps what a lease had left", "[server][store]") {
  Scene scene;
  scene.wait(scene.post(wish("r", 10s)));
  scene.wait(scene.post(wish("r", 10s)));
  scene.scheduler.pass(4s);
  scene.close();
  scene.clocks.pass(1h);
  scene.open();
  CHECK(scene.wait(scene.read(1)).view.claim.deadline - scene.wait(scene.read(1)).now.time == 6s);
  scene.scheduler.pass(5999ms);
  CHECK(scene.status(1) == Status::active);
  scene.scheduler.pass(1ms);
  CHECK(scene.status(1) == Status::expired);
  CHECK(scene.status(2) == Status::active);
}

TEST_CASE("a renewal that waits in the socket of a stopped server wins", "[server][store]") {
  Scene scene;
  scene.wait(scene.post(wish("r", 10s)));
  scene.wait(scene.post(wish("r", 10s)));
  scene.scheduler.run();
  scene.scheduler.pass(4s);
  // Stopped in the midst of the lease, and continued before, just after or long after its end. The
  // timer fires first, as it may.
  const auto stop = GENERATE(as<Micros>(), 5s, 5900ms, 6s, 6100ms, 6900ms, 8s, 60s, 24h);
  INFO(stop.count());
  scene.clocks.pass(stop);
  scene.scheduler.fire();
  scene.scheduler.run();
  const Answer renewed = scene.wait(scene.patch(1, renewal(10s)));
  CHECK(renewed.kind == Answer::Kind::done);
  CHECK(renewed.outcome == Outcome::active);
  CHECK(renewed.view.claim.status == Status::active);
  scene.scheduler.pass(9s);
  CHECK(scene.status(1) == Status::active);
  scene.scheduler.pass(3s);
  CHECK(scene.status(1) == Status::expired);
}

TEST_CASE("a holder that does not renew after the stop loses its lease all the same",
          "[server][store]") {
  Scene scene;
  scene.wait(scene.post(wish("r", 10s)));
  scene.wait(scene.post(wish("r", 10s)));
  scene.scheduler.run();
  scene.clocks.pass(1h);
  scene.scheduler.fire();
  scene.scheduler.run();
  CHECK(scene.status(1) == Status::active);
  scene.scheduler.pass(13s);
  CHECK(scene.status(1) == Status::expired);
  CHECK(scene.status(2) == Status::active);
}

TEST_CASE("listeners hear of an end though the claim is dropped at once", "[server][store]") {
  Rules rules;
  rules.retain = 0us;
  Scene scene(rules);
  NewClaim claim = wish("r", 10s);
  scene.wait(scene.post(claim));
  claim.waiting_ttl = 2s;
  scene.wait(scene.post(claim));
  scene.scheduler.run();
  scene.heard.clear();
  scene.scheduler.pass(5s);
  REQUIRE(scene.scheduler.run_until([&] { return !scene.heard.empty(); }));
  CHECK(scene.heard[0].first.claim.id == 2);
  CHECK(scene.heard[0].first.claim.status == Status::withdrawn);
  CHECK(scene.wait(scene.read(2)).kind == Answer::Kind::not_found);
  scene.compare();
}

TEST_CASE("dropped claims are archived, and kept while they cannot be", "[server][store]") {
  const testing::TempDir dir;
  Rules rules;
  rules.retain = 1s;
  rules.archive = dir / "missing/archive";
  Scene scene(rules);
  scene.wait(scene.post(wish("r")));
  scene.wait(scene.patch(1, to(Status::released)));
  scene.scheduler.pass(2s);
  // The archive is away: claims are served as ever.
  CHECK(scene.wait(scene.post(wish("r"))).outcome == Outcome::active);
  CHECK_FALSE(scene.store->trouble());
  const auto rows = [&] {
    return scene.disk.look<std::size_t>([](const Disk& d) { return d.claims.count(1); });
  };
  CHECK(rows() == 1);
  rules.archive = dir / "archive";
  scene.store->set_rules(rules);
  CHECK(scene.wait(scene.post(wish("r"))).outcome == Outcome::waiting);
  CHECK(rows() == 0);
  const std::string lines = testing::read_file(dir / "archive");
  CHECK(lines.find("\"id\": 1,") != std::string::npos);
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 1);
  scene.compare();
}

TEST_CASE("a store without rows answers at once and forgets", "[server][store]") {
  FakeClocks clocks;
  ManualScheduler scheduler(clocks);
  LocalStore store(nullptr, {}, {}, scheduler, clocks.sources(), Log(Log::Level::silent));
  std::optional<Answer> answer;
  store.post(wish("r"), [&](Answer told) { answer = std::move(told); });
  CHECK_FALSE(answer);
  scheduler.run();
  REQUIRE(answer);
  CHECK(answer->outcome == Outcome::active);
  CHECK(store.kind() == "memory");
  bool is_closed = false;
  store.close([&] { is_closed = true; });
  scheduler.run();
  CHECK(is_closed);
}

TEST_CASE("whenever commits fail, what was acknowledged is stored and memory says the same",
          "[server][store]") {
  for (unsigned seed = 1; seed <= 25; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(seed);
    const auto dice = [&random](int below) {
      return std::uniform_int_distribution<int>(0, below - 1)(random);
    };
    Rules rules;
    rules.retain = Micros(2s);
    Scene scene(rules);
    std::mt19937 faults(seed);  // of the writer's thread
    {
      const std::lock_guard lock(scene.disk.mutex);
      scene.disk.fails = [&faults] { return faults() % 4 == 0; };
    }
    std::vector<std::shared_ptr<std::optional<Answer>>> places;
    std::map<ClaimId, Status> finals;  // that were acknowledged
    std::map<std::string, std::uint64_t> fences;
    for (int step = 0; step < 120; ++step) {
      for (int i = dice(4); i >= 0; --i) {
        const int what = dice(5);
        const auto id = static_cast<ClaimId>(1 + dice(step + 2));
        if (what < 2) {
          places.push_back(scene.post(wish("r" + std::to_string(dice(4)), Micros(dice(3) * 1s))));
        } else if (what == 2) {
          places.push_back(scene.patch(id, to(Status::released)));
        } else if (what == 3) {
          places.push_back(scene.patch(id, to(Status::active)));
        } else {
          places.push_back(scene.read(id));
        }
      }
      scene.scheduler.pass(std::chrono::milliseconds(dice(700)));
      if (dice(3) != 0) continue;
      REQUIRE(scene.scheduler.run_until([&] { return scene.asked == scene.answered; }));
      const std::lock_guard lock(scene.disk.mutex);
      for (const auto& place : places) {
        const Answer& answer = **place;
        const Claim& claim = answer.view.claim;
        if (answer.kind != Answer::Kind::done) continue;
        const auto stored = scene.disk.claims.find(claim.id);
        if (stored == scene.disk.claims.end()) {
          REQUIRE(scene.disk.contents.last_id >= claim.id);  // it was dropped since
          REQUIRE(scene.disk.contents.fence_floor >= claim.fence);
          continue;
        }
        if (claim.is_final()) REQUIRE(stored->second.status == claim.status);
        if (claim.fence != 0) REQUIRE(stored->second.fence == claim.fence);
        REQUIRE(stored->second.resource == claim.resource);
      }
      places.clear();
    }
    scene.set_failing(false);
    // Of a commit that has failed before that nobody need have heard yet; once a change is taken,
    // all have.
    std::shared_ptr<std::optional<Answer>> last;
    REQUIRE(scene.scheduler.run_until([&] {
      if (last && *last && (*last)->kind == Answer::Kind::done) return true;
      if (!last || *last) {
        scene.scheduler.pass(500ms);
        last = scene.post(wish("last"));
      }
      return false;
    }));
    REQUIRE(scene.scheduler.run_until([&] { return scene.asked == scene.answered; }));
    scene.compare();
    CHECK(scene.store->counters().commit_failures > 0);
  }
}
