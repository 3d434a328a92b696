/// Shared holds, and their change into exclusive ones and back.

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

const Uid kA = uid("a");
const Uid kB = uid("b");
const Uid kC = uid("c");

struct Bench {
  TempDir dir;
  std::string path = dir / "lock";
  FastLock lock{disk::posix(), path};

  Outcome share(const Uid& id) { return lock.lock(id, some_record(), Mode::shared).outcome; }
  Outcome take(const Uid& id) { return lock.lock(id, some_record()).outcome; }
  Outcome upgrade(const Uid& id) { return lock.upgrade(id, some_record()).outcome; }
  Outcome downgrade(const Uid& id) { return lock.downgrade(id, some_record()).outcome; }
  std::string leaf(const Uid& id) const { return path + "/owner/" + id.str(); }
};

constexpr int kEnd = 40;  // more calls than one operation makes

}  // namespace

TEST_CASE("sharers get in beside each other and keep a writer out", "[lock][shared]") {
  Bench b;
  CHECK(b.share(kA) == Outcome::held);
  CHECK(b.share(kB) == Outcome::held);
  CHECK(b.take(kC) == Outcome::contended);
  CHECK(b.lock.mode(kA) == Mode::shared);
  CHECK_FALSE(b.lock.mode(kC));
  CHECK(b.lock.unlock(kA).outcome == Outcome::released);
  CHECK(b.take(kC) == Outcome::contended);
  CHECK(b.lock.unlock(kB).outcome == Outcome::released);
  CHECK(b.take(kC) == Outcome::held);
  CHECK(b.lock.mode(kC) == Mode::exclusive);
}

TEST_CASE("a writer keeps sharers out and is not disturbed by them", "[lock][shared]") {
  Bench b;
  REQUIRE(b.take(kA) == Outcome::held);
  CHECK(b.share(kB) == Outcome::contended);
  CHECK(tree(b.path) == std::vector<std::string>{"owner/", "owner/a"});
  CHECK(b.lock.is_mine(kA));
}

TEST_CASE("a shared leaf is a symlink that says so and tells who it is", "[lock][shared][layout]") {
  Bench b;
  REQUIRE(b.share(kA) == Outcome::held);
  const std::string target = bfs::read_symlink(b.path + "/owner/a").native();
  CHECK(target.starts_with("shared {"));
  CHECK(target.find("\"user\":\"anna\"") != std::string::npos);
  const auto leaves = b.lock.owner();
  REQUIRE(leaves.size() == 1);
  CHECK(leaves[0].mode == Mode::shared);
  REQUIRE(leaves[0].record);
  CHECK(leaves[0].record->user == "anna");
}

TEST_CASE("the last sharer to go leaves no name", "[lock][shared]") {
  Bench b;
  b.share(kA);
  b.share(kB);
  b.lock.unlock(kB);
  CHECK(bfs::exists(b.path));
  b.lock.unlock(kA);
  CHECK_FALSE(bfs::exists(b.path));
}

TEST_CASE("an id that has a hold is told so and keeps it", "[lock][shared]") {
  Bench b;
  const Mode first = GENERATE(Mode::shared, Mode::exclusive);
  const Mode second = GENERATE(Mode::shared, Mode::exclusive);
  REQUIRE(b.lock.lock(kA, some_record(), first).outcome == Outcome::held);
  CHECK(b.lock.lock(kA, some_record(), second).outcome == Outcome::already_mine);
  CHECK(b.lock.mode(kA) == first);
}

TEST_CASE("a link of any target shares and a folder or file does not", "[lock][shared]") {
  Bench b;
  bfs::create_directories(b.path + "/owner");
  SECTION("a link without a record") {
    bfs::create_symlink("shared", b.path + "/owner/x");
    CHECK(b.share(kA) == Outcome::held);
  }
  SECTION("a folder") {
    bfs::create_directory(b.path + "/owner/x");
    CHECK(b.share(kA) == Outcome::contended);
  }
  SECTION("what a shell holder makes") {
    write_file(b.path + "/owner/x", "");
    CHECK(b.share(kA) == Outcome::contended);
  }
}

TEST_CASE("sharers that died are cleaned by their names and the living stay", "[lock][shared]") {
  Bench b;
  for (const Uid& id : {kA, kB, kC}) b.share(id);
  const Uid dead[] = {kA, kC};
  b.lock.clean_stale_ids(dead);
  CHECK(b.lock.mode(kB) == Mode::shared);
  CHECK(b.lock.owner().size() == 1);
}

