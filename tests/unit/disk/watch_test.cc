#include "disk/watch.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <deque>
#include <thread>

#include "base/clock.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using disk::Watch;
namespace bfs = boost::filesystem;
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

namespace {

std::ptrdiff_t open_files() {
  return std::distance(bfs::directory_iterator("/proc/self/fd"), bfs::directory_iterator());
}

}  // namespace

TEST_CASE("a watch opens one descriptor for a process and at most 32 in all", "[disk][watch]") {
  const bool is_one = GENERATE(true, false);
  std::deque<Process> processes;
  for (int i = 0; i < (is_one ? 1 : 40); ++i) processes.emplace_back(kSleeper);
  const auto before = open_files();
  Watch watch;
  for (int i = 0; i < 3; ++i) {
    for (const Process& process : processes) watch.on_exit(process.pid());
  }
  CHECK(open_files() - before == (is_one ? 1 : 32));
  CHECK(watch.is_blind() == !is_one);  // the others have to be looked at
  processes.front().signal(SIGKILL);
  CHECK(watch.wait(20s, -1) == Woken::ended);
}

TEST_CASE("a watch leaves descriptors to others where there are few", "[disk][watch]") {
  std::deque<Process> processes;
  for (int i = 0; i < 40; ++i) processes.emplace_back(kSleeper);
  rlimit old{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &old) == 0);
  const rlimit few{48, old.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const auto before = open_files();
  Watch watch;
  for (const Process& process : processes) watch.on_exit(process.pid());
  const auto after = open_files();
  CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
  CHECK(after - before == 12);
  CHECK(watch.is_blind());
}

TEST_CASE("what is on another filesystem than the first is not taken for local", "[disk][watch]") {
  const TempDir dir;
  Watch watch;
  watch.on_removal(dir / ".");
  if (watch.is_blind()) SKIP_TEST("no local filesystem");
  watch.on_removal("/proc/self/status");
  CHECK(watch.is_blind());
}

TEST_CASE("a folder that is replaced while somebody has it open is told of", "[disk][watch]") {
  const bool is_removed_first = GENERATE(true, false);
  const TempDir dir;
  bfs::create_directories(dir / "lock/owner");
  bfs::create_directories(dir / "lock/build/owner");
  disk::Handle open;
  REQUIRE_FALSE(disk::posix().open_dir(disk::Path(dir / "lock/owner"), open));
  Watch watch;
  watch.on_departure(dir / "lock/owner");
  if (watch.is_blind()) SKIP_TEST("no local filesystem");
  if (is_removed_first) bfs::remove(dir / "lock/owner");
  bfs::create_directory(dir / "lock/in_use");
  bfs::remove(dir / "lock/in_use");
  CHECK(watch.wait(1ms, -1) == Woken::late);
  bfs::rename(dir / "lock/build/owner", dir / "lock/owner");
  CHECK(watch.wait(20s, -1) == Woken::changed);
}

TEST_CASE("whoever closes its watches behind it starts no process, so that none is left unreaped",
          "[disk][watch]") {
  const TempDir dir;
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);  // orphans come to us, and we do not reap
  const pid_t program = fork();
  if (program == 0) {
    {
      Watch watch;
      watch.on_removal(dir / ".");
    }
    Watch::close_behind();
    _exit(0);
  }
  int status = -1;
  REQUIRE(waitpid(program, &status, 0) == program);
  CHECK(status == 0);
  CHECK(waitpid(-1, nullptr, __WALL | WNOHANG) == -1);
  CHECK(errno == ECHILD);
  REQUIRE(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

TEST_CASE("what was closed behind is closed in the end, and watches can be had again",
          "[disk][watch]") {
  const TempDir dir;
  Watch::close_behind();  // of other cases
  const auto before = open_files();
  for (int i = 0; i < 3; ++i) {
    Watch watch;
    watch.on_departure(dir / ".");
    if (watch.is_blind()) SKIP_TEST("no local filesystem");
    write_file(dir / "file", "");
    bfs::remove(dir / "file");
    CHECK(watch.wait(20s, -1) == Woken::changed);
    watch.clear();
    Watch::close_behind();
    CHECK(open_files() == before);
  }
}
