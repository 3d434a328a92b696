#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "policy/locker.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
using holdfast::Locker;
using holdfast::lock::Outcome;

namespace {

/// Runs it in a child that ends at once after it; its answer is the exit status.
template <class Do>
int in_child(Do&& action) {
  const pid_t child = fork();
  if (child == 0) _exit(action() ? 0 : 1);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return status;
}

}  // namespace

TEST_CASE("a forked child that drops its parent's guard does not unlock", "[race][fork]") {
  const TempDir dir;
  const std::string lock = dir / "lock";
  auto guard = Locker(lock).try_lock();
  REQUIRE(guard);
  const auto before = tree(lock);
  REQUIRE(before.size() == 2);

  CHECK(in_child([&] {
          guard.reset();
          return true;
        }) == 0);
  CHECK(in_child([&] { return !guard->is_held() && !guard->unlock(); }) == 0);

  CHECK(tree(lock) == before);
  CHECK(guard->is_held());
  const Process rival(kSleeper);
  CHECK(run({"lock_local", "lock", lock, rival.pid_text()}).code == 1);
  CHECK(guard->unlock());
  CHECK(run({"lock_local", "lock", lock, rival.pid_text()}).code == 0);
}

TEST_CASE("a forked child contends under its own name", "[race][fork]") {
  const TempDir dir;
  Locker locker(dir / "lock");
  {
    const auto guard = locker.try_lock();
    REQUIRE(guard);
    CHECK(in_child([&] {
            return !locker.try_lock() && locker.refusal().outcome == Outcome::contended;
          }) == 0);
    CHECK(guard->is_held());
  }
  // dead without unlocking, it is recovered by its parent
  CHECK(in_child([&] {
          auto mine = locker.try_lock();
          const bool is_held = mine && mine->is_held();
          new std::optional(std::move(mine));
          return is_held;
        }) == 0);
  CHECK(tree(dir / "lock").size() == 2);
  CHECK(locker.try_lock());
}
