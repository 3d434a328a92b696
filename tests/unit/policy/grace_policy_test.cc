#include "policy/grace_policy.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "identity/command_id.h"
#include "oracle.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::lock;
using namespace holdfast::policy;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using identity::Life;
namespace bfs = boost::filesystem;

namespace {

using Names = std::vector<std::string>;
using Grace = GracePolicy::Grace;

/// Of a host whose clock is off by decades: no grace may hang on it.
class WrongClock final : public Clock {
 public:
  std::chrono::system_clock::time_point wall() const override { return {}; }
  std::chrono::nanoseconds boot() const override { return {}; }
};

const WrongClock kWrongClock;

/// Dates a mark `age` ago.
void set_age(const std::string& lock, const std::string& id, std::chrono::seconds age) {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  now.tv_sec -= age.count();
  const timespec times[] = {now, now};
  REQUIRE(utimensat(AT_FDCWD, (lock + "/in_use/" + id).c_str(), times, 0) == 0);
}

/// Now, give or take what a busy machine needs.
bool is_fresh(const std::string& lock, const std::string& id) {
  struct stat mark {};
  REQUIRE(stat((lock + "/in_use/" + id).c_str(), &mark) == 0);
  return std::abs(mark.st_mtim.tv_sec - time(nullptr)) < 300;
}

bool is_marked(const std::string& lock, const std::string& id) {
  return bfs::exists(lock + "/in_use/" + id);
}

void leave_proposal(const std::string& lock, const std::string& id) {
  bfs::create_directories(lock + "/build/" + id + "/owner");
  write_file(lock + "/build/" + id + "/owner/" + id, "");
}

/// A lock, and one contender for it whose pauses take no time and whose children are no processes.
struct Contender {
  explicit Contender(std::string lock_path, Grace grace = 1000s, disk::Disk& disk = disk::posix())
      : path(std::move(lock_path)),
        lock(disk, path),
        policy(lock, oracle, grace, silent_log(),
               {kWrongClock,
                [this](std::chrono::seconds length) {
                  pauses.push_back(length);
                  if (during_pause) during_pause();
                },
                [this](const std::function<void()>& work) {
                  ++children;
                  if (before_work) before_work();
                  work();
                }}) {}

  std::string path;
  FastLock lock;
  Oracle oracle;
  std::vector<std::chrono::seconds> pauses;
  int children = 0;
  std::function<void()> during_pause;
  std::function<void()> before_work;
  GracePolicy policy;

  Outcome take(const std::string& id) { return policy.lock(uid(id), some_record()).outcome; }
  Outcome check(const std::string& id) {
    return policy.lock_check(uid(id), some_record(), oracle).outcome;
  }
  Outcome give(const std::string& id) { return policy.unlock(uid(id)).outcome; }
};

/// The grace of 1000 s is over for whom a test says so, and for nobody else.
struct Fixture {
  TempDir dir;
  std::string path = dir / "lock";
  Contender first{path};

  void make_due(const std::string& id) const { set_age(path, id, 2000s); }
  Names files() const { return tree(path); }
};

const Names kHeldByA = {"in_use/", "in_use/a/", "owner/", "owner/a"};

}  // namespace

TEST_CASE_METHOD(Fixture, "a new holder is marked with the time of its lock", "[policy][grace]") {
  CHECK(first.take("a") == Outcome::held);
  CHECK(files() == kHeldByA);
  CHECK(is_fresh(path, "a"));
}

TEST_CASE_METHOD(Fixture, "an old mark of the new holder is dated anew", "[policy][grace]") {
  bfs::create_directories(path + "/in_use/a");
  make_due("a");
  CHECK(first.take("a") == Outcome::held);
  CHECK(is_fresh(path, "a"));
}

