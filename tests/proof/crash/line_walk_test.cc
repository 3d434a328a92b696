#include "line_walk.h"

#include <catch2/catch.hpp>

using namespace holdfast::testing;

namespace {

// Some of the errors there are: tests/proof/walk has the rest, at every call of the same classes.
const std::vector<std::string> kLost = {"lost:ENOENT", "lost:EEXIST"};
const std::vector<std::string> kFail = {"fail:ENOSPC", "fail:EIO"};

void kill_all(const std::vector<LineScenario>& scenarios) {
  for (const LineScenario& scenario : scenarios) walk_line_kills(scenario);
}

void fault_all(const std::vector<LineScenario>& scenarios, const std::vector<std::string>& modes) {
  for (const LineScenario& scenario : scenarios) {
    for (const std::string& mode : modes) {
      walk_line_faults(scenario, mode);
      if (scenario.is_slow) break;
    }
  }
}

std::vector<LineScenario> quick(std::vector<LineScenario> scenarios) {
  std::erase_if(scenarios, [](const LineScenario& scenario) { return scenario.is_slow; });
  return scenarios;
}

const LineScenario& named(const std::vector<LineScenario>& scenarios, const std::string& name) {
  for (const LineScenario& scenario : scenarios) {
    if (scenario.name == name) return scenario;
  }
  throw std::runtime_error("no scenario is called " + name);
}

}  // namespace

TEST_CASE("rw_lock and fair_lock killed at any system call keep nobody out for good",
          "[crash][line][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  kill_all(line_locks());
  kill_all(line_cleanings());
}

TEST_CASE("a change or unlock of an rw_lock killed at any system call is done or not",
          "[crash][line][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  kill_all(line_changes());
  kill_all(line_unlocks());
}

TEST_CASE("one who waits in line killed at any change holds up nobody", "[crash][line][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  kill_all(line_waits());
}

TEST_CASE("fair_semaphore killed at any system call loses no permit for good",
          "[crash][line][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  kill_all(permit_scenarios());
}

TEST_CASE("multi_lock killed at any system call keeps nobody out for good", "[crash][line][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  kill_all(several_scenarios());
}

TEST_CASE("rw_lock and fair_lock with a lost reply tell the truth", "[crash][line][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(line_locks(), kLost);
  fault_all(line_changes(), kLost);
  fault_all(line_unlocks(), kLost);
  fault_all(line_cleanings(), kLost);
}

TEST_CASE("rw_lock and fair_lock with a failing call tell the truth", "[crash][line][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(line_locks(), kFail);
  fault_all(line_changes(), kFail);
  fault_all(line_unlocks(), kFail);
  fault_all(line_cleanings(), kFail);
}

TEST_CASE("one who waits in line with a lost reply is told the truth", "[crash][line][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(line_waits(), kLost);
}

TEST_CASE("one who waits in line with a failing call is told the truth", "[crash][line][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(quick(line_waits()), kFail);
}

TEST_CASE("fair_semaphore with a lost reply tells the truth", "[crash][line][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(permit_scenarios(), kLost);
}

TEST_CASE("fair_semaphore with a failing call tells the truth", "[crash][line][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(quick(permit_scenarios()), kFail);
}

TEST_CASE("multi_lock with a lost reply tells the truth", "[crash][line][lost][H5]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(several_scenarios(), kLost);
}

TEST_CASE("multi_lock with a failing call tells the truth", "[crash][line][fail]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  fault_all(several_scenarios(), kFail);
}

TEST_CASE("a rival at any moment of a tool with a line lets no two in that exclude each other",
          "[crash][line][meet]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  const auto locks = line_locks();
  const auto changes = line_changes();
  const auto unlocks = line_unlocks();
  const auto permits = permit_scenarios();
  const auto several = several_scenarios();
  const LineScenario& shared = named(locks, "rw_lock shared");
  const LineScenario& exclusive = named(locks, "rw_lock exclusive");
  const LineScenario& fair = named(locks, "fair_lock lock");
  const LineScenario& upgrade = named(changes, "rw_lock upgrade");
  walk_line_meetings(shared, exclusive);
  walk_line_meetings(shared, shared);
  walk_line_meetings(exclusive, shared);
  walk_line_meetings(fair, fair);
  walk_line_meetings(upgrade, shared);
  walk_line_meetings(upgrade, upgrade);
  walk_line_meetings(named(changes, "rw_lock downgrade"), shared);
  walk_line_meetings(named(unlocks, "rw_lock unlock"), exclusive);
  walk_line_meetings(named(locks, "rw_lock exclusive after two dead sharers"), shared);
  walk_line_meetings(named(permits, "fair_semaphore acquire of two"),
                     named(permits, "fair_semaphore acquire of one"));
  walk_line_meetings(named(several, "multi_lock acquire"), named(several, "multi_lock acquire"));
}