TEST_CASE("an upgrade is granted to one who is alone", "[lock][upgrade]") {
  Bench b;
  REQUIRE(b.share(kA) == Outcome::held);
  const std::string nonce = b.lock.owner().front().record->nonce;
  CHECK(b.upgrade(kA) == Outcome::held);
  CHECK(b.lock.mode(kA) == Mode::exclusive);
  CHECK(b.lock.is_held_alone(kA, nonce));
  CHECK(b.share(kB) == Outcome::contended);
  CHECK(tree(b.path) == std::vector<std::string>{"owner/", "owner/a"});
}

TEST_CASE("an upgrade that waits keeps new sharers out and its own hold", "[lock][upgrade]") {
  Bench b;
  b.share(kA);
  b.share(kB);
  CHECK(b.upgrade(kA) == Outcome::contended);
  CHECK(b.share(kC) == Outcome::contended);
  CHECK(b.lock.mode(kA) == Mode::shared);  // not alone
  CHECK(b.lock.mode(kB) == Mode::shared);
  SECTION("and is granted when the others are gone") {
    b.lock.unlock(kB);
    CHECK(b.upgrade(kA) == Outcome::held);
    CHECK(b.lock.mode(kA) == Mode::exclusive);
  }
  SECTION("and can be given up") {
    CHECK(b.downgrade(kA) == Outcome::held);
    CHECK(b.share(kC) == Outcome::held);
  }
}

TEST_CASE("a downgrade is never refused and lets sharers in", "[lock][upgrade]") {
  Bench b;
  b.take(kA);
  CHECK(b.downgrade(kA) == Outcome::held);
  CHECK(b.share(kB) == Outcome::held);
  CHECK(b.take(kC) == Outcome::contended);
}

TEST_CASE("there is nothing to change for an id without a hold", "[lock][upgrade]") {
  Bench b;
  CHECK(b.upgrade(kA) == Outcome::not_mine);
  CHECK(b.downgrade(kA) == Outcome::not_mine);
  b.share(kB);
  CHECK(b.upgrade(kA) == Outcome::not_mine);
  CHECK(b.downgrade(kA) == Outcome::not_mine);
  CHECK(tree(b.path) == std::vector<std::string>{"owner/", "owner/b@"});
}

TEST_CASE("adversarial 1 and 2: a writer never gets in beside a sharer, whenever it comes",
          "[lock][shared][adversarial-1][adversarial-2]") {
  const bool is_joining = GENERATE(false, true);
  for (int at = 0;; ++at) {
    Bench w;
    if (is_joining) w.share(kC);
    FaultDisk disk;
    bool writer_holds = false;
    disk.before(at, [&] {
      if (is_joining) w.lock.unlock(kC);
      writer_holds = w.take(kA) == Outcome::held;
    });
    const bool sharer_holds =
        FastLock(disk, w.path).lock(kB, some_record(), Mode::shared).outcome == Outcome::held;
    if (!disk.was_hit()) break;
    INFO("the writer came before: " << disk.last_hit());
    CHECK_FALSE((writer_holds && sharer_holds));
    CHECK((writer_holds || sharer_holds));
    CHECK(w.lock.mode(kA) == (writer_holds ? std::optional(Mode::exclusive) : std::nullopt));
    CHECK(w.lock.mode(kB) == (sharer_holds ? std::optional(Mode::shared) : std::nullopt));
  }
}

TEST_CASE("adversarial 3: owner/ may be removed by anybody at any step",
          "[lock][shared][adversarial-3]") {
  for (int at = 0;; ++at) {
    Bench w;
    FaultDisk disk;
    disk.before(at, [&] {
      boost::system::error_code ec;
      bfs::remove(w.path + "/owner", ec);  // only if it is empty
      bfs::remove(w.path, ec);
    });
    const auto answer = FastLock(disk, w.path).lock(kB, some_record(), Mode::shared);
    if (!disk.was_hit()) break;
    INFO("removed before: " << disk.last_hit());
    CHECK(answer.outcome == Outcome::held);
    CHECK(w.lock.mode(kB) == Mode::shared);
  }
}