TEST_CASE_METHOD(Fixture, "who is alone asks nobody and starts nothing and leaves nothing",
                 "[policy][grace]") {
  CHECK(first.take("a") == Outcome::held);
  CHECK(first.give("a") == Outcome::released);
  CHECK(first.oracle.asked == 0);
  CHECK(first.pauses.empty());
  CHECK(first.children == 0);
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE("who is alone pays for two folders and no more", "[policy][grace]") {
  const TempDir dir;
  FaultDisk plain;
  FastLock lock(plain, dir / "plain");
  REQUIRE(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
  REQUIRE(lock.unlock(uid("a")).outcome == Outcome::released);
  FaultDisk graced;
  Contender alone(dir / "graced", 10s, graced);
  REQUIRE(alone.take("a") == Outcome::held);
  REQUIRE(alone.give("a") == Outcome::released);
  CHECK(graced.changes() == plain.changes() + 4);
  CHECK(graced.calls() == plain.calls() + 6);  // in_use/ is opened to be sure of it
}

TEST_CASE_METHOD(Fixture, "a refusal within the grace asks nobody and takes no time",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  Contender rival(path);
  rival.oracle.dead = {"a"};
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 0);
  CHECK(rival.pauses.empty());
  CHECK(files() == kHeldByA);
}

TEST_CASE_METHOD(Fixture,
                 "after the grace a refused lock cleans a dead holder and the next one wins",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  make_due("a");
  Contender rival(path);
  rival.oracle.dead = {"a"};
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.pauses == std::vector{1000s});
  CHECK(rival.oracle.asked == 1);
  CHECK_FALSE(bfs::exists(path));
  CHECK(rival.take("b") == Outcome::held);
}

TEST_CASE_METHOD(Fixture, "a check gives a living holder a new grace for everybody",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  make_due("a");
  Contender rival(path);
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 1);
  CHECK(is_fresh(path, "a"));
  Contender another(path);
  CHECK(another.take("c") == Outcome::contended);
  CHECK(another.oracle.asked == 0);
  CHECK(files() == kHeldByA);
}

TEST_CASE_METHOD(Fixture, "of two who ponder only the quicker one asks", "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  make_due("a");
  Contender quick(path);
  Contender slow(path);
  slow.during_pause = [&] { CHECK(quick.take("b") == Outcome::contended); };
  CHECK(slow.take("c") == Outcome::contended);
  CHECK(quick.oracle.asked == 1);
  CHECK(slow.pauses.size() == 1);
  CHECK(slow.oracle.asked == 0);
}

TEST_CASE_METHOD(Fixture, "a mark that a shell peer renews or removes in the pause stops the check",
                 "[policy][grace]") {
  const auto peer = GENERATE(as<std::string>(), "touch -c in_use/a", "rmdir in_use/a in_use");
  REQUIRE(first.take("a") == Outcome::held);
  make_due("a");
  Contender rival(path);
  rival.oracle.dead = {"a"};
  rival.during_pause = [&] {
    RunOptions there;
    there.cwd = path;
    REQUIRE(shell(peer, there).code == 0);
  };
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 0);
  CHECK(first.lock.is_mine(uid("a")));
}

TEST_CASE_METHOD(Fixture, "who is spared does not spare the others", "[policy][grace][Q9]") {
  REQUIRE(first.take("a") == Outcome::held);
  leave_proposal(path, "p");
  bfs::create_directories(path + "/in_use/p");
  make_due("p");
  set_age(path, "a", 3000s);  // the first one that is due
  first.oracle.dead = {"a", "p"};
  CHECK(first.take("a") == Outcome::already_mine);
  CHECK(first.oracle.together == std::vector<Names>{{"p"}});
  CHECK(files() == kHeldByA);
}

