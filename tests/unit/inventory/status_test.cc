#include "inventory/status.h"

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <system_error>

#include "lock/fast_lock.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::inventory;
using holdfast::testing::some_record;
using holdfast::testing::TempDir;
using holdfast::testing::uid;
using lock::Mode;

namespace {

void hold(const std::string& path, const std::string& id, Mode mode = Mode::exclusive) {
  lock::FastLock lock(disk::posix(), path);
  REQUIRE(lock.lock(uid(id), some_record(), mode).outcome == lock::Outcome::held);
}

}  // namespace

TEST_CASE("a held lock is its own only lock, a folder lists the folders in it", "[inventory]") {
  const TempDir dir;
  hold(dir / "b", "id");
  boost::filesystem::create_directories(dir / "a");
  testing::write_file(dir / "file", "");
  CHECK(locks_in(disk::posix(), dir / "b") == std::vector<disk::Path>{dir / "b"});
  CHECK(locks_in(disk::posix(), dir.path()) == std::vector<disk::Path>{dir / "a", dir / "b"});
  CHECK_THROWS_AS(locks_in(disk::posix(), dir / "missing"), std::system_error);
}

TEST_CASE("a lock that is called owner does not make its folder a lock", "[inventory]") {
  const TempDir dir;
  hold(dir / "owner", "id");
  CHECK_FALSE(is_held(disk::posix(), dir.path()));
  CHECK(is_held(disk::posix(), dir / "owner"));
}

TEST_CASE("the status of a lock has its mode and its holders, and none if it is free",
          "[inventory]") {
  const TempDir dir;
  hold(dir / "7003", "x");
  hold(dir / "7011", "a", Mode::shared);
  hold(dir / "7011", "b", Mode::shared);
  const auto alone = status_of(disk::posix(), dir / "7003");
  REQUIRE(alone);
  CHECK(alone->id == "7003");
  CHECK(alone->mode == Mode::exclusive);
  CHECK(alone->holders.front().starts_with("x, "));
  const auto shared = status_of(disk::posix(), dir / "7011");
  REQUIRE(shared);
  CHECK(shared->mode == Mode::shared);
  CHECK(shared->count == 2);
  CHECK_FALSE(status_of(disk::posix(), dir / "7012"));
}
