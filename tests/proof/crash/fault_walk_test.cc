#include <catch2/catch.hpp>

#include "walk.h"

using namespace holdfast::testing;

namespace {

void walk_all(const std::vector<Scenario>& scenarios, const std::vector<std::string>& modes) {
  for (const Scenario& scenario : scenarios) {
    for (const std::string& mode : modes) walk_faults(scenario, mode);
  }
}

const std::vector<std::string> kLost = {"lost:ENOENT", "lost:EEXIST", "lost:ESTALE"};
const std::vector<std::string> kFail = {"fail:ENOSPC", "fail:EACCES", "fail:EIO", "fail:EDQUOT"};

}  // namespace

TEST_CASE("lock with a lost reply holds if and only if it said so", "[crash][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(free_locks(), kLost);
}

TEST_CASE("lock with a failing call holds if and only if it said so", "[crash][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(free_locks(), kFail);
}

TEST_CASE("recovery with a lost reply holds if and only if it said so", "[crash][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(recoveries(), kLost);
}

TEST_CASE("recovery with a failing call holds if and only if it said so", "[crash][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(recoveries(), kFail);
}

TEST_CASE("refused lock with a lost reply leaves the holder in place", "[crash][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(refusals(), kLost);
}

TEST_CASE("refused lock with a failing call leaves the holder in place", "[crash][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(refusals(), kFail);
}

TEST_CASE("unlock with a lost reply tells the truth", "[crash][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(unlocks(), kLost);
}

TEST_CASE("unlock with a failing call tells the truth", "[crash][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(unlocks(), kFail);
}

TEST_CASE("clean with a lost reply harms no holder", "[crash][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(cleanings(), kLost);
  walk_all(stale_id_cleanings(), kLost);
}

TEST_CASE("clean with a failing call harms no holder", "[crash][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(cleanings(), kFail);
  walk_all(stale_id_cleanings(), kFail);
}
