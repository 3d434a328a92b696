#include "policy/locker.h"

#include <sys/wait.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>

#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

/// Exit status of a fork's child that runs `body` and leaves through exit handlers and destructors
/// of `body` only.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_CASE("a guard holds until its scope ends", "[policy]") {
  TempDir dir;
  Locker locker(dir / "lock");
  {
    const auto guard = locker.try_lock();
    REQUIRE(guard);
    CHECK(guard->is_held());
    const auto second = Locker(dir / "lock").try_lock();
    CHECK_FALSE(second);
  }
  CHECK_FALSE(bfs::exists(dir / "lock"));
  CHECK(locker.try_lock());
}

TEST_CASE("a guard can be moved and unlocks once", "[policy]") {
  TempDir dir;
  Locker locker(dir / "lock");
  auto first = locker.try_lock();
  REQUIRE(first);
  Locker::Guard moved = std::move(*first);
  first.reset();
  CHECK(moved.is_held());
  CHECK(moved.unlock());
  CHECK_FALSE(moved.unlock());
  CHECK_FALSE(moved.is_held());
  auto a = Locker(dir / "a").try_lock();
  auto b = Locker(dir / "b").try_lock();
  *a = std::move(*b);
  CHECK_FALSE(bfs::exists(dir / "a"));
  CHECK(a->is_held());
}

TEST_CASE("a child of a fork neither holds nor unlocks what its parent holds", "[policy]") {
  TempDir dir;
  Locker locker(dir / "lock");
  auto guard = locker.try_lock();
  REQUIRE(guard);
  CHECK(in_child([&] {
          const bool holds = guard->is_held();
          guard.reset();  // the destructor
          Locker own(dir / "lock");
          const bool gets_in = own.try_lock().has_value();
          const bool again = locker.try_lock().has_value();
          return holds || gets_in || again ? 1 : 0;
        }) == 0);
  CHECK(guard->is_held());
}

TEST_CASE("a lock whose process died is recovered by the next", "[policy]") {
  TempDir dir;
  CHECK(in_child([&] {
          auto guard = Locker(dir / "lock").try_lock();
          if (guard) kill(getpid(), SIGKILL);
          return 1;
        }) == 128 + SIGKILL);
  REQUIRE(bfs::exists(dir / "lock"));
  CHECK(Locker(dir / "lock").try_lock());
}

TEST_CASE("a refusal tells who holds", "[policy]") {
  TempDir dir;
  Process holder(kSleeper);
  REQUIRE(run({"lock_local", "lock", dir / "lock", holder.pid_text()}).code == 0);
  Locker locker(dir / "lock");
  CHECK_FALSE(locker.try_lock());
  CHECK(locker.refusal().outcome == lock::Outcome::contended);
  CHECK_THAT(locker.refusal().why,
             Catch::Contains("held by pid " + holder.pid_text() + " (sleep)"));
}

TEST_CASE("the tools see a library holder and cannot take from it", "[policy]") {
  TempDir dir;
  auto guard = Locker(dir / "lock").try_lock();
  REQUIRE(guard);
  CHECK(run({"lock_local", "owner_pid", dir / "lock"}).out == std::to_string(getpid()) + "\n");
  const Process rival(kSleeper);
  CHECK(run({"lock_local", "lock", dir / "lock", rival.pid_text()}).code == 1);
  CHECK(guard->is_held());
}

TEST_CASE("a guard whose lock was taken away says so", "[policy]") {
  TempDir dir;
  auto guard = Locker(dir / "lock").try_lock();
  REQUIRE(guard);
  bfs::remove_all(dir / "lock");
  CHECK_FALSE(guard->is_held());
  CHECK_FALSE(guard->unlock());
}

TEST_CASE("a holder who looks notices that a late unlink took its lock", "[policy][H6]") {
  // NFS before 4.1: the unlink of an earlier hold, sent twice, arrives after the same id locked
  // again
  TempDir dir;
  Locker locker(dir / "lock");
  REQUIRE(locker.try_lock()->unlock());
  auto again = locker.try_lock();
  REQUIRE(again);
  REQUIRE(again->is_held());
  for (const std::string& name : tree(dir / "lock/owner"))
    unlink((dir / ("lock/owner/" + name)).c_str());
  CHECK_FALSE(again->is_held());
  CHECK_FALSE(again->unlock());
}

TEST_CASE("an unlock that the disk refuses can be tried again", "[policy]") {
  int refused = 0;
  for (int at = 0;; ++at) {
    TempDir dir;
    FaultDisk disk;
    Locker locker(dir / "lock", disk);
    auto guard = locker.try_lock();
    REQUIRE(guard);
    disk.fail(disk.calls() + at, EIO);
    if (!guard->unlock()) {
      ++refused;
      CHECK(guard->is_held());
      CHECK(guard->unlock());
    }
    CHECK_FALSE(guard->is_held());
    if (!disk.was_hit()) break;
  }
  CHECK(refused >= 1);
}

TEST_CASE("what cannot be locked is told with its reason", "[policy]") {
  TempDir dir;
  write_file(dir / "file", "");
  Locker locker(dir / "file");
  CHECK_FALSE(locker.try_lock());
  CHECK(locker.refusal().outcome == lock::Outcome::failed);
  CHECK_THAT(locker.refusal().why, Catch::Contains("Not a directory"));
}