TEST_CASE("adversarial 6: a cleaner that comes late does not disturb who came since",
          "[lock][shared][adversarial-6]") {
  const Mode dead_one = GENERATE(Mode::shared, Mode::exclusive);
  const Mode next_one = GENERATE(Mode::shared, Mode::exclusive);
  const bool is_by_name = GENERATE(false, true);
  for (int at = 0;; ++at) {
    Bench w;
    REQUIRE(w.lock.lock(kA, some_record(), dead_one).outcome == Outcome::held);
    const std::vector<Leaf> judged = w.lock.owner();
    const Uid dead[] = {kA};
    FaultDisk disk;
    std::string nonce;
    disk.before(at, [&] {
      w.lock.clean_stale_ids(dead);
      const Answer answer = w.lock.lock(kB, some_record(), next_one);
      CHECK(answer.outcome == Outcome::held);
      nonce = answer.nonce;
    });
    FastLock cleaner(disk, w.path);
    if (is_by_name) {
      cleaner.clean_stale_ids(dead);
    } else {
      cleaner.clean_stale(judged);
    }
    if (!disk.was_hit()) {
      CHECK(at > 5);
      break;
    }
    INFO("the cleaner slept before: " << disk.last_hit());
    CHECK(w.lock.mode(kB) == next_one);
    CHECK(w.lock.is_held(kB, nonce));
    CHECK(w.take(kC) == Outcome::contended);
    CHECK(w.share(kC) == (next_one == Mode::shared ? Outcome::held : Outcome::contended));
    w.lock.unlock(kC);
    CHECK(w.lock.unlock_hold(kB, nonce).outcome == Outcome::released);
    CHECK_FALSE(bfs::exists(w.path));
  }
}

namespace {

/// A world, and an operation of b that ends in one of these modes or in none.
struct Scene {
  const char* name;
  std::function<void(FastLock&)> before;
  std::function<Answer(FastLock&)> act;
};

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> all = {
      {"first shared hold", [](FastLock&) {},
       [](FastLock& l) { return l.lock(kB, some_record(), Mode::shared); }},
      {"shared hold beside another", [](FastLock& l) { l.lock(kA, some_record(), Mode::shared); },
       [](FastLock& l) { return l.lock(kB, some_record(), Mode::shared); }},
      {"shared hold beside a writer", [](FastLock& l) { l.lock(kA, some_record()); },
       [](FastLock& l) { return l.lock(kB, some_record(), Mode::shared); }},
      {"upgrade", [](FastLock& l) { l.lock(kB, some_record(), Mode::shared); },
       [](FastLock& l) { return l.upgrade(kB, some_record()); }},
      {"upgrade beside another",
       [](FastLock& l) {
         l.lock(kA, some_record(), Mode::shared);
         l.lock(kB, some_record(), Mode::shared);
       },
       [](FastLock& l) { return l.upgrade(kB, some_record()); }},
      {"downgrade", [](FastLock& l) { l.lock(kB, some_record()); },
       [](FastLock& l) { return l.downgrade(kB, some_record()); }},
      {"unlock of a shared hold",
       [](FastLock& l) {
         l.lock(kA, some_record(), Mode::shared);
         l.lock(kB, some_record(), Mode::shared);
       },
       [](FastLock& l) { return l.unlock(kB); }},
  };
  return all;
}

/// Everybody of the scene is dead: one clean of their names leaves nothing.
void bury(const Bench& w) {
  FastLock lock(disk::posix(), w.path);
  const Uid dead[] = {kA, kB};
  lock.clean_stale_ids(dead);
  INFO("left: " << Catch::StringMaker<std::vector<std::string>>::convert(
           bfs::exists(w.path) ? tree(w.path) : std::vector<std::string>{}));
  CHECK_FALSE(bfs::exists(w.path));
  CHECK(lock.lock(kC, some_record()).outcome == Outcome::held);
}

}  // namespace

TEST_CASE(
    "adversarial 4: a change of shared holds killed at any write leaves only names of the dead",
    "[lock][shared][crash][adversarial-4]") {
  for (const Scene& scene : scenes()) {
    for (int survive = 0;; ++survive) {
      Bench w;
      scene.before(w.lock);
      FaultDisk disk;
      disk.stop_after(survive);
      FastLock lock(disk, w.path);
      bool finished = false;
      try {
        scene.act(lock);
        finished = true;
      } catch (const Crash&) {
      }
      if (finished) break;
      INFO(scene.name << " killed before: " << disk.last_hit());
      const auto a = w.lock.mode(kA);
      const auto b = w.lock.mode(kB);
      CHECK_FALSE((a == Mode::exclusive && b));
      CHECK_FALSE((b == Mode::exclusive && a));
      bury(w);
    }
  }
}