TEST_CASE_METHOD(Fixture, "a dead holder and a dead proposer are asked about together and cleaned",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  leave_proposal(path, "p");
  bfs::create_directories(path + "/in_use/p");
  make_due("a");
  make_due("p");
  Contender rival(path);
  rival.oracle.dead = {"a", "p"};
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.together == std::vector<Names>{{"a", "p"}});
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE_METHOD(Fixture, "an id that was judged as a proposer and holds by now keeps the lock",
                 "[policy][grace]") {
  leave_proposal(path, "p");
  bfs::create_directories(path + "/in_use/p");
  make_due("p");
  REQUIRE(first.take("a") == Outcome::held);
  REQUIRE(first.lock.unlock(uid("a")).outcome == Outcome::released);

  // the checker says "dead" of a proposer, and in that moment it gets the lock
  class Late final : public identity::Checker {
   public:
    explicit Late(std::string lock) : lock_(std::move(lock)) {}
    identity::Verdict check(const Uid& id, const std::optional<Record>&) const override {
      bfs::rename(lock_ + "/build/" + id.str() + "/owner", lock_ + "/owner");
      return {Life::dead, "wrong"};
    }
    bool reads_records() const override { return false; }
    bool is_cheap() const override { return false; }

   private:
    std::string lock_;
  };
  const Late late(path);
  FastLock lock(disk::posix(), path);
  GracePolicy policy(lock, late, std::nullopt, silent_log(),
                     {kWrongClock, {}, [](const std::function<void()>& work) { work(); }});
  policy.unlock(uid("nobody"));
  CHECK(lock.is_mine(uid("p")));
}

TEST_CASE_METHOD(Fixture, "one call asks about two at most and those that wait longest come first",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  for (const char* id : {"p", "q", "r", "s"}) {
    leave_proposal(path, id);
    bfs::create_directories(path + "/in_use/" + id);
  }
  set_age(path, "r", 5000s);
  set_age(path, "p", 4000s);
  set_age(path, "s", 3000s);
  Contender rival(path);
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.take("b") == Outcome::contended);
  std::sort(rival.oracle.together.at(0).begin(), rival.oracle.together.at(0).end());
  CHECK(rival.oracle.together == std::vector<Names>{{"p", "r"}, {"s"}});
}

TEST_CASE_METHOD(Fixture, "without a grace everybody is due and nobody waits",
                 "[policy][grace][Q8]") {
  const Grace grace = GENERATE(values<Grace>({std::nullopt, 0s}));
  REQUIRE(first.take("a") == Outcome::held);
  Contender rival(path, grace);
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 1);
  rival.oracle.dead = {"a"};
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 2);
  CHECK(rival.pauses.empty());
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE_METHOD(Fixture, "lock_check asks whatever the grace and takes the lock of the dead",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  Contender rival(path);
  CHECK(rival.check("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 1);
  CHECK(is_fresh(path, "a"));
  rival.oracle.dead = {"a"};
  CHECK(rival.check("b") == Outcome::held);
  CHECK(rival.oracle.asked == 2);
  CHECK(files() == Names{"in_use/", "in_use/b/", "owner/", "owner/b"});
}

TEST_CASE_METHOD(Fixture, "lock_check of a free lock or an own one asks nobody",
                 "[policy][grace]") {
  CHECK(first.check("a") == Outcome::held);
  CHECK(first.check("a") == Outcome::already_mine);
  CHECK(first.oracle.asked == 0);
}

TEST_CASE_METHOD(Fixture, "an unknown holder keeps its lock whoever asks and how",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  make_due("a");
  Contender rival(path, GENERATE(values<Grace>({1000s, std::nullopt})));
  rival.oracle.unknown = {"a"};
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 1);
  CHECK(rival.check("b") == Outcome::contended);
  CHECK_FALSE(rival.policy.clean(0s));
  CHECK(rival.give("b") == Outcome::not_mine);
  CHECK(rival.policy.staleness()->life == Life::unknown);
  CHECK(files() == kHeldByA);
}

TEST_CASE_METHOD(Fixture, "a holder without a mark gets one from who is refused",
                 "[policy][grace]") {
  REQUIRE(first.lock.lock(uid("a"), some_record()).outcome == Outcome::held);
  Contender rival(path);
  rival.oracle.dead = {"a"};
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(files() == kHeldByA);
  CHECK(rival.oracle.asked == 0);
}

TEST_CASE_METHOD(Fixture, "the mark of an id that is gone is removed and asks for no check",
                 "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  bfs::create_directories(path + "/in_use/gone");
  make_due("gone");
  Contender rival(path);
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 0);
  CHECK(files() == kHeldByA);
}

