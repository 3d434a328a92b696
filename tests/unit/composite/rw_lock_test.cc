/// Locks that are shared or held alone, when disks fail and several tasks have one id.

#include "composite/rw_lock.h"

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "composite/fair_semaphore.h"
#include "composite/multi_lock.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "unit/policy/oracle.h"

using namespace holdfast;
using namespace holdfast::composite;
using namespace holdfast::testing;
using lock::Answer;
using lock::FastLock;
using lock::Mode;
using lock::Outcome;
namespace bfs = boost::filesystem;
using namespace std::chrono_literals;

namespace {

const Uid kA = uid("a");
const Uid kB = uid("b");
const Uid kU = uid("u");

struct Bench {
  TempDir dir;
  std::string path = dir / "lock";
  FastLock lock{disk::posix(), path};
  std::shared_ptr<Oracle> oracle = std::make_shared<Oracle>();
  Outcome share(const Uid& id) { return lock.lock(id, some_record(), Mode::shared).outcome; }
  std::string leaf(const Uid& id) const { return path + "/owner/" + id.str(); }
  Holder holder(const Uid& id) const {
    const identity::Identity identity{id, some_record()};
    return {identity, identity, oracle};
  }
};

constexpr int kEnd = 40;

}  // namespace

TEST_CASE("one that is alone and upgrades again stays alone beside a newcomer that was stopped",
          "[composite][rw]") {
  Bench b;
  REQUIRE(b.share(kA) == Outcome::held);
  const Holder self = b.holder(kA);
  RwLock lock(b.path, self);
  REQUIRE(lock.upgrade(Patience::none()).outcome == Outcome::held);
  bfs::create_symlink("shared", b.leaf(kB));  // listed before the upgrade, stopped before its look
  CHECK(lock.upgrade(Patience::none()).outcome == Outcome::contended);
  CHECK(bfs::is_regular_file(b.leaf(kA)));
}

TEST_CASE("the right to upgrade stays as long as the leaf is an exclusive one beside others",
          "[composite][rw]") {
  for (int n = 0; n < 120; ++n) {
    bool was_hit = false;
    for (int m = n + 1; m < n + 12; ++m) {
      Bench b;
      REQUIRE(b.share(kA) == Outcome::held);
      REQUIRE(b.share(kB) == Outcome::held);
      FaultDisk inner;
      FaultDisk outer(static_cast<disk::Disk&>(inner));
      outer.fail(n, EIO);
      inner.fail(m - 1, EIO);  // the outer one swallowed a call
      const Holder self = b.holder(kA);
      Answer answer{Outcome::failed, {}};
      try {
        answer = RwLock(b.path, self, Order::fair, outer).upgrade(Patience::none());
      } catch (const std::system_error&) {
      }
      was_hit |= outer.was_hit();
      INFO(n << " " << m << ": failed " << outer.last_hit() << ", " << inner.last_hit() << ", told "
             << answer.why);
      if (bfs::is_regular_file(b.leaf(kA))) CHECK(bfs::exists(b.path + "/.upgrade/owner/a"));
    }
    if (!was_hit) break;
  }
}

TEST_CASE("a guard of a lock with dear checks leaves no name", "[composite][rw]") {
  Bench b;
  Holder self = b.holder(kA);
  self.grace = 60s;
  SECTION("rw lock") {
    RwLock lock(b.path, self);
    REQUIRE(lock.hold(Mode::shared, Patience::none())->release());
  }
  SECTION("several locks") {
    const Want wants[] = {{b.path}};
    MultiLock lock(wants, self);
    REQUIRE(lock.hold(Patience::none())->release());
  }
  SECTION("permits") {
    FairSemaphore semaphore(b.path, self);
    REQUIRE(semaphore.hold(2, 2, Patience::none())->release());
  }
  CHECK(tree(b.dir / ".") == std::vector<std::string>{});
}

TEST_CASE("a guard of permits takes the semaphore's folder with it", "[composite][rw]") {
  Bench b;
  const Holder self = b.holder(kA);
  FairSemaphore semaphore(b.path, self);
  REQUIRE(semaphore.hold(2, 2, Patience::none())->release());
  CHECK(!bfs::exists(b.path));
}

TEST_CASE("a downgrade whose hold was given up by another task is not told yes beside one alone",
          "[composite][rw]") {
  for (int n = 0; n < kEnd; ++n) {
    Bench b;
    REQUIRE(b.lock.lock(kA, some_record()).outcome == Outcome::held);
    FaultDisk disk;
    bool is_alone = false;
    bool is_made = false;
    disk.before(n, [&] {
      is_made = bfs::is_symlink(b.path + "/build/a/leaf");
      bfs::remove(b.leaf(kA));  // step 2 of Unlock; its rmdir comes too late
      const Holder other = b.holder(kB);
      RwLock lock(b.path, other);
      if (lock.acquire(Mode::shared, Patience::none()).outcome != Outcome::held) return;
      is_alone = lock.upgrade(Patience::none()).outcome == Outcome::held;
    });
    const Holder self = b.holder(kA);
    const Outcome outcome = RwLock(b.path, self, Order::fair, disk).downgrade().outcome;
    if (!disk.was_hit()) break;
    // the new leaf is made: from this last look on nobody can know
    if (is_made && !disk.last_hit().starts_with("open_file")) break;
    INFO(n << ": before " << disk.last_hit());
    CHECK(!(is_alone && outcome == Outcome::held));
  }
}

TEST_CASE("an upgrade in vain does not leave a hold that was given up meanwhile",
          "[composite][rw]") {
  for (int n = 0; n < 60; ++n) {
    Bench b;
    REQUIRE(b.share(kA) == Outcome::held);
    REQUIRE(b.share(kB) == Outcome::held);
    FaultDisk disk;
    Outcome unlocked = Outcome::failed;
    disk.before(n, [&] {
      const Holder self = b.holder(kA);
      unlocked = RwLock(b.path, self).unlock().outcome;
    });
    const Holder self = b.holder(kA);
    const Outcome outcome =
        RwLock(b.path, self, Order::fair, disk).upgrade(Patience::none()).outcome;
    if (!disk.was_hit()) break;
    INFO(n << ": before " << disk.last_hit() << ", told " << static_cast<int>(outcome));
    if (unlocked == Outcome::released) CHECK(!b.lock.mode(kA));
  }
}