TEST_CASE("adversarial 4: what a shared hold is told is so, whatever reply was lost",
          "[lock][shared][fault][adversarial-4]") {
  const int error = GENERATE(ENOENT, EEXIST, EIO, ESTALE, ENOTEMPTY);
  for (const Scene& scene : scenes()) {
    for (int at = 0;; ++at) {
      Bench w;
      scene.before(w.lock);
      const auto a_before = w.lock.mode(kA);
      FaultDisk disk;
      disk.lose_reply(at, error);
      FastLock lock(disk, w.path);
      const Answer answer = scene.act(lock);
      if (!disk.was_hit()) break;
      INFO(scene.name << ", lost: " << disk.last_hit() << " as " << error << ": " << answer.why);
      const auto b = w.lock.mode(kB);
      if (answer.outcome == Outcome::held) {
        CHECK(b);
        CHECK_FALSE((b == Mode::exclusive && w.lock.mode(kA)));
        CHECK_FALSE((b && a_before == Mode::exclusive));
      }
      if (answer.outcome == Outcome::released) CHECK_FALSE(b);
      if (a_before == Mode::exclusive) CHECK(w.lock.mode(kA) == Mode::exclusive);
      if (a_before) CHECK(w.lock.mode(kA));
      bury(w);
    }
  }
}

TEST_CASE("an upgrade that others undo is told yes only if it is exclusive", "[lock][shared]") {
  const bool is_removed = GENERATE(true, false);
  for (int n = 0; n < kEnd; ++n) {
    Bench b;
    REQUIRE(b.share(kA) == Outcome::held);
    FaultDisk disk;
    disk.before(n, [&] {
      if (is_removed) {
        bfs::remove(b.leaf(kA));
      } else {
        (void)b.lock.downgrade(kA, some_record());  // another task of the id
      }
    });
    const Outcome outcome = FastLock(disk, b.path).upgrade(kA, some_record()).outcome;
    if (!disk.was_hit()) break;
    INFO(n << ": before " << disk.last_hit());
    CHECK((outcome != Outcome::held || b.lock.mode(kA) == Mode::exclusive));
  }
}

TEST_CASE("a sharer that backs out leaves a later hold of its id alone", "[lock][shared]") {
  for (int n = 0; n < kEnd; ++n) {
    for (int m = n + 1; m < kEnd; ++m) {
      Bench b;
      REQUIRE(b.share(kC) == Outcome::held);
      FaultDisk inner;
      FaultDisk outer(static_cast<disk::Disk&>(inner));
      bool has_taken = false;
      inner.before(n, [&] { (void)b.lock.upgrade(kC, some_record()); });
      outer.before(m, [&] {  // another task of this id: unlock, then lock
        (void)b.lock.unlock(kC);
        (void)b.lock.unlock(kA);
        has_taken = b.lock.lock(kA, some_record()).outcome == Outcome::held;
      });
      const Outcome outcome = FastLock(outer, b.path).lock(kA, some_record(), Mode::shared).outcome;
      if (!outer.was_hit()) break;
      INFO(n << " " << m << ": before " << inner.last_hit() << ", before " << outer.last_hit()
             << ", told " << static_cast<int>(outcome));
      // from the last look to the unlink nobody can know
      if (has_taken && outer.last_hit() != "unlink a") CHECK(bfs::is_regular_file(b.leaf(kA)));
    }
  }
}

TEST_CASE("a sharer whose link was made and not to be read back is not told that it held before",
          "[lock][shared]") {
  for (int n = 0; n < kEnd; ++n) {
    for (int m = n + 1; m < n + 4; ++m) {
      Bench b;
      FaultDisk inner;
      FaultDisk outer(static_cast<disk::Disk&>(inner));
      outer.lose_reply(n, EIO);
      inner.fail(m, EIO);
      const Outcome outcome = FastLock(outer, b.path).lock(kA, some_record(), Mode::shared).outcome;
      if (!outer.was_hit()) return;
      INFO(n << " " << m << ": lost " << outer.last_hit() << ", failed " << inner.last_hit());
      CHECK(outcome != Outcome::already_mine);
      if (outcome == Outcome::already_mine) CHECK(!bfs::is_symlink(b.leaf(kA)));
    }
  }
}