TEST_CASE_METHOD(Fixture, "a mark from the future counts from now on", "[policy][grace]") {
  REQUIRE(first.take("a") == Outcome::held);
  set_age(path, "a", -4000s);
  Contender rival(path);
  CHECK(rival.take("b") == Outcome::contended);
  CHECK(rival.oracle.asked == 0);
  CHECK(is_fresh(path, "a"));
}

TEST_CASE_METHOD(Fixture,
                 "what is due at an unlock is cleaned in one child with its mark dated before",
                 "[policy][grace][H21]") {
  REQUIRE(first.take("a") == Outcome::held);
  leave_proposal(path, "p");
  bfs::create_directories(path + "/in_use/p");
  make_due("p");
  first.oracle.dead = {"p"};
  first.before_work = [&] {
    CHECK(is_fresh(path, "p"));
    CHECK(first.lock.owner().empty());  // the unlock itself is done
    CHECK(first.oracle.asked == 0);
  };
  CHECK(first.give("a") == Outcome::released);
  CHECK(first.children == 1);
  CHECK(first.pauses.empty());
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE_METHOD(Fixture, "a lock that was got cleans in a child too and spares itself",
                 "[policy][grace]") {
  leave_proposal(path, "p");
  bfs::create_directories(path + "/in_use/p");
  make_due("p");
  first.oracle.dead = {"a", "p"};
  CHECK(first.take("a") == Outcome::held);
  CHECK(first.children == 1);
  CHECK(first.oracle.together == std::vector<Names>{{"p"}});
  CHECK(files() == kHeldByA);
}

TEST_CASE_METHOD(Fixture, "no child is started in the grace of those who are there",
                 "[policy][grace]") {
  leave_proposal(path, "p");
  first.oracle.dead = {"p"};
  CHECK(first.take("a") == Outcome::held);
  CHECK(is_marked(path, "p"));
  CHECK(first.give("a") == Outcome::released);
  CHECK(first.children == 0);
  CHECK(first.oracle.asked == 0);
}

TEST_CASE_METHOD(Fixture, "clean asks about all whatever their grace", "[policy][grace]") {
  CHECK(first.policy.clean(0s));
  REQUIRE(first.take("a") == Outcome::held);
  leave_proposal(path, "p");
  first.oracle.dead = {"p"};
  CHECK_FALSE(first.policy.clean(1000s));
  CHECK(files() == kHeldByA);
  first.oracle.dead = {"a"};
  CHECK(first.policy.clean(1000s));
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE_METHOD(Fixture, "staleness is told by the grace policy and nothing is changed",
                 "[policy][grace]") {
  CHECK_FALSE(first.policy.staleness());
  REQUIRE(first.take("a") == Outcome::held);
  CHECK(first.policy.staleness()->life == Life::alive);
  first.oracle.dead = {"a"};
  CHECK(first.policy.staleness()->life == Life::dead);
  CHECK(files() == kHeldByA);
}

TEST_CASE("an unlock at any moment of a refused lock leaves no mark behind",
          "[policy][grace][H20]") {
  for (int at = 0;; ++at) {
    const TempDir dir;
    const std::string path = dir / "lock";
    Contender holder(path);
    REQUIRE(holder.lock.lock(uid("a"), some_record()).outcome == Outcome::held);
    FaultDisk slow;
    Contender rival(path, 1000s, slow);  // will want to mark the holder
    slow.before(at, [&] { holder.give("a"); });
    const Outcome outcome = rival.take("b");
    INFO("before call " << at << ": " << slow.last_hit());
    if (slow.was_hit()) CHECK_FALSE(is_marked(path, "a"));
    if (outcome == Outcome::held) CHECK(rival.give("b") == Outcome::released);
    if (slow.was_hit()) CHECK_FALSE(bfs::exists(path));
    if (!slow.was_hit()) break;
    REQUIRE(at < 300);
  }
}

TEST_CASE("a holder that comes at any moment of a recovery is not touched by it",
          "[policy][grace]") {
  for (int at = 0;; ++at) {
    const TempDir dir;
    const std::string path = dir / "lock";
    Contender first(path);
    REQUIRE(first.take("dead") == Outcome::held);
    set_age(path, "dead", 2000s);
    FaultDisk slow;
    Contender cleaner(path, 1000s, slow);
    cleaner.oracle.dead = {"dead"};
    Contender heir(path);
    heir.oracle.dead = {"dead"};
    bool heir_holds = false;
    slow.before(at, [&] { heir_holds = heir.check("heir") == Outcome::held; });
    const bool cleaner_holds = cleaner.take("cleaner") == Outcome::held;
    INFO("before call " << at << ": " << slow.last_hit());
    CHECK(heir_holds + cleaner_holds == (slow.was_hit() ? 1 : 0));
    CHECK(FastLock(disk::posix(), path).is_mine(uid("heir")) == heir_holds);
    check_invariants(path);
    if (!slow.was_hit()) break;
    REQUIRE(at < 400);
  }
}

namespace {

/// The world before, and what is done in it with the disk that fails.
struct Scene {
  const char* name;
  std::function<void(Contender&)> before;
  std::function<void(Contender&)> act;
  int least_stops;
};

void leave_due_dead(Contender& c) {
  REQUIRE(c.take("dead") == Outcome::held);
  leave_proposal(c.path, "dead too");
  bfs::create_directories(c.path + "/in_use/dead too");
  for (const char* id : {"dead", "dead too"}) set_age(c.path, id, 2000s);
}

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all = {
      {"lock", [](Contender&) {}, [](Contender& c) { c.take("self"); }, 10},
      {"lock beside a dead proposal",
       [](Contender& c) {
         leave_due_dead(c);
         REQUIRE(c.lock.unlock(uid("dead")).outcome == Outcome::released);
       },
       [](Contender& c) { c.take("self"); }, 20},
      {"unlock", [](Contender& c) { c.take("self"); }, [](Contender& c) { c.give("self"); }, 5},
      {"unlock beside a dead proposal",
       [](Contender& c) {
         REQUIRE(c.take("self") == Outcome::held);
         leave_proposal(c.path, "dead too");
         bfs::create_directories(c.path + "/in_use/dead too");
         set_age(c.path, "dead too", 2000s);
       },
       [](Contender& c) { c.give("self"); }, 15},
      {"ponder", leave_due_dead, [](Contender& c) { c.take("self"); }, 25},
      {"lock_check", leave_due_dead, [](Contender& c) { c.check("self"); }, 25},
      {"clean", leave_due_dead, [](Contender& c) { c.policy.clean(0s); }, 10},
  };
  return all;
}

const std::set<std::string> kDead = {"dead", "dead too", "self"};

}  // namespace

TEST_CASE("stopped after any write the next one gets in and nothing stays",
          "[policy][grace][crash]") {
  for (const Scene& scene : scenes()) {
    int stops = 0;
    for (bool finished = false; !finished; ++stops) {
      const TempDir dir;
      const std::string path = dir / "lock";
      Contender before(path);
      scene.before(before);
      FaultDisk disk;
      Contender stopped(path, 1000s, disk);
      stopped.oracle.dead = {"dead", "dead too"};
      disk.stop_after(stops);
      try {
        scene.act(stopped);
        finished = true;
      } catch (const Crash&) {
      }
      INFO(scene.name << " stopped before: " << disk.last_hit());
      check_invariants(path);
      Contender next(path, std::nullopt);
      next.oracle.dead = kDead;
      // the first attempt may have had to clean
      const bool is_in = next.take("next") == Outcome::held || next.take("next") == Outcome::held;
      CHECK(is_in);
      CHECK(next.give("next") == Outcome::released);
      CHECK(next.policy.clean(0s));
      CHECK_FALSE(bfs::exists(path));
    }
    INFO(scene.name);
    CHECK(stops >= scene.least_stops);
  }
}

TEST_CASE("whatever one call answers a graced holder that lives keeps its lock",
          "[policy][grace][lost][fail]") {
  const bool is_done = GENERATE(true, false);
  for (const int error : {ENOENT, EIO}) {
    for (int at = 0;; ++at) {
      const TempDir dir;
      const std::string path = dir / "lock";
      Contender holder(path);
      REQUIRE(holder.take("a") == Outcome::held);
      leave_proposal(path, "p");
      bfs::create_directories(path + "/in_use/p");
      for (const char* id : {"a", "p"}) set_age(path, id, 2000s);
      FaultDisk disk;
      Contender rival(path, 1000s, disk);
      rival.oracle.dead = {"p"};
      if (is_done) {
        disk.lose_reply(at, error);
      } else {
        disk.fail(at, error);
      }
      try {
        CHECK(rival.take("b") != Outcome::held);
        CHECK(rival.check("b") != Outcome::held);
        rival.give("b");
        rival.policy.clean(0s);
      } catch (const std::system_error&) {
        // told why
      }
      INFO(std::generic_category().message(error) << " at call " << at << ": " << disk.last_hit());
      CHECK(holder.lock.is_mine(uid("a")));
      if (!disk.was_hit()) break;
      REQUIRE(at < 800);
    }
  }
}

TEST_CASE("a graced stale owner is recovered and held by one at most of many",
          "[policy][grace][race]") {
  for (int round = 0; round < 20; ++round) {
    const TempDir dir;
    const std::string path = dir / "lock";
    Contender first(path);
    REQUIRE(first.take("dead") == Outcome::held);
    set_age(path, "dead", 2000s);
    std::atomic<int> winners{0};
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          Contender rival(path);
          rival.oracle.dead = {"dead"};
          for (int tries = 0; tries < 3; ++tries) {
            const bool is_in = rival.take("t" + std::to_string(t)) == Outcome::held;
            winners += is_in;
            if (is_in) break;
          }
        });
      }
    }
    CHECK(winners <= 1);
    CHECK(FastLock(disk::posix(), path).owner().size() == static_cast<std::size_t>(winners));
  }
}

