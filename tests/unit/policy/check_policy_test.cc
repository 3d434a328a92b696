#include "policy/check_policy.h"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <thread>

#include "identity/command_id.h"
#include "identity/local_id.h"
#include "oracle.h"
#include "policy/detach.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::lock;
using namespace holdfast::policy;
using namespace holdfast::testing;
using identity::Life;
namespace bfs = boost::filesystem;

namespace {

struct Fixture {
  TempDir dir;
  std::string path = dir / "lock";
  FaultDisk disk;
  FastLock lock{disk, path};
  Oracle oracle;
  CheckPolicy policy{lock, oracle};

  Outcome take(const std::string& id) { return policy.lock(uid(id), some_record()).outcome; }
};

}  // namespace

TEST_CASE_METHOD(Fixture, "a free lock is taken without asking anybody", "[policy]") {
  CHECK(take("a") == Outcome::held);
  CHECK(oracle.asked == 0);
}

TEST_CASE_METHOD(Fixture, "a dead holder is recovered by who comes next", "[policy]") {
  REQUIRE(take("a") == Outcome::held);
  CHECK(take("b") == Outcome::contended);
  oracle.dead = {"a"};
  CHECK(take("b") == Outcome::held);
  CHECK(lock.is_mine(uid("b")));
}

TEST_CASE_METHOD(Fixture, "who came under the id of a dead holder while it was judged stays",
                 "[policy]") {
  // a process with blanks in its name may get the id of one that died
  struct Slow : identity::Checker {
    explicit Slow(FastLock& contested) : contested(contested) {}
    identity::Verdict check(const Uid& id, const std::optional<Record>&) const override {
      contested.clean_stale_ids({&id, 1});
      REQUIRE(contested.lock(id, some_record()).outcome == Outcome::held);
      return {Life::dead, "it was"};
    }
    bool reads_records() const override { return true; }
    bool is_cheap() const override { return true; }
    FastLock& contested;
  } slow{lock};
  REQUIRE(take("a") == Outcome::held);
  CheckPolicy late(lock, slow);
  CHECK(late.lock(uid("b"), some_record()).outcome == Outcome::contended);
  CHECK(lock.is_mine(uid("a")));
}

TEST_CASE_METHOD(Fixture, "an unknown holder keeps its lock", "[policy]") {
  REQUIRE(take("a") == Outcome::held);
  oracle.unknown = {"a"};
  CHECK(take("b") == Outcome::contended);
  CHECK(policy.owner().at(0).id == uid("a"));
  CHECK_FALSE(policy.clean(std::chrono::seconds(0)));
  CHECK(lock.is_mine(uid("a")));
}

TEST_CASE_METHOD(Fixture, "several dead leaves are recovered together", "[policy]") {
  bfs::create_directories(path + "/owner");
  for (const char* id : {"a", "b", "c"}) write_file(path + "/owner/" + id, "");
  oracle.dead = {"a", "b"};
  CHECK(take("x") == Outcome::contended);
  CHECK(lock.owner().size() == 1);
  oracle.dead.insert("c");
  CHECK(take("x") == Outcome::held);
}

TEST_CASE_METHOD(Fixture, "an unlock cleans after every dead proposer and no living one",
                 "[policy]") {
  REQUIRE(take("a") == Outcome::held);
  for (const std::string id : {"dead 1", "dead 2", "live"}) {
    bfs::create_directories(path + "/build/" + id + "/owner");
    write_file(path + "/build/" + id + "/owner/" + id, "");
  }
  oracle.dead = {"dead 1", "dead 2"};
  CHECK(policy.unlock(uid("a")).outcome == Outcome::released);
  CHECK(tree(path) == std::vector<std::string>{"build/", "build/live/", "build/live/owner/",
                                               "build/live/owner/live"});
}

TEST_CASE_METHOD(Fixture, "staleness is told and nothing is changed", "[policy]") {
  CHECK_FALSE(policy.staleness());
  REQUIRE(take("a") == Outcome::held);
  CHECK(policy.staleness()->life == Life::alive);
  oracle.unknown = {"a"};
  CHECK(policy.staleness()->life == Life::unknown);
  oracle.unknown.clear();
  oracle.dead = {"a"};
  const int before = disk.changes();
  CHECK(policy.staleness()->life == Life::dead);
  CHECK(disk.changes() == before);
  CHECK(lock.is_mine(uid("a")));
}

TEST_CASE_METHOD(Fixture, "a holder that comes after the verdict is not touched by its cleaner",
                 "[policy]") {
  // the cleaner judged "a" dead and is held up at every call while another recovers and takes the
  // lock
  for (int at = 0;; ++at) {
    TempDir scratch;
    const std::string here = scratch / "lock";
    REQUIRE(FastLock(disk::posix(), here).lock(uid("a"), some_record()).outcome == Outcome::held);
    Oracle knows;
    knows.dead = {"a"};
    FaultDisk slow;
    FastLock slow_lock(slow, here);
    bool other_holds = false;
    slow.before(at, [&] {
      FastLock fast(disk::posix(), here);
      other_holds = CheckPolicy(fast, knows).lock(uid("b"), some_record()).outcome == Outcome::held;
    });
    const auto mine = CheckPolicy(slow_lock, knows).lock(uid("c"), some_record()).outcome;
    INFO("before call " << at << ": " << slow.last_hit());
    CHECK((mine == Outcome::held) + other_holds == 1);
    check_invariants(here);
    if (!slow.was_hit()) break;
    CHECK(at < 200);
  }
}

