/// Walks a fault over every call of every operation. What may be left, and what must never be, is
/// in the headers of FastLock and CheckPolicy; here it is asked after each stop.

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <functional>

#include "lock/fast_lock.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::lock;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

const Uid kFirst = uid("first");
const Uid kRival = uid("rival");
const Uid kDead = uid("dead");

/// The world before the operation, and the operation itself: true if it told its caller yes.
struct Scene {
  const char* name;
  std::function<void(FastLock&)> before;
  std::function<bool(FastLock&)> act;
};

bool take(FastLock& lock, const Uid& id) {
  return lock.lock(id, some_record()).outcome == Outcome::held;
}

std::chrono::system_clock::time_point later() {
  return std::chrono::system_clock::now() + std::chrono::hours(1);
}

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all = {
      {"lock of a free lock", [](FastLock&) {}, [](FastLock& lock) { return take(lock, kFirst); }},
      {"lock below missing parents",
       [](FastLock& lock) { bfs::remove(lock.path().whole().parent_path()); },
       [](FastLock& lock) { return take(lock, kFirst); }},
      {"lock after an unlocker was killed",
       [](FastLock& lock) { bfs::create_directories((lock.path() / "owner").whole()); },
       [](FastLock& lock) { return take(lock, kFirst); }},
      {"lock that finds an old attempt of its own",
       [](FastLock& lock) {
         bfs::create_directories((lock.path() / "build/first/owner").whole());
         write_file((lock.path() / "build/first/owner/first").native(), "");
       },
       [](FastLock& lock) { return take(lock, kFirst); }},
      {"lock with a folder leaf", [](FastLock& lock) { lock.set_leaf_kind(LeafKind::dir); },
       [](FastLock& lock) { return take(lock, kFirst); }},
      {"lock of a held lock", [](FastLock& lock) { take(lock, kRival); },
       [](FastLock& lock) { return take(lock, kFirst); }},
      {"unlock", [](FastLock& lock) { take(lock, kFirst); },
       [](FastLock& lock) { return lock.unlock(kFirst).outcome == Outcome::released; }},
      {"recovery of a dead holder", [](FastLock& lock) { take(lock, kDead); },
       [](FastLock& lock) {
         lock.clean_stale_ids(std::span(&kDead, 1));
         return take(lock, kFirst);
       }},
      {"clean of a dead proposal and a gone one",
       [](FastLock& lock) {
         for (const char* name : {"build/dead/owner/dead", "build/.gone.1/dead"}) {
           bfs::create_directories((lock.path() / name).parent().whole());
           write_file((lock.path() / name).native(), "");
         }
       },
       [](FastLock& lock) {
         try {
           return lock.clean(later(), std::chrono::seconds(0));
         } catch (const std::system_error&) {
           return false;  // told why
         }
       }},
  };
  return all;
}

/// The lock stands in a folder of its own, so that a test may remove that too.
struct World {
  TempDir dir;
  std::string path = dir / "in/lock";
  FaultDisk disk;
  FastLock lock{disk, path};

  explicit World(const Scene& scene) {
    bfs::create_directories(dir / "in");
    FastLock real(disk::posix(), path);
    scene.before(real);
    if (std::string(scene.name).find("folder leaf") != std::string::npos)
      lock.set_leaf_kind(LeafKind::dir);
  }

  bool holds(const Uid& id) const {
    for (const Leaf& leaf : FastLock(disk::posix(), path).owner()) {
      if (leaf.id == id) return true;
    }
    return false;
  }
};

}  // namespace

TEST_CASE("stopped after any write the next id gets in and one clean leaves no name",
          "[lock][crash]") {
  for (const Scene& scene : scenes()) {
    int stops = 0;
    for (bool finished = false; !finished; ++stops) {
      World world(scene);
      world.disk.stop_after(stops);
      try {
        scene.act(world.lock);
        finished = true;
      } catch (const Crash&) {
      }
      INFO(scene.name << " stopped before: " << world.disk.last_hit());
      check_invariants(world.path);

      // the ids of the scene are dead now, but for a rival that held before
      FastLock next(disk::posix(), world.path);
      const bool rival_held = std::string(scene.name) == "lock of a held lock";
      CHECK(world.holds(kRival) == rival_held);
      if (rival_held) {
        CHECK_FALSE(take(next, uid("next")));
        CHECK(next.unlock(kRival).outcome == Outcome::released);
      }
      for (const Uid& dead : {kFirst, kDead}) next.clean_stale_ids(std::span(&dead, 1));
      CHECK(take(next, uid("next")));
      CHECK(next.unlock(uid("next")).outcome == Outcome::released);
      CHECK(next.clean(later(), std::chrono::seconds(0)));
      CHECK_FALSE(bfs::exists(world.path));
    }
    INFO(scene.name);
    CHECK(stops > 3);
  }
}

