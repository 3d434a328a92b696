#include "composite/rw_storage.h"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::composite;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

using Guard = LockTable::Guard;

struct Server {
  TempDir root;
  std::string why;
  std::optional<Holder> self = Holder::this_process(why);
  RwStorage storage{root.path(), *self};
  LockTable table{storage};

  std::string lock(std::int64_t dataset) const { return root / std::to_string(dataset); }
};

}  // namespace

TEST_CASE("a table excludes programs outside, and they exclude it", "[composite][table]") {
  Server server;
  const Process other(kSleeper);
  {
    const auto shared = server.table.lock(7003, Mode::shared);
    REQUIRE(std::holds_alternative<Guard>(shared));
    CHECK(run({"rw_lock", "shared", server.lock(7003), other.pid_text()}).code == 0);
    CHECK(run({"rw_lock", "unlock", server.lock(7003), other.pid_text()}).code == 0);
    CHECK(run({"rw_lock", "exclusive", server.lock(7003), other.pid_text()}).code == 1);
    CHECK(run({"lock_local", "lock", server.lock(7003), other.pid_text()}).code == 1);
  }
  CHECK_FALSE(bfs::exists(server.lock(7003)));
  REQUIRE(run({"rw_lock", "exclusive", server.lock(7003), other.pid_text()}).code == 0);
  const auto refused = server.table.lock(7003, Mode::shared);
  REQUIRE(std::holds_alternative<AlreadyLocked>(refused));
  CHECK_THAT(describe(std::get<AlreadyLocked>(refused)), Catch::Contains(other.pid_text()));
}

TEST_CASE("many holds of one dataset are one leaf on disk", "[composite][table]") {
  Server server;
  auto first = server.table.lock(1, Mode::shared);
  auto second = server.table.lock(1, Mode::shared);
  REQUIRE(std::holds_alternative<Guard>(second));
  CHECK(tree(server.lock(1)).size() == 2);  // owner/ and one leaf
  std::get<Guard>(first).release();
  CHECK(bfs::exists(server.lock(1)));
  std::get<Guard>(second).release();
  CHECK_FALSE(bfs::exists(server.lock(1)));
}

TEST_CASE("a collection that meets a lock from outside is given back whole", "[composite][table]") {
  Server server;
  const Process other(kSleeper);
  REQUIRE(run({"lock_local", "lock", server.lock(3), other.pid_text()}).code == 0);
  const std::int64_t wanted[] = {1, 2, 3, 4};
  CHECK(std::holds_alternative<AlreadyLocked>(server.table.lock(wanted, Mode::exclusive)));
  for (const std::int64_t dataset : {1, 2, 4}) CHECK_FALSE(bfs::exists(server.lock(dataset)));
}

TEST_CASE("a holder that died is recovered by the next table that asks", "[composite][table]") {
  Server server;
  {
    const Process dead(kSleeper);
    REQUIRE(run({"rw_lock", "exclusive", server.lock(5), dead.pid_text()}).code == 0);
  }
  CHECK(std::holds_alternative<Guard>(server.table.lock(5, Mode::exclusive)));
}

TEST_CASE("two tables of one process exclude each other", "[composite][table]") {
  Server server;
  LockTable other(server.storage);
  const auto held = server.table.lock(1, Mode::exclusive);
  CHECK(std::holds_alternative<AlreadyLocked>(other.lock(1, Mode::exclusive)));
}

TEST_CASE("a storage that cannot be written to is a failure and no holder", "[composite][table]") {
  std::string why;
  const auto self = Holder::this_process(why);
  RwStorage storage("/proc/nowhere", *self);
  LockTable table(storage);
  CHECK(std::holds_alternative<StorageFailed>(table.lock(1, Mode::shared)));
}

TEST_CASE("threads on one table and the disk never meet", "[composite][table][race]") {
  Server server;
  std::atomic<int> inside{0};
  std::atomic<int> granted{0};
  std::atomic<int> violations{0};
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < 50; ++turn) {
        const auto answer = server.table.lock(9, Mode::exclusive);
        if (!std::holds_alternative<Guard>(answer)) continue;
        ++granted;
        if (++inside != 1) ++violations;
        --inside;
      }
    });
  }
  threads.clear();
  CHECK(granted > 0);
  CHECK(violations == 0);
  CHECK_FALSE(bfs::exists(server.lock(9)));
}

TEST_CASE("a child does not give up what its parent holds", "[composite][table][fork]") {
  Server server;
  auto held = server.table.lock(1, Mode::exclusive);
  REQUIRE(std::holds_alternative<Guard>(held));
  const pid_t child = fork();
  if (child == 0) {
    std::get<Guard>(held).release();
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  CHECK(bfs::exists(server.lock(1)));
}
