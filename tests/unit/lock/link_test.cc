/// Links planted under every name of the layout, by somebody who may write to a lock directory.

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "disk/disk.h"
#include "lock/fast_lock.h"
#include "lock/tickets.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::lock;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

const Uid kId = uid("a");

/// A directory that looks like a lock in every part, so that whoever follows a link to it or to one
/// of its parts finds something to remove.
struct Victim {
  explicit Victim(std::string at) : path(std::move(at)) {
    for (const std::string& name : Layout::every_name(kId)) {
      const bfs::path file = path + "/" + name;
      bfs::create_directories(file);
    }
    for (const char* file : {"owner/b", "build/b/owner/b", ".queue/0000000001.w.b", "a"}) {
      bfs::create_directories(bfs::path(path + "/" + file).parent_path());
      write_file(path + "/" + file, "");
    }
  }
  std::string path;
};

/// All that a lock does below its directory.
void use(const disk::SafePath& path) {
  FastLock lock(disk::posix(), path);
  for (const Mode mode : {Mode::exclusive, Mode::shared}) {
    (void)lock.lock(kId, some_record(), mode);
    (void)lock.marks().make(kId);
    (void)lock.marks().renew(kId);
    FastLock right = lock.right_to_upgrade();
    (void)right.lock(kId, some_record());
    (void)lock.upgrade(kId, some_record());
    (void)lock.downgrade(kId, some_record());
    (void)right.unlock(kId);
    Tickets tickets(disk::posix(), Layout(path));
    std::error_code ec;
    if (const auto ticket = tickets.take(kId, mode, "", ec)) {
      tickets.renew(*ticket);
      (void)tickets.remove(*ticket);
    }
    (void)tickets.remove(Ticket{1, Mode::exclusive, kId});
    tickets.sweep(std::chrono::system_clock::now() + std::chrono::hours(1));
    lock.marks().remove(kId);
    (void)lock.unlock(kId);
  }
  const Uid ids[] = {kId, uid("b")};
  for (FastLock one : {lock, lock.right_to_upgrade()}) {
    one.clean_stale_ids(ids);
    boost::system::error_code ec;
    try {
      (void)one.clean(std::chrono::system_clock::now() + std::chrono::hours(1),
                      std::chrono::seconds(0));
    } catch (const std::system_error&) {  // it cannot be looked into
    }
  }
}

}  // namespace

TEST_CASE("a link under any name of a lock directory leads no change elsewhere",
          "[lock][security]") {
  const TempDir dir;
  std::size_t links = 0;
  for (const std::string& name : Layout::every_name(kId)) {
    for (const std::string& target : {std::string(), "/" + name}) {
      const Victim victim(dir / ("victim" + std::to_string(links)));
      const auto before = tree(victim.path);
      const std::string path = dir / ("lock" + std::to_string(links++));
      bfs::create_directories(bfs::path(path + "/" + name).parent_path());
      bfs::create_symlink(victim.path + target, path + "/" + name);
      use(path);
      INFO("the link " << name << " to " << (target.empty() ? "the root" : target));
      CHECK(tree(victim.path) == before);
    }
  }
  CHECK(links > 40);
}

TEST_CASE("a lock below a typed directory is not followed if it is a link", "[lock][security]") {
  const TempDir dir;
  const Victim victim(dir / "victim");
  const auto before = tree(victim.path);
  bfs::create_directories(dir / "sem");
  bfs::create_symlink(victim.path, dir / "sem/1");
  use(disk::SafePath(dir / "sem") / "1");
  CHECK(tree(victim.path) == before);
  CHECK(
      FastLock(disk::posix(), disk::SafePath(dir / "sem") / "1").lock(kId, some_record()).outcome ==
      Outcome::failed);
}

TEST_CASE("the path that the user typed may be a link", "[lock]") {
  const TempDir dir;
  bfs::create_directories(dir / "real");
  bfs::create_symlink(dir / "real", dir / "link");
  FastLock lock(disk::posix(), dir / "link");
  REQUIRE(lock.lock(kId, some_record()).outcome == Outcome::held);
  CHECK(bfs::exists(dir / "real/owner/a"));
  CHECK(lock.unlock(kId).outcome == Outcome::released);
}