TEST_CASE("a grace of a second or two makes no pause", "[policy][grace]") {
  const std::chrono::seconds grace = GENERATE(1s, 2s);
  const auto start = std::chrono::steady_clock::now();
  for (int tries = 0; tries < 100; ++tries) pause_at_random(grace);
  CHECK(std::chrono::steady_clock::now() - start < 20s);  // one pause of a second each: 100 s
}

TEST_CASE("an unlock with a dear checker does not keep the caller", "[policy][grace][H21]") {
  const TempDir dir;
  const std::string path = dir / "lock";
  const std::string go = dir / "go";
  REQUIRE(mkfifo(go.c_str(), 0600) == 0);
  FastLock lock(disk::posix(), path);
  // the checker waits until it is let go, and says "dead" then
  const identity::CommandId checker({"/bin/sh", "-c", "read x < " + go});
  leave_proposal(path, "dead");
  REQUIRE(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
  CHECK(GracePolicy(lock, checker, std::nullopt).unlock(uid("a")).outcome == Outcome::released);
  CHECK(bfs::exists(path + "/build/dead"));
  write_file(go, "go\n");
  CHECK(eventually([&] { return !bfs::exists(path); }));
}

TEST_CASE("who may not date a mark recovers nevertheless", "[policy][grace]") {
  int touches = 0;
  for (int at = 0;; ++at) {
    const TempDir dir;
    const std::string path = dir / "lock";
    Contender first(path);
    REQUIRE(first.take("dead") == Outcome::held);
    set_age(path, "dead", 2000s);
    FaultDisk disk;
    disk.fail(at, EACCES);
    FastLock lock(disk, path);
    Oracle oracle;
    oracle.dead = {"dead"};
    GracePolicy policy(lock, oracle, 1000s, silent_log(),
                       {real_clock(), [](std::chrono::seconds) {}, {}});
    CHECK(policy.lock(uid("b"), some_record()).outcome != Outcome::held);
    INFO("call " << at << ": " << disk.last_hit());
    if (disk.last_hit().starts_with("touch")) {
      ++touches;
      CHECK(FastLock(disk::posix(), path).owner().empty());
    }
    if (!disk.was_hit()) break;
    REQUIRE(at < 300);
  }
  CHECK(touches == 3);  // the clock, the clock again, the mark
}
