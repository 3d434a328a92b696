#include "composite/semaphore.h"

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <set>

#include "composite/command_slots.h"
#include "composite/own_slots.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"
#include "unit/policy/oracle.h"

using namespace holdfast;
using namespace holdfast::composite;
using namespace holdfast::testing;
using lock::Outcome;
namespace bfs = boost::filesystem;
using Again = Semaphore::Again;
using Names = std::vector<std::string>;
using std::chrono::seconds;

namespace {

identity::Identity someone(const std::string& id) {
  return {uid(id), some_record()};
}

/// One who uses the semaphore, through a disk of its own.
struct User {
  User(const std::string& path, const std::string& id, const Oracle& oracle,
       disk::Disk& through = disk::posix(), std::optional<seconds> grace = {})
      : slots(through, policy::Rules{.checker = oracle, .grace = grace}, someone(id)),
        semaphore(through, path, slots) {}

  OwnSlots slots;
  Semaphore semaphore;
};

struct Scene {
  TempDir dir;
  std::string path = dir / "in/sem";
  Oracle oracle;

  Scene() { bfs::create_directories(dir / "in"); }

  User user(const std::string& id, disk::Disk& through = disk::posix()) const {
    return {path, id, oracle, through};
  }
  Outcome acquire(const std::string& id, std::uint32_t max) const {
    return user(id).semaphore.acquire(max).answer.outcome;
  }
  void must_acquire(const std::string& id, std::uint32_t max) const {
    REQUIRE(acquire(id, max) == Outcome::held);
  }
  /// Ids that hold a slot, one entry per slot.
  std::multiset<std::string> holders() const {
    std::multiset<std::string> ids;
    for (const std::string& name : tree(path)) {
      const std::string in_slot = name.substr(name.find('/') + 1);
      if (in_slot.starts_with("owner/") && in_slot.size() > 6) ids.insert(in_slot.substr(6));
    }
    return ids;
  }
};

using Ids = std::multiset<std::string>;

}  // namespace

TEST_CASE("a semaphore lets in max holders and no more", "[composite]") {
  const Scene scene;
  const int max = GENERATE(1, 2, 3, 8);
  for (int i = 0; i < max; ++i)
    CHECK(scene.acquire("id" + std::to_string(i), max) == Outcome::held);
  CHECK(scene.acquire("late", max) == Outcome::contended);
  CHECK(scene.user("late").semaphore.fast_acquire(max).answer.outcome == Outcome::contended);
  CHECK(scene.holders().size() == static_cast<std::size_t>(max));
  CHECK(scene.user("id0").semaphore.release().outcome == Outcome::released);
  CHECK(scene.acquire("late", max) == Outcome::held);
}

TEST_CASE("the last one to release removes the semaphore", "[composite]") {
  const Scene scene;
  scene.must_acquire("a", 2);
  scene.must_acquire("b", 2);
  CHECK(scene.user("a").semaphore.release().outcome == Outcome::released);
  CHECK(bfs::exists(scene.path));
  CHECK(scene.user("b").semaphore.release().outcome == Outcome::released);
  CHECK_FALSE(bfs::exists(scene.path));
  CHECK(scene.user("b").semaphore.release().outcome == Outcome::not_mine);
}

TEST_CASE("an id that holds a slot is refused another, wherever the search starts", "[composite]") {
  const Scene scene;
  const std::string slot = GENERATE("1", "5", "8", "99", "name");
  REQUIRE(scene.user("a").semaphore.acquire_slot(slot).is_held());
  for (int i = 0; i < 8; ++i) {
    const Taken again = scene.user("a").semaphore.acquire(8);
    CHECK(again.answer.outcome == Outcome::already_mine);
    CHECK_THAT(again.answer.why, Catch::Contains("(slot " + slot + ")"));
  }
  CHECK(scene.holders() == Ids{"a"});
  CHECK(scene.user("a").semaphore.acquire(8, Again::allowed).is_held());
  CHECK(scene.holders() == Ids{"a", "a"});
}

TEST_CASE("who cannot look into a slot is not told that it has none", "[composite][fault]") {
  const Scene scene;
  const int error = GENERATE(EIO, EACCES);
  REQUIRE(scene.user("a").semaphore.acquire_slot("1").is_held());
  FaultDisk disk;
  disk.refuse("sem/1/owner", error);
  User user = scene.user("a", disk);
  for (const lock::Answer& answer : {user.semaphore.release(), user.semaphore.release("1"),
                                     user.slots.unlock(scene.path + "/1")}) {
    CHECK(answer.outcome == Outcome::failed);
    CHECK_THAT(answer.why, Catch::Contains(std::generic_category().message(error)));
  }
  CHECK_THROWS_AS(user.semaphore.slot(), std::system_error);
  CHECK_THROWS_AS(user.semaphore.slots_held(), std::system_error);
  CHECK(scene.holders() == Ids{"a"});
}

