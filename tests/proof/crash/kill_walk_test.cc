#include <catch2/catch.hpp>

#include "walk.h"

using namespace holdfast::testing;

namespace {

void walk_all(const std::vector<Scenario>& scenarios, const std::function<void(Scene&)>& after) {
  for (const Scenario& scenario : scenarios) walk_kills(scenario, after);
}

}  // namespace

TEST_CASE("lock killed at any system call keeps nobody out for good", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(free_locks(), rival_comes);
}

TEST_CASE("lock killed at any system call can be tried again by the same process",
          "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_kills(free_locks().front(), self_locks_again);
  walk_kills(recoveries().front(), self_locks_again);
}

TEST_CASE("recovery killed at any system call is done over by the next one", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(recoveries(), rival_comes);
}

TEST_CASE("refused lock killed at any system call leaves the holder in place", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(refusals(), rival_comes);
}

TEST_CASE("unlock killed at any system call has unlocked or has not", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(unlocks(), rival_comes);
}

TEST_CASE("unlock killed at any system call can be repeated", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_kills(unlocks().front(), self_unlocks_again);
}

TEST_CASE("clean killed at any system call harms no holder and can be repeated", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(cleanings(), rival_comes);
}

TEST_CASE("clean_stale_ids killed at any system call harms no holder", "[crash][kill]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_all(stale_id_cleanings(), rival_comes);
}
