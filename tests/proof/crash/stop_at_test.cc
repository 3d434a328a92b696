/// The helper that all walks lean on.
#include <sys/stat.h>

#include <catch2/catch.hpp>

#include "walk.h"

using namespace holdfast::testing;

namespace {

/// A folder, another one made in a child, and a file: created and closed.
Words four_changes(const TempDir& dir) {
  return {"/bin/sh", "-c", "cd " + dir.path() + " && mkdir a && (mkdir b) && : > c"};
}

std::vector<std::string> left_after(long call, const std::string& mode, int& code) {
  const TempDir dir;
  code = stop_at(call, "fs", mode, four_changes(dir)).code;
  return tree(dir.path());
}

}  // namespace

TEST_CASE("stop_at counts changes over children too and nothing else", "[crash][stop_at]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  const TempDir dir;
  const Stop stop = stop_at(0, "fs", "kill", four_changes(dir));
  CHECK_FALSE(stop.was_hit);
  CHECK(stop.number == 4);
  CHECK(stop.code == 0);
  CHECK(stop_at(0, "all", "kill", {"/bin/true"}).number > 10);
}

TEST_CASE("stop_at kills before the call takes effect", "[crash][stop_at]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  using Names = std::vector<std::string>;
  int code = 0;
  CHECK(left_after(1, "kill", code).empty());
  CHECK(code == 137);
  CHECK(left_after(2, "kill", code) == Names{"a/"});
  CHECK(left_after(3, "kill", code) == Names{"a/", "b/"});
  CHECK(left_after(5, "kill", code) == Names{"a/", "b/", "c"});
  CHECK(code == 0);
}

TEST_CASE("stop_at makes a call whose reply is lost and none that fails", "[crash][stop_at]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  using Names = std::vector<std::string>;
  int code = 0;
  CHECK(left_after(2, "lost:EIO", code) == Names{"a/", "b/"});
  CHECK(code == 1);
  CHECK(left_after(2, "fail:EIO", code) == Names{"a/"});
  CHECK(code == 1);
}
