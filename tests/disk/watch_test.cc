#include "disk/watch.h"

#include <catch2/catch.hpp>
#include <csignal>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using disk::Watch;
using Woken = Watch::Woken;

TEST_CASE("the end of a process is told once, however long nobody reaps it", "[disk][watch]") {
  Process child(kSleeper);
  Watch watch;
  watch.on_exit(child.pid());
  CHECK_FALSE(watch.is_blind());
  CHECK(watch.wait(1ms, -1) == Woken::late);
  child.signal(SIGKILL);
  CHECK(watch.wait(20s, -1) == Woken::ended);
  watch.clear();
  watch.on_exit(child.pid());
  CHECK(watch.is_blind());
  CHECK(watch.wait(1ms, -1) == Woken::late);
}

TEST_CASE("what is on another filesystem than the first is not taken for local", "[disk][watch]") {
  const TempDir dir;
  Watch watch;
  watch.on_removal(dir / ".");
  if (watch.is_blind()) SKIP_TEST("no local filesystem");
  watch.on_removal("/proc/self/status");
  CHECK(watch.is_blind());
}
