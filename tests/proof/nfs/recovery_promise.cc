/// Holders that are gone, and servers that were.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>

#include "holder.h"
#include "host.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

void restart_server() {
  CHECK(run({"busybox", "sh", std::getenv("NFS_GUEST"), "restart"}).code == 0);
}

/// Of all hosts and of the server: they are one kernel.
void lose_caches() {
  CHECK(shell("sync; echo 3 > /proc/sys/vm/drop_caches").code == 0);
}

const LockerTool kFastLock = locker_tools().front();

/// Of every tool: a lock that is held through it is held as before, and can be given up.
void check_outlives(const std::string& name, void (*event)()) {
  std::vector<std::unique_ptr<Holder>> holders;
  for (const LockerTool& locker : locker_tools()) {
    for (const std::size_t host : {0, 1}) {
      holders.push_back(std::make_unique<Holder>(hosts()[host], locker, name + "." + locker.name));
    }
    CHECK(holders.end()[-2]->does("lock") == 0);
  }
  event();
  for (std::size_t i = 0; i < holders.size(); i += 2) {
    Holder& one = *holders[i];
    Holder& two = *holders[i + 1];
    INFO(one.leaf());
    CHECK(two.does("lock") == 1);
    CHECK(two.owner() == one.leaf());
    CHECK(one.does("is_mine") == 0);
    CHECK(one.does("unlock") == 0);
    CHECK(two.does("lock") == 0);
    CHECK(two.does("unlock") == 0);
  }
}

}  // namespace

TEST_CASE("a dead id is cleaned on another host and the next attempt anywhere gets the lock",
          "[nfs][recovery]") {
  const std::string lock = "dead";
  Holder dead(hosts()[0], kFastLock, lock);
  Holder cleaner(hosts()[1], kFastLock, lock);
  Holder next(hosts()[2], kFastLock, lock);
  CHECK(cleaner.owner() == "");  // so that its client believes there is none
  CHECK(dead.does("lock") == 0);
  dead.die();
  CHECK(next.does("lock") == 1);
  CHECK(cleaner.host().run({"fast_lock", "clean_stale_ids", on_hosts(lock), dead.leaf()}).code ==
        0);
  CHECK(next.does("lock") == 0);
  CHECK(next.does("unlock") == 0);
  CHECK(tree(on_server(lock)) == Words{});
}

TEST_CASE("who cannot ask another host never frees what it holds", "[nfs][recovery]") {
  for (const LockerTool& locker : locker_tools()) {
    if (locker.recovering.empty()) continue;
    INFO(locker.name);
    const std::string lock = "foreign." + locker.name;
    Holder dead(hosts()[0], locker, lock);
    Holder neighbour(hosts()[0], locker, lock);
    Holder stranger(hosts()[1], locker, lock);
    REQUIRE(stranger.leaf() != dead.leaf());
    CHECK(dead.does("lock") == 0);
    CHECK(stranger.does("lock") == 1);
    dead.die();
    CHECK(stranger.does("lock") == 1);
    CHECK(stranger.says("is_stale") >= 10);
    CHECK(stranger.says("clean") == 1);
    CHECK(stranger.owner() == dead.leaf());
    CHECK(tree(on_server(lock) + "/owner") == Words{dead.leaf()});

    CHECK(neighbour.does(locker.recovering) == 0);  // it knows
    CHECK(stranger.does("lock") == 1);
    CHECK(neighbour.does("unlock") == 0);
    CHECK(stranger.does("lock") == 0);
    CHECK(stranger.does("unlock") == 0);
  }
}

TEST_CASE("a lock outlives a restart of the server and can be given up afterwards",
          "[nfs][restart]") {
  check_outlives("restart", restart_server);
}

TEST_CASE("a lock outlives a loss of all caches and can be given up afterwards", "[nfs][caches]") {
  check_outlives("caches", lose_caches);
}