TEST_CASE("an id that may hold a slot which cannot be looked into is refused another",
          "[composite][fault]") {
  const Scene scene;
  REQUIRE(scene.user("a").semaphore.acquire_slot("1").is_held());
  FaultDisk disk;
  disk.refuse("sem/1/owner", EIO);
  CHECK(scene.user("a", disk).semaphore.acquire(8).answer.outcome == Outcome::failed);
  CHECK(scene.holders() == Ids{"a"});
}

TEST_CASE("a slot that another user keeps to himself keeps nobody from the others",
          "[composite][fault]") {
  const Scene scene;
  REQUIRE(scene.user("a").semaphore.acquire_slot("1").is_held());
  FaultDisk disk;
  disk.refuse("sem/1/owner", EACCES);
  User user = scene.user("b", disk);
  CHECK(user.semaphore.acquire(2).slot == "2");
  CHECK(user.semaphore.slots_held() == Names{"2"});
  CHECK(user.semaphore.release().outcome == Outcome::released);
}

TEST_CASE("an id that asks again gets every slot, and then none", "[composite]") {
  const Scene scene;
  for (int i = 0; i < 3; ++i) CHECK(scene.user("a").semaphore.acquire(3, Again::allowed).is_held());
  CHECK(scene.user("a").semaphore.acquire(3, Again::allowed).answer.outcome == Outcome::contended);
  User user = scene.user("a");
  CHECK(user.semaphore.slots_held() == Names{"1", "2", "3"});
  CHECK(user.semaphore.release("2").outcome == Outcome::released);
  CHECK(user.semaphore.slots_held() == Names{"1", "3"});
}

TEST_CASE("an id may hold several slots by name and releases them in that order", "[composite]") {
  const Scene scene;
  User user = scene.user("a");
  for (const char* slot : {"2", "1", "x"}) CHECK(user.semaphore.acquire_slot(slot).is_held());
  CHECK(user.semaphore.acquire_slot("2").answer.outcome == Outcome::already_mine);
  for (const char* slot : {"1", "2", "x"}) {
    CHECK(user.semaphore.slot() == std::string(slot));
    CHECK(user.semaphore.release().outcome == Outcome::released);
  }
  CHECK_FALSE(bfs::exists(scene.path));
}

TEST_CASE("max 0 lets in nobody and too large a max is refused", "[composite]") {
  const Scene scene;
  CHECK(scene.acquire("a", 0) == Outcome::contended);
  CHECK(scene.acquire("a", Semaphore::kLargestMax + 1) == Outcome::failed);
  CHECK_FALSE(bfs::exists(scene.path));
  CHECK(scene.acquire("a", Semaphore::kLargestMax) == Outcome::held);
}

TEST_CASE("the slot of a dead holder is recovered by acquire alone", "[composite]") {
  Scene scene;
  scene.must_acquire("dead", 1);
  scene.oracle.dead = {"dead"};
  CHECK(scene.user("a").semaphore.fast_acquire(1).answer.outcome == Outcome::contended);
  CHECK(scene.user("a").semaphore.stale() == Names{"1"});
  CHECK(scene.holders() == Ids{"dead"});
  CHECK(scene.acquire("a", 1) == Outcome::held);
  CHECK(scene.holders() == Ids{"a"});
}

TEST_CASE("a holder of whom nobody can tell keeps its slot", "[composite]") {
  Scene scene;
  scene.must_acquire("far", 1);
  scene.oracle.unknown = {"far"};
  CHECK(scene.acquire("a", 1) == Outcome::contended);
  CHECK(scene.user("a").semaphore.stale().empty());
  CHECK(scene.holders() == Ids{"far"});
}

TEST_CASE("a free slot is taken without asking about anybody", "[composite]") {
  Scene scene;
  for (const char* id : {"a", "b", "c"}) scene.must_acquire(id, 8);
  scene.oracle.asked = 0;
  scene.must_acquire("d", 8);
  CHECK(scene.oracle.asked == 0);
}

TEST_CASE("with a grace a dead holder is recovered by one who asks again", "[composite]") {
  Scene scene;
  scene.must_acquire("dead", 1);
  scene.oracle.dead = {"dead"};
  const auto attempt = [&] {
    User user(scene.path, "a", scene.oracle, disk::posix(), seconds(0));
    return user.semaphore.acquire(1).answer.outcome;
  };
  CHECK(attempt() == Outcome::contended);
  CHECK(attempt() == Outcome::held);
  User user(scene.path, "a", scene.oracle, disk::posix(), seconds(0));
  CHECK(user.semaphore.release().outcome == Outcome::released);
  CHECK_FALSE(bfs::exists(scene.path));
}

