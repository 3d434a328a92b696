#include "composite/guard.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

using namespace holdfast;
using namespace holdfast::composite;

namespace {

/// Counts how often it is released; answers as it is told.
struct Counted final : Held {
  int& releases;
  lock::Outcome& answer;
  Counted(int& count, lock::Outcome& outcome) : releases(count), answer(outcome) {}
  lock::Outcome release() override {
    ++releases;
    return answer;
  }
  bool is_held() const override { return true; }
};

struct Scene {
  int releases = 0;
  lock::Outcome answer = lock::Outcome::released;
  Guard guard() { return Guard(std::make_unique<Counted>(releases, answer)); }
};

}  // namespace

TEST_CASE("a composite guard releases once, at the end of its scope or before", "[composite]") {
  Scene scene;
  { const Guard guard = scene.guard(); }
  CHECK(scene.releases == 1);
  {
    Guard guard = scene.guard();
    CHECK(guard.release());
    CHECK_FALSE(guard.release());
    CHECK_FALSE(guard.is_held());
  }
  CHECK(scene.releases == 2);
}

TEST_CASE("a moved composite guard leaves its place empty", "[composite]") {
  Scene first;
  Scene second;
  Guard a = first.guard();
  {
    Guard b = second.guard();
    a = std::move(b);
    CHECK(first.releases == 1);
    CHECK(a.is_held());
  }
  CHECK(second.releases == 0);
}

TEST_CASE("a composite guard that the disk refused can be released again", "[composite]") {
  Scene scene;
  scene.answer = lock::Outcome::failed;
  Guard guard = scene.guard();
  CHECK_FALSE(guard.release());
  CHECK(guard.is_held());
  scene.answer = lock::Outcome::released;
  CHECK(guard.release());
}

TEST_CASE("a composite guard does nothing in a child of a fork", "[composite]") {
  Scene scene;
  Guard guard = scene.guard();
  const pid_t child = fork();
  if (child == 0) {
    const bool holds = guard.is_held() || guard.release();
    _exit(holds || scene.releases != 0 ? 1 : 0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
  CHECK(guard.release());
}
