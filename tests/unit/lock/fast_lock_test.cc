#include "lock/fast_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "support/fault_disk.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::lock;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

struct Fixture {
  TempDir dir;
  std::string path = dir / "lock";
  FaultDisk disk;
  FastLock lock{disk, path};

  Outcome take(const std::string& id) { return lock.lock(uid(id), some_record()).outcome; }
  Outcome give(const std::string& id) { return lock.unlock(uid(id)).outcome; }
};

void touch(const std::string& path) {
  write_file(path, "");
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a free lock is taken and leaves exactly its leaf", "[lock]") {
  CHECK(take("a") == Outcome::held);
  CHECK(tree(path) == std::vector<std::string>{"owner/", "owner/a"});
  const auto record = parse_record(read_file(path + "/owner/a"));
  REQUIRE(record);
  CHECK(record->user == "anna");
  CHECK(record->nonce.size() == 32);
}

TEST_CASE_METHOD(Fixture, "a lock and its unlock leave nothing behind", "[lock]") {
  REQUIRE(take("a") == Outcome::held);
  const auto answer = lock.unlock(uid("a"));
  CHECK(answer.outcome == Outcome::released);
  CHECK(answer.is_alone);
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE_METHOD(Fixture,
                 "an uncontended lock costs eight changes and one write and an unlock three",
                 "[lock]") {
  take("a");
  CHECK(disk.changes() == 8 + 1 + 1);  // and the close of what was written
  const int before = disk.changes();
  give("a");
  CHECK(disk.changes() - before == 3);
}

TEST_CASE_METHOD(Fixture, "a second id is refused and leaves no trace", "[lock]") {
  REQUIRE(take("a") == Outcome::held);
  CHECK(take("b") == Outcome::contended);
  CHECK(tree(path) == std::vector<std::string>{"owner/", "owner/a"});
}

TEST_CASE_METHOD(Fixture, "the same id is told that it has the lock already", "[lock]") {
  REQUIRE(take("a") == Outcome::held);
  CHECK(take("a") == Outcome::already_mine);
  CHECK(tree(path) == std::vector<std::string>{"owner/", "owner/a"});
}

TEST_CASE_METHOD(Fixture, "an unlock by one who does not hold changes nothing", "[lock]") {
  CHECK(give("a") == Outcome::not_mine);
  REQUIRE(take("a") == Outcome::held);
  CHECK(give("b") == Outcome::not_mine);
  CHECK(lock.is_mine(uid("a")));
}

TEST_CASE_METHOD(Fixture, "an empty owner folder left by a crash is taken over", "[lock]") {
  bfs::create_directories(path + "/owner");
  CHECK(take("a") == Outcome::held);
}

TEST_CASE_METHOD(Fixture, "missing parents are made", "[lock]") {
  FastLock deep(disk, path + "/x/y/z");
  CHECK(deep.lock(uid("a"), some_record()).outcome == Outcome::held);
  CHECK(bfs::exists(path + "/x/y/z/owner/a"));
}

TEST_CASE_METHOD(Fixture, "a shell made leaf is a holder like any other", "[lock]") {
  bfs::create_directories(path + "/owner");
  touch(path + "/owner/shell");
  CHECK(take("a") == Outcome::contended);
  CHECK(take("shell") == Outcome::already_mine);
  CHECK_FALSE(lock.owner().at(0).record);
  CHECK(give("shell") == Outcome::released);
}

TEST_CASE_METHOD(Fixture, "two leaves are both shown and belong to nobody", "[lock]") {
  bfs::create_directories(path + "/owner");
  touch(path + "/owner/a");
  touch(path + "/owner/b");
  CHECK(lock.owner().size() == 2);
  CHECK_FALSE(lock.is_mine(uid("a")));
  const auto answer = lock.lock(uid("c"), some_record());
  CHECK(answer.outcome == Outcome::contended);
  CHECK_THAT(answer.why, Catch::Contains("2 owners: a b"));
}

TEST_CASE_METHOD(Fixture, "ids in use are holders and proposers once each", "[lock]") {
  REQUIRE(take("b") == Outcome::held);
  bfs::create_directories(path + "/build/a/owner");
  bfs::create_directories(path + "/build/b/owner");
  bfs::create_directories(path + "/build/.gone.x");
  CHECK(lock.ids_in_use() == std::vector{uid("a"), uid("b")});
}

TEST_CASE_METHOD(Fixture, "a dead id is cleaned by its name and nobody else is touched", "[lock]") {
  REQUIRE(take("live") == Outcome::held);
  bfs::create_directories(path + "/build/dead/owner");
  touch(path + "/build/dead/owner/dead");
  const std::vector ids{uid("dead"), uid("gone long ago")};
  lock.clean_stale_ids(ids);
  CHECK(tree(path) == std::vector<std::string>{"owner/", "owner/live"});
}

TEST_CASE_METHOD(Fixture, "a folder leaf is held and released and refuses both kinds", "[lock]") {
  lock.set_leaf_kind(LeafKind::dir);
  REQUIRE(take("a") == Outcome::held);
  CHECK(tree(path) == std::vector<std::string>{"owner/", "owner/a/"});
  CHECK(take("a") == Outcome::already_mine);
  CHECK(FastLock(disk, path).lock(uid("b"), some_record()).outcome == Outcome::contended);
  CHECK(FastLock(disk, path).lock(uid("a"), some_record()).outcome == Outcome::already_mine);
  CHECK(give("a") == Outcome::released);
  CHECK_FALSE(bfs::exists(path));
}

TEST_CASE_METHOD(Fixture, "clean takes what is old or gone and leaves the young", "[lock]") {
  using namespace std::chrono_literals;
  const auto now = std::chrono::system_clock::now();
  bfs::create_directories(path + "/build/p/owner");
  touch(path + "/build/p/owner/p");
  bfs::create_directories(path + "/build/.gone.1");
  touch(path + "/build/.gone.1/q");
  bfs::create_directories(path + "/in_use/r");
  CHECK_FALSE(lock.clean(now, 5s));
  CHECK(tree(path) ==
        std::vector<std::string>{"build/", "build/p/", "build/p/owner/", "build/p/owner/p"});
  CHECK(lock.clean(now + 6s, 5s));
  CHECK_FALSE(bfs::exists(path));
  CHECK(lock.clean(now, 5s));
}

TEST_CASE_METHOD(Fixture, "clean never touches a holder", "[lock]") {
  REQUIRE(take("a") == Outcome::held);
  CHECK_FALSE(lock.clean(std::chrono::system_clock::now() + std::chrono::hours(1),
                         std::chrono::seconds(0)));
  CHECK(lock.is_mine(uid("a")));
}

TEST_CASE_METHOD(Fixture, "a file that NFS left in owner is removed and the lock is taken",
                 "[lock]") {
  bfs::create_directories(path + "/owner");
  touch(path + "/owner/.nfs0000000001");
  CHECK(take("a") == Outcome::held);
  CHECK(tree(path) == std::vector<std::string>{"owner/", "owner/a"});
}

TEST_CASE_METHOD(Fixture, "a planted link leads no write elsewhere", "[lock][security]") {
  const std::string victim = dir / "victim";
  bfs::create_directories(victim + "/owner");
  touch(victim + "/a");
  const auto before = tree(victim);
  bfs::create_directories(path);
  const std::string where = GENERATE("build", "build/a", "build/a/owner", "owner", "owner/a");
  INFO(where);
  bfs::create_directories(bfs::path(path + "/" + where).parent_path());
  bfs::create_symlink(where == "owner/a" ? victim + "/a" : victim, path + "/" + where);
  lock.lock(uid("a"), some_record());
  lock.unlock(uid("a"));
  const std::vector ids{uid("a")};
  lock.clean_stale_ids(ids);
  lock.clean(std::chrono::system_clock::now() + std::chrono::hours(1), std::chrono::seconds(0));
  CHECK(tree(victim) == before);
}

TEST_CASE("a link planted between any two calls leads no write elsewhere", "[lock][security]") {
  for (const std::string where : {"build", "build/a", "build/a/owner"}) {
    for (int at = 0;; ++at) {
      TempDir dir;
      const std::string path = dir / "lock";
      const std::string victim = dir / "victim";
      bfs::create_directories(victim);
      FaultDisk disk;
      disk.before(at, [&] {
        const std::string name = path + "/" + where;
        boost::system::error_code ec;
        bfs::rename(name, dir / "aside", ec);
        if (!ec) bfs::create_symlink(victim, name, ec);
      });
      FastLock(disk, path).lock(uid("a"), some_record());
      INFO(where << " before call " << at << ": " << disk.last_hit());
      CHECK(tree(victim).empty());
      if (!disk.was_hit()) {
        CHECK(at > 10);
        break;
      }
    }
  }
}

TEST_CASE("an emptied proposal never makes a holder", "[lock][H2]") {
  // a cleaner that takes a live id for dead removes the leaf in place, between any two calls of its
  // attempt
  int emptied = 0;
  for (int at = 0;; ++at) {
    TempDir dir;
    const std::string path = dir / "lock";
    FaultDisk disk;
    disk.before(at, [&] { emptied += ::unlink((path + "/build/a/owner/a").c_str()) == 0; });
    const auto answer = FastLock(disk, path).lock(uid("a"), some_record());
    INFO("before call " << at << ": " << disk.last_hit());
    CHECK((answer.outcome == Outcome::held) == bfs::exists(path + "/owner/a"));
    const auto rival = FastLock(disk, path).lock(uid("b"), some_record());
    CHECK((rival.outcome == Outcome::held) == (answer.outcome != Outcome::held));
    if (!disk.was_hit()) break;
  }
  CHECK(emptied >= 2);
}

TEST_CASE("a proposal taken away between any two calls costs an attempt at most", "[lock]") {
  int taken = 0;
  for (int at = 0;; ++at) {
    TempDir dir;
    const std::string path = dir / "lock";
    FaultDisk disk;
    disk.before(at, [&] {
      boost::system::error_code ec;
      bfs::rename(path + "/build/a/owner", path + "/build/.gone.x", ec);
      taken += !ec;
    });
    FastLock lock(disk, path);
    CHECK(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
    CHECK(lock.is_mine(uid("a")));
    if (!disk.was_hit()) break;
  }
  CHECK(taken >= 3);
}

TEST_CASE("of two tasks under one id at most one is told that it holds", "[lock][H3]") {
  // the second one runs whole between any two calls of the first
  const LeafKind kind = GENERATE(LeafKind::file, LeafKind::dir);
  for (int at = 0;; ++at) {
    TempDir dir;
    const std::string path = dir / "lock";
    FaultDisk disk;
    auto second = Outcome::failed;
    disk.before(at, [&] {
      FastLock other(disk::posix(), path);
      other.set_leaf_kind(kind);
      second = other.lock(uid("a"), some_record()).outcome;
    });
    FastLock one(disk, path);
    one.set_leaf_kind(kind);
    const auto first = one.lock(uid("a"), some_record()).outcome;
    INFO("before call " << at << ": " << disk.last_hit());
    CHECK((first == Outcome::held) + (second == Outcome::held) == 1);
    check_invariants(path);
    if (!disk.was_hit()) break;
  }
}

TEST_CASE("folders removed between any two calls do not stop a lock", "[lock][H1]") {
  for (int at = 0;; ++at) {
    TempDir dir;
    const std::string path = dir / "lock";
    FaultDisk disk;
    disk.before(at, [&] {
      for (const std::string folder : {"build/a/owner", "build/a", "build", "owner", ""}) {
        ::rmdir((path + "/" + folder).c_str());
      }
    });
    FastLock lock(disk, path);
    INFO("before call " << at << ": " << disk.last_hit());
    CHECK(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
    CHECK(lock.is_mine(uid("a")));
    if (!disk.was_hit()) break;
  }
}

TEST_CASE("an unlock that lands late removes nothing of the next holder", "[lock]") {
  for (int at = 0;; ++at) {
    TempDir dir;
    const std::string path = dir / "lock";
    FaultDisk disk;
    FastLock lock(disk, path);
    REQUIRE(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
    FastLock rival(disk::posix(), path);
    bool rival_holds = false;
    disk.before(disk.calls() + at, [&] {
      rival_holds = rival.lock(uid("b"), some_record()).outcome == Outcome::held;
    });
    CHECK(lock.unlock(uid("a")).outcome == Outcome::released);
    CHECK(rival_holds == rival.is_mine(uid("b")));
    if (!disk.was_hit()) break;
  }
}

TEST_CASE("an unlock whose reply was lost leaves a later lock of the same id alone",
          "[lock][lost]") {
  for (const int error : {ESTALE, ENOENT, EINTR}) {
    for (int at = 0;; ++at) {
      TempDir dir;
      const std::string path = dir / "lock";
      FaultDisk disk;
      FastLock lock(disk, path);
      REQUIRE(lock.lock(uid("a"), some_record()).outcome == Outcome::held);
      FastLock other(disk::posix(), path);
      bool other_holds = false;
      disk.lose_reply(disk.calls() + at, error);
      disk.before(disk.calls() + at + 1, [&] {
        other_holds = other.lock(uid("a"), some_record()).outcome == Outcome::held;
      });
      lock.unlock(uid("a"));
      INFO("after call " << at << ": " << disk.last_hit());
      if (other_holds) CHECK(other.is_mine(uid("a")));
      if (!disk.was_hit()) break;
    }
  }
}

TEST_CASE("an unlock of one hold leaves another hold of the same id alone", "[lock]") {
  TempDir dir;
  FastLock lock(disk::posix(), dir / "lock");
  const auto first = lock.lock(uid("a"), some_record());
  REQUIRE(lock.unlock_hold(uid("a"), first.nonce).outcome == Outcome::released);
  const auto second = lock.lock(uid("a"), some_record());
  CHECK(lock.unlock_hold(uid("a"), first.nonce).outcome == Outcome::not_mine);
  CHECK_FALSE(lock.is_held_alone(uid("a"), first.nonce));
  CHECK(lock.is_held_alone(uid("a"), second.nonce));
}

namespace {

/// Listings and attributes as they were: what a client of a network filesystem may see for a
/// minute.
class OldView final : public disk::Disk {
 public:
  explicit OldView(std::vector<std::string> owners) : owners_(std::move(owners)) {}

  std::error_code list(const disk::At& at, std::vector<std::string>& names) override {
    if (at.name.find("owner") == std::string::npos) return real_.list(at, names);
    names = owners_;
    return {};
  }
  std::error_code list_kinds(const disk::At& at, std::vector<disk::Entry>& entries) override {
    if (at.name.find("owner") == std::string::npos) return real_.list_kinds(at, entries);
    for (const std::string& name : owners_) entries.push_back({name, disk::Kind::file});
    return {};
  }
  std::error_code status(const disk::At&, disk::Status&) override {
    return std::make_error_code(std::errc::no_such_file_or_directory);
  }
  std::error_code make_dir(const disk::At& at) override { return real_.make_dir(at); }
  std::error_code remove_dir(const disk::At& at) override { return real_.remove_dir(at); }
  std::error_code unlink(const disk::At& at) override { return real_.unlink(at); }
  std::error_code touch(const disk::At& at) override { return real_.touch(at); }
  std::error_code rename(const disk::At& from, const disk::At& to) override {
    return real_.rename(from, to);
  }
  std::error_code create(const disk::At& at, disk::Handle& f) override {
    return real_.create(at, f);
  }
  std::error_code symlink(const std::string& target, const disk::At& at) override {
    return real_.symlink(target, at);
  }
  std::error_code write(disk::Handle& f, std::string_view t) override { return real_.write(f, t); }
  std::error_code close(disk::Handle& f) override { return real_.close(f); }
  std::error_code open_dir(const disk::At& at, disk::Handle& d) override {
    return real_.open_dir(at, d);
  }
  std::error_code open_file(const disk::At& at, disk::Handle& f) override {
    return real_.open_file(at, f);
  }
  std::error_code read(disk::Handle& f, std::string& t, std::size_t limit) override {
    return real_.read(f, t, limit);
  }
  std::error_code read_link(const disk::At& at, std::string& t) override {
    return real_.read_link(at, t);
  }
  std::error_code flock(const disk::Handle& d, Share share) override {
    return real_.flock(d, share);
  }

 private:
  disk::Disk& real_ = disk::posix();
  std::vector<std::string> owners_;
};

}  // namespace

TEST_CASE("an old listing neither lets in nor keeps out", "[lock][H7]") {
  TempDir dir;
  const std::string path = dir / "lock";
  FastLock real(disk::posix(), path);
  OldView shows_old_owner({"long gone"});
  CHECK(FastLock(shows_old_owner, path).lock(uid("a"), some_record()).outcome == Outcome::held);
  CHECK(real.is_mine(uid("a")));
  OldView shows_nobody({});
  CHECK(FastLock(shows_nobody, path).lock(uid("b"), some_record()).outcome != Outcome::held);
  CHECK(real.is_mine(uid("a")));
}

TEST_CASE("a rename across filesystems is an error and never a copy", "[lock][H15]") {
  TempDir dir;
  FaultDisk counting;
  FastLock(counting, dir / "x").lock(uid("a"), some_record());
  bool seen = false;
  for (int at = 0; at < counting.calls(); ++at) {
    FaultDisk disk;
    disk.fail(at, EXDEV);
    FastLock lock(disk, dir / "lock");
    const auto answer = lock.lock(uid("a"), some_record());
    if (disk.last_hit() != "rename owner to ../owner") {
      lock.unlock(uid("a"));
      continue;
    }
    seen = true;
    CHECK(answer.outcome == Outcome::cross_device);
    CHECK_FALSE(bfs::exists(dir / "lock"));
  }
  CHECK(seen);
}

TEST_CASE("many threads on one lock never meet inside", "[lock][race]") {
  TempDir dir;
  const std::string path = dir / "lock";
  std::atomic<int> inside{0};
  std::atomic<int> violations{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      FastLock lock(disk::posix(), path);
      const Uid id = uid("t" + std::to_string(t));
      for (int done = 0; done < 200;) {
        if (lock.lock(id, some_record()).outcome != Outcome::held) continue;
        if (++inside != 1) ++violations;
        --inside;
        lock.unlock(id);
        ++done;
      }
    });
  }
  threads.clear();
  CHECK(violations == 0);
  CHECK_FALSE(bfs::exists(path));
}
