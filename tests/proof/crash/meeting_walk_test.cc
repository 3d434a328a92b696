#include <catch2/catch.hpp>

#include "walk.h"

using namespace holdfast::testing;

TEST_CASE("a rival at any moment of a lock leaves one holder and both know who", "[crash][meet]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  walk_meetings(free_locks().front(), ":", Rival::comes);
  walk_meetings(recoveries().front(), ":", Rival::comes);
}

TEST_CASE("a clean at any moment of a lock leaves one holder and both know who", "[crash][meet]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  const auto rival = GENERATE(Rival::comes, Rival::stays_away);
  walk_meetings(free_locks().front(), tool("fast_lock") + " --older-than 0 clean \"$LOCK\"", rival);
}

// What an unchecked clean_stale_ids of the shell does, and a user with rm.
TEST_CASE("a proposal emptied in place at any moment of a lock lets no two in", "[crash][meet]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  const auto rival = GENERATE(Rival::comes, Rival::stays_away);
  walk_meetings(free_locks().front(), "rm -f \"$LOCK\"/build/*/owner/*", rival);
  walk_meetings(free_locks().front(), "rm -rf \"$LOCK\"/build", rival);
}