TEST_CASE("a stale owner is recovered by exactly one of many checkers", "[policy][race]") {
  for (int round = 0; round < 30; ++round) {
    TempDir dir;
    const std::string path = dir / "lock";
    FastLock(disk::posix(), path).lock(uid("dead"), some_record());
    Oracle oracles[4];
    std::atomic<int> winners{0};
    {
      std::vector<std::jthread> threads;
      for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&, t] {
          oracles[t].dead = {"dead"};
          FastLock lock(disk::posix(), path);
          winners += CheckPolicy(lock, oracles[t])
                         .lock(uid("t" + std::to_string(t)), some_record())
                         .outcome == Outcome::held;
        });
      }
    }
    CHECK(winners == 1);
    CHECK(FastLock(disk::posix(), path).owner().size() == 1);
  }
}

TEST_CASE("recovery stopped after any write is finished by the next one", "[policy][crash]") {
  int stops = 0;
  for (bool finished = false; !finished; ++stops) {
    TempDir dir;
    const std::string path = dir / "lock";
    FastLock(disk::posix(), path).lock(uid("dead"), some_record());
    Oracle oracle;
    oracle.dead = {"dead", "recoverer"};
    FaultDisk disk;
    disk.stop_after(stops);
    try {
      FastLock lock(disk, path);
      finished =
          CheckPolicy(lock, oracle).lock(uid("recoverer"), some_record()).outcome == Outcome::held;
      REQUIRE(finished);
    } catch (const Crash&) {
    }
    INFO("stopped before: " << disk.last_hit());
    FastLock lock(disk::posix(), path);
    CheckPolicy policy(lock, oracle);
    CHECK(policy.lock(uid("next"), some_record()).outcome == Outcome::held);
    CHECK(policy.unlock(uid("next")).outcome == Outcome::released);
    CHECK(policy.clean(std::chrono::seconds(0)));
    CHECK_FALSE(bfs::exists(path));
  }
  CHECK(stops > 15);
}

TEST_CASE("whatever one call answers a living holder keeps its lock", "[policy][lost][fail]") {
  const bool is_done = GENERATE(true, false);
  const Process holder(kSleeper);
  const identity::LocalId ids(disk::posix());
  std::string why;
  const auto identity = ids.identify(holder.pid_text(), why);
  const auto self = ids.identify(std::to_string(getpid()), why);
  REQUIRE((identity && self));
  for (const int error : {ENOENT, EEXIST, ESTALE, EACCES, EPERM, EIO, EMFILE, ESRCH}) {
    for (int at = 0;; ++at) {
      TempDir dir;
      const std::string path = dir / "lock";
      FastLock real(disk::posix(), path);
      REQUIRE(real.lock(identity->uid, identity->record).outcome == Outcome::held);
      FaultDisk disk;
      if (is_done) {
        disk.lose_reply(at, error);
      } else {
        disk.fail(at, error);
      }
      FastLock lock(disk, path);
      const identity::LocalId doubtful(disk);
      CheckPolicy rival(lock, doubtful);
      CHECK(rival.lock(self->uid, self->record).outcome != Outcome::held);
      try {
        rival.owner();
        rival.clean(std::chrono::seconds(0));
      } catch (const std::system_error&) {
        // told why
      }
      INFO(std::generic_category().message(error) << " at call " << at << ": " << disk.last_hit());
      CHECK(real.is_mine(identity->uid));
      if (!disk.was_hit()) break;
      REQUIRE(at < 500);
    }
  }
}

TEST_CASE("cleaning with a dear checker does not keep the caller", "[policy]") {
  TempDir dir;
  const std::string path = dir / "lock";
  FastLock lock(disk::posix(), path);
  const std::string go = dir / "go";
  REQUIRE(mkfifo(go.c_str(), 0600) == 0);
  // the checker waits until it is let go, and says "dead" then
  const identity::CommandId checker({"/bin/sh", "-c", "read x < " + go});
  bfs::create_directories(path + "/build/dead/owner");
  REQUIRE(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
  CHECK(CheckPolicy(lock, checker).unlock(uid("a")).outcome == Outcome::released);
  CHECK(bfs::exists(path + "/build/dead"));
  write_file(go, "go\n");
  CHECK(eventually([&] { return !bfs::exists(path); }));
}

TEST_CASE("who works detached can be ended by signals that its parent keeps away from itself",
          "[policy]") {
  const TempDir dir;
  sigset_t kept_away;
  sigemptyset(&kept_away);
  sigaddset(&kept_away, SIGTERM);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &kept_away, &before);
  run_detached([&] {
    sigset_t there;
    pthread_sigmask(SIG_BLOCK, nullptr, &there);
    write_file(dir / "said", sigismember(&there, SIGTERM) == 0 ? "ends" : "goes on");
  });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  REQUIRE(eventually([&] { return !read_file(dir / "said").empty(); }));
  CHECK(read_file(dir / "said") == "ends");
}