TEST_CASE("files and dot names in a semaphore are passed over and stay", "[composite]") {
  Scene scene;
  bfs::create_directories(scene.path + "/.queue/1.w.a");
  bfs::create_directories(scene.path + "/data/more");
  for (const char* name : {"/2", "/notes", "/.hidden"}) write_file(scene.path + name, "theirs");
  const auto before = tree(scene.path);
  scene.must_acquire("a", 3);
  scene.must_acquire("b", 3);
  CHECK(scene.acquire("c", 3) == Outcome::contended);
  CHECK(scene.user("a").semaphore.owners().size() == 2);
  CHECK_FALSE(scene.user("a").semaphore.clean(seconds(0)));
  scene.oracle.dead = {"b"};
  CHECK(scene.user("a").semaphore.stale().size() == 1);
  CHECK(scene.user("a").semaphore.release().outcome == Outcome::released);
  CHECK(scene.user("a").semaphore.clean(seconds(0)));
  CHECK(tree(scene.path) == before);
}

TEST_CASE("a name that cannot be a slot is refused", "[composite]") {
  const Scene scene;
  const std::string name = GENERATE("", ".", "..", ".queue", "a/b", "../x");
  CHECK(scene.user("a").semaphore.acquire_slot(name).answer.outcome == Outcome::failed);
  CHECK_FALSE(bfs::exists(scene.path));
}

TEST_CASE("what keeps all slots from being tried is told after a few", "[composite]") {
  const Scene scene;
  write_file(scene.path, "a file");
  const Taken taken = scene.user("a").semaphore.acquire(Semaphore::kLargestMax);
  CHECK(taken.answer.outcome == Outcome::failed);
  CHECK_THAT(taken.answer.why, Catch::Contains("Not a directory"));
}

TEST_CASE("a semaphore's guard holds one slot until it goes", "[composite]") {
  const Scene scene;
  User user = scene.user("a");
  {
    auto guard = user.semaphore.try_acquire(2);
    REQUIRE(guard);
    CHECK(guard->is_held());
    CHECK_FALSE(user.semaphore.try_acquire(2));
    CHECK(user.semaphore.refusal().answer.outcome == Outcome::already_mine);
    const Guard moved = std::move(*guard);
    CHECK(moved.is_held());
  }
  CHECK_FALSE(bfs::exists(scene.path));
}

TEST_CASE("a guard gives up its own hold and no later one of its id", "[composite]") {
  const Scene scene;
  User user = scene.user("a");
  auto guard = user.semaphore.try_acquire(1);
  REQUIRE(user.semaphore.release().outcome == Outcome::released);
  scene.must_acquire("a", 1);
  CHECK_FALSE(guard->is_held());
  CHECK_FALSE(guard->release());
  CHECK(scene.holders() == Ids{"a"});
}

TEST_CASE("a guard with a grace leaves no mark", "[composite]") {
  const Scene scene;
  User user(scene.path, "a", scene.oracle, disk::posix(), seconds(10));
  { CHECK(user.semaphore.try_acquire(2)); }
  CHECK_FALSE(bfs::exists(scene.path));
}

TEST_CASE("a locker of the user's own is asked slot by slot, and stops above 9", "[composite]") {
  const TempDir dir;
  const auto slots = [&](int code) {
    return CommandSlots(
        {"/bin/sh", "-c",
         "printf '%s ' \"$@\" >> " + dir.path() + "/asked; exit " + std::to_string(code), "sh"},
        "me");
  };
  const auto [code, calls, outcome] = GENERATE(table<int, int, Outcome>({
      {0, 1, Outcome::held},
      {1, 6, Outcome::contended},
      {9, 6, Outcome::contended},
      {10, 1, Outcome::failed},
      {20, 1, Outcome::failed},
  }));
  CommandSlots locker = slots(code);
  const Taken taken = Semaphore(disk::posix(), dir / "sem", locker).acquire(3);
  CHECK(taken.answer.outcome == outcome);
  CHECK(taken.status == (outcome == Outcome::contended ? -1 : code));
  const std::string asked = read_file(dir / "asked");
  CAPTURE(asked);
  int count = 0;
  for (std::size_t at = 0; (at = asked.find(" me ", at)) != std::string::npos; ++at) ++count;
  CHECK(count == calls);
  if (calls == 6) {  // each fast, then each with recovery
    CHECK(asked.find(" lock ") > asked.rfind("fast_lock "));
  }
}

// --- walks: a fault at every call of every operation

