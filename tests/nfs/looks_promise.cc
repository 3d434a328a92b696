/// What one host sees of another's lock, and when.
#include <catch2/catch.hpp>
#include <thread>

#include "holder.h"
#include "host.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

LockerTool each_tool() {
  return GENERATE(from_range(locker_tools()));
}

}  // namespace

TEST_CASE("the first attempt after an unlock on another host gets the lock", "[nfs][looks]") {
  const LockerTool locker = each_tool();
  INFO(locker.name);
  const std::string lock = "first." + locker.name;
  Holder one(hosts()[0], locker, lock);
  Holder two(hosts()[1], locker, lock);
  for (int round = 0; round < 3; ++round) {
    INFO("round " << round);
    CHECK(one.does("lock") == 0);
    CHECK(two.does("lock") == 1);
    CHECK(two.owner() == one.leaf());
    CHECK(one.does("unlock") == 0);
    CHECK(two.does("lock") == 0);
    CHECK(one.does("lock") == 1);
    CHECK(one.owner() == two.leaf());
    CHECK(two.does("unlock") == 0);
  }
  CHECK(tree(on_server(lock)) == Words{});
}

TEST_CASE("a host that looked in vain before gets the true answer", "[nfs][looks]") {
  const LockerTool locker = each_tool();
  const bool has_folder = GENERATE(false, true);
  INFO(locker.name << (has_folder ? " with" : " without")
                   << " a folder of the lock at the first look");
  const std::string lock = "vain." + locker.name + (has_folder ? ".there" : "");
  Holder one(hosts()[0], locker, lock);
  Holder two(hosts()[1], locker, lock);
  Holder three(hosts()[2], locker, lock);
  if (has_folder) one.host().run({"mkdir", "-p", on_hosts(lock) + "/build/somebody"});
  CHECK(two.owner() == "");
  CHECK(three.owner() == "");
  CHECK(one.does("lock") == 0);
  CHECK(two.owner() == one.leaf());
  CHECK(three.does("lock") == 1);
  CHECK(two.does("is_mine") == 1);
  CHECK(one.does("unlock") == 0);
  CHECK(two.owner() == "");
  CHECK(three.does("lock") == 0);
  CHECK(one.owner() == three.leaf());
  CHECK(three.does("unlock") == 0);
}
