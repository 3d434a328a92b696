#include "inventory/search.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "lock/fast_lock.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::inventory;
using holdfast::testing::some_record;
using holdfast::testing::TempDir;
using holdfast::testing::uid;
using lock::Mode;

namespace {

void hold(const std::string& path, const std::string& id, Mode mode = Mode::exclusive,
          lock::LeafKind kind = lock::LeafKind::file) {
  lock::FastLock lock(disk::posix(), path);
  lock.set_leaf_kind(kind);
  REQUIRE(lock.lock(uid(id), some_record(), mode).outcome == lock::Outcome::held);
}

std::vector<std::string> paths(const Found& found, const std::string& below) {
  std::vector<std::string> names;
  for (const FoundLock& one : found.locks) names.push_back(one.path.native().substr(below.size()));
  return names;
}

}  // namespace

TEST_CASE("held locks are found at every depth, with holders, modes and records", "[inventory]") {
  const TempDir dir;
  hold(dir / "gc.lock", "alone");
  hold(dir / "a/b/c/index", "one", Mode::shared);
  hold(dir / "a/b/c/index", "two", Mode::shared);
  hold(dir / "builds/2", "slot");
  hold(dir / "plain", "folder", Mode::exclusive, lock::LeafKind::dir);
  const Found found = find_locks(disk::posix(), dir.path());
  REQUIRE(found.unsearched.empty());
  REQUIRE(paths(found, dir.path()) ==
          std::vector<std::string>{"/a/b/c/index", "/builds/2", "/gc.lock", "/plain"});
  const FoundLock& shared = found.locks[0];
  CHECK(shared.kind == FoundKind::lock);
  CHECK(shared.mode() == Mode::shared);
  REQUIRE(shared.holders.size() == 2);
  CHECK(shared.holders[0].id.str() == "one");
  CHECK(shared.holders[1].mode == Mode::shared);
  CHECK(found.locks[1].kind == FoundKind::slot);
  CHECK(found.locks[2].mode() == Mode::exclusive);
  REQUIRE(found.locks[2].holders[0].record);
  CHECK(found.locks[2].holders[0].record->user == "anna");
  CHECK_FALSE(found.locks[2].holders[0].record->nonce.empty());
  CHECK_FALSE(found.locks[3].holders[0].record);  // a folder as a leaf has none
}

TEST_CASE("the folder that is given may be the lock itself, or a link to it", "[inventory]") {
  const TempDir dir;
  hold(dir / "real", "id");
  REQUIRE(symlink("real", (dir / "link").c_str()) == 0);
  for (const char* name : {"real", "real/", "link", "link/"}) {
    INFO(name);
    CHECK(find_locks(disk::posix(), dir / name).locks.size() == 1);
  }
}

TEST_CASE("a leaf that the shell made counts, and free locks do not", "[inventory]") {
  const TempDir dir;
  boost::filesystem::create_directories(dir / "shell/owner");
  boost::filesystem::create_directories(dir / "free/owner");
  testing::write_file(dir / "shell/owner/42:7:9", "");
  const Found found = find_locks(disk::posix(), dir.path());
  REQUIRE(paths(found, dir.path()) == std::vector<std::string>{"/shell"});
  CHECK(found.locks[0].holders[0].id.str() == "42:7:9");
}

TEST_CASE("files and folders of the user are no locks, whatever they are called", "[inventory]") {
  const TempDir dir;
  boost::filesystem::create_directories(dir / "house/owner/letters");
  testing::write_file(dir / "house/owner/name", "Anna");
  testing::write_file(dir / "house/owner/letters/1", "Dear Anna");
  hold(dir / "locks/owner", "id");  // a lock that is called owner
  hold(dir / "locks/build", "id");
  const Found found = find_locks(disk::posix(), dir.path());
  CHECK(paths(found, dir.path()) == std::vector<std::string>{"/locks/build", "/locks/owner"});
}

TEST_CASE("proposals and the right to upgrade are no locks of their own", "[inventory]") {
  const TempDir dir;
  boost::filesystem::create_directories(dir / "new/build/id/owner");
  testing::write_file(dir / "new/build/id/owner/id", to_line(some_record()));
  hold(dir / "held", "reader", Mode::shared);
  lock::FastLock right = lock::FastLock(disk::posix(), dir / "held").right_to_upgrade();
  REQUIRE(right.lock(uid("reader"), some_record()).outcome == lock::Outcome::held);
  boost::filesystem::create_directories(dir / "held/build/id/owner");
  testing::write_file(dir / "held/build/id/owner/id", to_line(some_record()));
  CHECK(paths(find_locks(disk::posix(), dir.path()), dir.path()) ==
        std::vector<std::string>{"/held"});
}

TEST_CASE("links below the folder are not followed", "[inventory]") {
  const TempDir dir;
  hold(dir / "outside/lock", "id");
  boost::filesystem::create_directories(dir / "inside/lock");
  REQUIRE(symlink("../outside", (dir / "inside/way").c_str()) == 0);
  REQUIRE(symlink("../../outside/lock/owner", (dir / "inside/lock/owner").c_str()) == 0);
  REQUIRE(symlink(".", (dir / "inside/circle").c_str()) == 0);
  const Found found = find_locks(disk::posix(), dir / "inside");
  CHECK(found.locks.empty());
  CHECK(found.unsearched.empty());
}

TEST_CASE("a folder beyond the deepest level is named, not searched", "[inventory]") {
  const TempDir dir;
  hold(dir / "1/2/3/4/lock", "id");
  hold(dir / "1/lock", "id");
  const Found found = find_locks(disk::posix(), dir.path(), 2);
  CHECK(paths(found, dir.path()) == std::vector<std::string>{"/1/lock"});
  REQUIRE(found.unsearched.size() == 1);
  CHECK(found.unsearched[0].path.native() == dir / "1/2/3");
  CHECK(found.unsearched[0].why.find("2 levels") != std::string::npos);
  CHECK(find_locks(disk::posix(), dir.path(), 5).locks.size() == 2);
}

TEST_CASE("a folder that is missing or may not be read is named, and the search goes on",
          "[inventory]") {
  const TempDir dir;
  hold(dir / "lock", "id");
  const Found nothing = find_locks(disk::posix(), dir / "missing");
  REQUIRE(nothing.unsearched.size() == 1);
  CHECK(nothing.unsearched[0].why == "No such file or directory");
  if (testing::is_root()) return;  // root reads all
  boost::filesystem::create_directories(dir / "closed");
  REQUIRE(chmod((dir / "closed").c_str(), 0) == 0);
  const Found found = find_locks(disk::posix(), dir.path());
  REQUIRE(chmod((dir / "closed").c_str(), 0700) == 0);
  CHECK(found.locks.size() == 1);
  REQUIRE(found.unsearched.size() == 1);
  CHECK(found.unsearched[0].why == "Permission denied");
}

TEST_CASE("a lock that vanishes before any call of the search is no error", "[inventory]") {
  const TempDir dir;
  hold(dir / "stays", "id");
  for (int call = 0;; ++call) {
    INFO("before call " << call);
    hold(dir / "deep/goes", "id");
    testing::FaultDisk disk;
    disk.before(call, [&] { boost::filesystem::remove_all(dir / "deep"); });
    const Found found = find_locks(disk, dir.path());
    CHECK(found.unsearched.empty());
    REQUIRE_FALSE(found.locks.empty());
    CHECK(found.locks.back().path.native() == dir / "stays");
    const bool was_before_the_end = call < disk.calls();
    boost::filesystem::remove_all(dir / "deep");
    if (!was_before_the_end) break;
  }
}