namespace {

struct Walk {
  const char* name;
  std::function<void(Scene&)> before;
  std::function<bool(User&)> act;  ///< true if it told its caller yes
  std::uint32_t max;
};

bool acquires(User& user, std::uint32_t max) {
  return user.semaphore.acquire(max).is_held();
}

const std::vector<Walk>& walks() {
  static const std::vector<Walk> all = {
      {"acquire of a free semaphore", [](Scene&) {}, [](User& u) { return acquires(u, 2); }, 2},
      {"acquire of the last slot", [](Scene& s) { s.must_acquire("rival", 1); },
       [](User& u) { return acquires(u, 2); }, 2},
      {"acquire of a full semaphore", [](Scene& s) { s.must_acquire("rival", 1); },
       [](User& u) { return acquires(u, 1); }, 1},
      {"acquire after a dead holder",
       [](Scene& s) {
         s.must_acquire("dead", 1);
         s.must_acquire("rival", 2);
         s.oracle.dead = {"dead"};
       },
       [](User& u) { return acquires(u, 2); }, 2},
      {"release", [](Scene& s) { s.must_acquire("self", 2); },
       [](User& u) { return u.semaphore.release().outcome == Outcome::released; }, 2},
      {"release beside a rival",
       [](Scene& s) {
         s.must_acquire("rival", 2);
         s.must_acquire("self", 2);
       },
       [](User& u) { return u.semaphore.release().outcome == Outcome::released; }, 2},
      {"clean",
       [](Scene& s) {
         s.must_acquire("dead", 1);
         s.must_acquire("rival", 2);
         s.oracle.dead = {"dead"};
       },
       [](User& u) { return u.semaphore.clean(seconds(0)); }, 2},
  };
  return all;
}

/// At any time: at most one in each slot, so max at most; a rival that was in still is.
void check_holders(const Scene& scene, const Walk& walk, bool has_rival) {
  const Ids ids = scene.holders();
  CHECK(ids.size() <= walk.max);
  CHECK(ids.count("self") <= 1);
  CHECK(ids.count("rival") == (has_rival ? 1U : 0U));
}

/// All who are in die, and the semaphore is as good as new.
void check_recoverable(Scene& scene, std::uint32_t max) {
  scene.oracle.dead = {"self", "rival", "dead"};
  for (std::uint32_t i = 0; i < max; ++i) {
    CHECK(scene.acquire("next" + std::to_string(i), max) == Outcome::held);
  }
  CHECK(scene.acquire("late", max) == Outcome::contended);
  for (std::uint32_t i = 0; i < max; ++i) {
    CHECK(scene.user("next" + std::to_string(i)).semaphore.release().outcome == Outcome::released);
  }
  CHECK(scene.user("late").semaphore.clean(seconds(0)));
  CHECK_FALSE(bfs::exists(scene.path));
}

}  // namespace

TEST_CASE("a semaphore's user killed at any change leaves what others recover",
          "[composite][crash]") {
  for (const Walk& walk : walks()) {
    int stops = 0;
    for (bool finished = false; !finished; ++stops) {
      Scene scene;
      walk.before(scene);
      const bool has_rival = scene.holders().contains("rival");
      FaultDisk disk;
      User self = scene.user("self", disk);
      disk.stop_after(stops);
      try {
        walk.act(self);
        finished = true;
      } catch (const Crash&) {
      }
      INFO(walk.name << " stopped before: " << disk.last_hit());
      check_holders(scene, walk, has_rival);
      check_recoverable(scene, walk.max);
    }
    INFO(walk.name);
    CHECK(stops > 1);
  }
}

TEST_CASE("with any one call failing or its reply lost a semaphore tells the truth",
          "[composite][crash]") {
  const bool is_lost = GENERATE(false, true);
  const int error = GENERATE(EIO, ENOENT, ESTALE, EACCES, ENOSPC);
  for (const Walk& walk : walks()) {
    bool was_hit = true;
    for (int call = 0; was_hit; ++call) {
      REQUIRE(call < 2000);
      Scene scene;
      walk.before(scene);
      const bool has_rival = scene.holders().contains("rival");
      const bool was_in = scene.holders().contains("self");
      FaultDisk disk;
      User self = scene.user("self", disk);
      is_lost ? disk.lose_reply(call, error) : disk.fail(call, error);
      bool said_yes = false;
      bool gave_up = false;
      try {
        said_yes = walk.act(self);
      } catch (const std::system_error&) {
        gave_up = true;  // told why
      }
      was_hit = disk.was_hit();
      INFO(walk.name << ", " << (is_lost ? "lost " : "failed ") << error << " at "
                     << disk.last_hit());
      check_holders(scene, walk, has_rival);
      const bool is_in = scene.holders().contains("self");
      if (walk.name == std::string("clean")) {
        if (said_yes) CHECK_FALSE(has_rival);
      } else if (was_in) {
        if (said_yes) CHECK_FALSE(is_in);
      } else if (!gave_up) {
        CHECK(said_yes == is_in);
      }
      check_recoverable(scene, walk.max);
    }
  }
}