TEST_CASE("a kill before the move leaves a proposal that bars nobody", "[lock][crash]") {
  // no cleaning in between: what a killed attempt leaves must not even slow the next one down
  for (int stops = 0;; ++stops) {
    World world(scenes().front());
    world.disk.stop_after(stops);
    bool finished = false;
    try {
      finished = take(world.lock, kFirst);
    } catch (const Crash&) {
    }
    const bool was_in = world.holds(kFirst);
    FastLock next(disk::posix(), world.path);
    CHECK(take(next, uid("next")) != was_in);
    check_invariants(world.path);
    if (finished) break;
  }
}

TEST_CASE("a lost reply at any call never makes two holders nor a holder who was told no",
          "[lock][lost][H5]") {
  for (const Scene& scene : scenes()) {
    for (const int error : {ENOENT, EEXIST, ESTALE}) {
      for (int at = 0;; ++at) {
        World world(scene);
        world.disk.lose_reply(at, error);
        const bool yes = scene.act(world.lock);
        INFO(scene.name << ": " << std::generic_category().message(error) << " at call " << at
                        << ": " << world.disk.last_hit());
        check_invariants(world.path);
        if (std::string_view(scene.name).find("lock of a held") == 0) {
          CHECK_FALSE(yes);
          CHECK(world.holds(kRival));
        } else if (std::string_view(scene.name) == "unlock") {
          CHECK_FALSE((yes && world.holds(kFirst)));
        } else if (std::string_view(scene.name).find("clean") != 0) {
          CHECK(yes == world.holds(kFirst));
        }
        if (!world.disk.was_hit()) {
          CHECK(yes == (std::string_view(scene.name) != "lock of a held lock"));
          CHECK(at >= 5);
          break;
        }
        // and it is never worse than a stale id: cleaned, all is as new
        FastLock next(disk::posix(), world.path);
        for (const Uid& id : {kFirst, kDead, kRival}) next.clean_stale_ids(std::span(&id, 1));
        CHECK(next.clean(later(), std::chrono::seconds(0)));
        CHECK_FALSE(bfs::exists(world.path));
      }
    }
  }
}

TEST_CASE("a lost reply of a changing call does not even cost the lock", "[lock][lost][H5]") {
  for (const int error : {ENOENT, EEXIST, ESTALE}) {
    for (int at = 0;; ++at) {
      World world(scenes().front());
      world.disk.lose_reply(at, error);
      const bool yes = take(world.lock, kFirst);
      INFO(std::generic_category().message(error)
           << " at call " << at << ": " << world.disk.last_hit());
      const bool was_look =
          world.disk.last_hit().find("open") == 0 || world.disk.last_hit().find("read") == 0;
      if (!was_look) CHECK(yes);
      if (!world.disk.was_hit()) break;
    }
  }
}

TEST_CASE("a failing call at any place is told with its reason and loses nothing", "[lock][fail]") {
  for (const Scene& scene : scenes()) {
    for (const int error : {ENOSPC, EACCES, EIO, EDQUOT}) {
      for (int at = 0;; ++at) {
        World world(scene);
        world.disk.fail(at, error);
        const bool yes = scene.act(world.lock);
        INFO(scene.name << ": " << std::generic_category().message(error) << " at call " << at
                        << ": " << world.disk.last_hit());
        check_invariants(world.path);
        const bool is_lock = std::string_view(scene.name).find("lock") == 0;
        if (std::string_view(scene.name) == "lock of a held lock") {
          CHECK_FALSE(yes);
          CHECK(world.holds(kRival));
        } else if (is_lock) {
          CHECK(yes == world.holds(kFirst));
        }
        if (!world.disk.was_hit()) break;
      }
    }
  }
}

TEST_CASE("a full disk is said to be full", "[lock][fail]") {
  for (int at = 0;; ++at) {
    World world(scenes().front());
    world.disk.fail(at, ENOSPC);
    const auto answer = world.lock.lock(kFirst, some_record());
    INFO(world.disk.last_hit());
    if (!world.disk.was_hit()) break;
    if (answer.outcome == Outcome::held) continue;  // what failed was only tidying up
    CHECK(answer.outcome == Outcome::failed);
    if (world.disk.last_hit().find("read") == 0 || world.disk.last_hit().find("open_file") == 0)
      continue;
    CHECK_THAT(answer.why, Catch::Contains("No space left on device"));
    CHECK_FALSE(bfs::exists(world.path));
  }
}
