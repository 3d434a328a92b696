#include "event/child.h"

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <vector>

namespace holdfast::event::testing {
namespace {

using namespace std::chrono_literals;

/// A child that ends with `code` when its end of a pipe is closed or the pipe is written to.
struct Child {
  explicit Child(int code) {
    std::array<int, 2> ends{};
    REQUIRE(::pipe(ends.data()) == 0);
    pid = ::fork();
    if (pid == 0) {
      (void)::close(ends[1]);
      char byte = 0;
      (void)!::read(ends[0], &byte, 1);
      ::_exit(code);
    }
    (void)::close(ends[0]);
    let_go = ends[1];
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { end(); }

  void end() {
    if (let_go >= 0) (void)::close(std::exchange(let_go, -1));
  }

  pid_t pid = -1;
  int let_go = -1;
};

TEST_CASE("a child's exit status comes once, and the child is reaped", "[event]") {
  Loop loop;
  Child child(7);
  std::vector<int> told;
  const ChildWatch watch(loop, child.pid, [&](int status) {
    told.push_back(status);
    loop.stop();
  });
  CHECK(watch.is_good());
  child.end();
  loop.run();
  REQUIRE(told.size() == 1);
  CHECK(WIFEXITED(told[0]));
  CHECK(WEXITSTATUS(told[0]) == 7);
  CHECK(::waitpid(child.pid, nullptr, WNOHANG) == -1);
}

TEST_CASE("a child that was killed is told apart from one that exited", "[event]") {
  Loop loop;
  const Child child(0);
  std::optional<int> told;
  const ChildWatch watch(loop, child.pid, [&](int status) {
    told = status;
    loop.stop();
  });
  REQUIRE(::kill(child.pid, SIGKILL) == 0);
  loop.run();
  REQUIRE(told);
  CHECK(WIFSIGNALED(*told));
  CHECK(WTERMSIG(*told) == SIGKILL);
}

TEST_CASE("a child that had ended before it was watched is still reported", "[event]") {
  Loop loop;
  Child child(3);
  child.end();
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOWAIT) == 0);
  std::optional<int> told;
  const ChildWatch watch(loop, child.pid, [&](int status) {
    told = status;
    loop.stop();
  });
  CHECK_FALSE(told);
  loop.run();
  REQUIRE(told);
  CHECK(WEXITSTATUS(*told) == 3);
}

TEST_CASE("a child that somebody else reaped is reported as unknown", "[event]") {
  Loop loop;
  Child child(3);
  std::optional<int> told;
  const ChildWatch watch(loop, child.pid, [&](int status) {
    told = status;
    loop.stop();
  });
  child.end();
  REQUIRE(::waitpid(child.pid, nullptr, 0) == child.pid);
  loop.run();
  CHECK(told == ChildWatch::kUnknown);
}

TEST_CASE("a dropped watch calls nobody, and may be dropped inside its own call", "[event]") {
  Loop loop;
  Child quiet(0);
  {
    const ChildWatch dropped(loop, quiet.pid, [](int) { FAIL("called after it was dropped"); });
  }
  Child child(0);
  std::unique_ptr<ChildWatch> watch;
  watch = std::make_unique<ChildWatch>(loop, child.pid, [&](int) {
    watch.reset();
    loop.stop();
  });
  quiet.end();
  child.end();
  loop.run();
  CHECK_FALSE(watch);
  CHECK(::waitpid(quiet.pid, nullptr, 0) == quiet.pid);
}

TEST_CASE("a process that does not exist is refused", "[event]") {
  Loop loop;
  const Child child(0);
  REQUIRE(::kill(child.pid, SIGKILL) == 0);
  REQUIRE(::waitpid(child.pid, nullptr, 0) == child.pid);
  const ChildWatch watch(loop, child.pid, [](int) { FAIL("there is no such child"); });
  CHECK_FALSE(watch.is_good());
}

}  // namespace
}  // namespace holdfast::event::testing
