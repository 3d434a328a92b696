/// Directories of the user's own that look like locks.

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "lock/fast_lock.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::lock;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

struct Project {
  TempDir dir;
  std::string path = dir / "proj";
  FastLock lock{disk::posix(), path};

  explicit Project(const std::string& name, const std::string& text) {
    bfs::create_directories(bfs::path(path + "/" + name).parent_path());
    write_file(path + "/" + name, text);
  }

  /// Everything that removes something, for an id of that name too.
  void clean_up(const std::string& name) {
    const Uid ids[] = {uid(name), uid("b")};
    lock.clean_stale_ids(ids);
    lock.clean_stale(lock.owner());
    lock.clean_proposals(ids);
    (void)lock.unlock(uid(name));
    (void)lock.clean(std::chrono::system_clock::now() + std::chrono::hours(1),
                     std::chrono::seconds(0));
  }
};

}  // namespace

TEST_CASE("a file in owner that no locker made is never removed, and the lock fails with its path",
          "[lock][foreign]") {
  const std::string text = GENERATE("# Owners\n", "{}", "{\"name\": 1}", std::string(100'000, 'x'));
  const Mode mode = GENERATE(Mode::exclusive, Mode::shared);
  Project at("owner/OWNERS", text);
  write_file(at.path + "/notes", "mine");
  const auto before = tree(at.path);
  const Answer answer = at.lock.lock(uid("b"), some_record(), mode);
  CHECK(answer.outcome == Outcome::failed);
  CHECK_THAT(answer.why, Catch::Contains(at.path + "/owner/OWNERS was not made by a locker"));
  const Answer same = at.lock.lock(uid("OWNERS"), some_record(), mode);
  CHECK(same.outcome == Outcome::failed);
  CHECK(at.lock.unlock(uid("OWNERS")).outcome == Outcome::failed);
  at.clean_up("OWNERS");
  CHECK(tree(at.path) == before);
  CHECK(read_file(at.path + "/owner/OWNERS") == text);
}

TEST_CASE("a link in owner that no locker made is never removed", "[lock][foreign]") {
  Project at("notes", "mine");
  bfs::create_directories(at.path + "/owner");
  bfs::create_symlink("../notes", at.path + "/owner/current");
  const auto before = tree(at.path);
  CHECK(at.lock.lock(uid("b"), some_record()).outcome == Outcome::failed);
  CHECK(at.lock.unlock(uid("current")).outcome == Outcome::failed);
  at.clean_up("current");
  CHECK(tree(at.path) == before);
}

TEST_CASE("files below build that no locker made are never removed", "[lock][foreign]") {
  const std::string name = GENERATE("build/obj/owner/obj", "build/obj/owner/main.o",
                                    "build/obj/leaf", "build/.gone.1/main.o", "build/Makefile");
  CAPTURE(name);
  Project at(name, "text");
  const auto before = tree(at.path);
  at.clean_up("obj");
  CHECK(tree(at.path) == before);
  REQUIRE(at.lock.lock(uid("b"), some_record()).outcome == Outcome::held);
  REQUIRE(at.lock.unlock(uid("b")).outcome == Outcome::released);
  CHECK(tree(at.path) == before);
}

TEST_CASE("an empty leaf, a broken record and a record of a later version are holders",
          "[lock][foreign]") {
  const std::string text = GENERATE("", "{\"v\":1,\"host\":", "{\"v\":9,\"shape\":[]}\n");
  Project at("owner/a", text);
  CHECK(at.lock.lock(uid("b"), some_record()).outcome == Outcome::contended);
  CHECK(at.lock.unlock(uid("a")).outcome == Outcome::released);
  CHECK_FALSE(bfs::exists(at.path));
}
