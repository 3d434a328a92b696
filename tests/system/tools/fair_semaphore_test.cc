/// fair_semaphore as a shell user meets it.

#include <algorithm>
#include <csignal>
#include <memory>

#include "session.h"

using namespace holdfast::testing;

namespace {

std::string uid_of(const Session& at, const Process& process) {
  const std::string out = at.run({"local_id", "uid", process.pid_text()}).out;
  return out.substr(0, out.find('\n'));
}

/// Waits in the background until the end of its scope.
struct Waiting {
  Waiting(const Session& at, const std::vector<std::string>& words) : process(words, in(at)) {
    const std::string pid = words.back();
    REQUIRE(eventually([&] {
      return at.run({"fair_semaphore", "queue", "S"}).out.find(" " + pid + ":") !=
             std::string::npos;
    }));
  }
  static RunOptions in(const Session& at) {
    RunOptions options;
    options.cwd = at.path("");
    return options;
  }
  Process process;
};

std::size_t permits(const Session& at) {
  const std::string out = at.run({"semaphore", "-l", "owners", "S"}).out;
  return static_cast<std::size_t>(std::count(out.begin(), out.end(), '\n'));
}

}  // namespace

TEST_CASE("fair_semaphore lets in as many as there are permits", "[e2e][fair]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper), c(kSleeper);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2", a.pid_text()}) == kSilentYes);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2", b.pid_text()}) == kSilentYes);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2", c.pid_text()}) == kSilentNo);
  CHECK(at.run({"semaphore", "-l", "acquire", "S", "2", c.pid_text()}).code == 1);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2", a.pid_text()}).code == 20);
  CHECK(at.run({"fair_semaphore", "release", "S", a.pid_text()}) == kSilentYes);
  CHECK(at.run({"semaphore", "-l", "acquire", "S", "2", c.pid_text()}).code == 0);
  CHECK(at.run({"fair_semaphore", "release", "S", a.pid_text()}).code == 19);
  CHECK(at.run({"fair_semaphore", "release", "S", uid_of(at, b)}) == kSilentYes);
  CHECK(at.run({"fair_semaphore", "release", "S", c.pid_text()}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("several permits are had at once or not at all", "[e2e][fair]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper);
  CHECK(at.run({"fair_semaphore", "--permits", "2", "acquire", "S", "3", a.pid_text()}).code == 0);
  CHECK(permits(at) == 2);
  CHECK(at.run({"fair_semaphore", "--permits", "2", "acquire", "S", "3", b.pid_text()}).code == 1);
  CHECK(permits(at) == 2);
  CHECK(at.run({"fair_semaphore", "--permits", "1", "release", "S", a.pid_text()}).code == 0);
  CHECK(at.run({"fair_semaphore", "--permits", "2", "acquire", "S", "3", b.pid_text()}).code == 0);
  CHECK(at.run({"fair_semaphore", "--permits", "2", "release", "S", a.pid_text()}).code == 19);
  CHECK(permits(at) == 3);
  CHECK(at.run({"fair_semaphore", "release", "S", b.pid_text()}).code == 0);
  CHECK(permits(at) == 1);
}

TEST_CASE("who wants many permits is not overtaken by those who want few", "[e2e][fair]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper), many(kSleeper), few(kSleeper);
  REQUIRE(at.run({"fair_semaphore", "acquire", "S", "2", a.pid_text()}).code == 0);
  REQUIRE(at.run({"fair_semaphore", "acquire", "S", "2", b.pid_text()}).code == 0);
  const Waiting first(at, {"fair_semaphore", "--wait", "60", "--permits", "2", "acquire", "S", "2",
                           many.pid_text()});
  const Waiting second(at, {"fair_semaphore", "--wait", "60", "acquire", "S", "2", few.pid_text()});
  REQUIRE(at.run({"fair_semaphore", "release", "S", a.pid_text()}).code == 0);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2", a.pid_text()}).code == 1);
  REQUIRE(at.run({"fair_semaphore", "release", "S", b.pid_text()}).code == 0);
  CHECK(eventually([&] {
    return at.run({"fair_semaphore", "slot", "S", many.pid_text()}).out == "1\n2\n";
  }));
  CHECK(at.run({"fair_semaphore", "slot", "S", few.pid_text()}).out.empty());
  REQUIRE(at.run({"fair_semaphore", "release", "S", many.pid_text()}).code == 0);
  CHECK(eventually([&] {
    return !at.run({"fair_semaphore", "slot", "S", few.pid_text()}).out.empty();
  }));
}

TEST_CASE("whoever stops waiting gives back the permits it had so far", "[e2e][fair]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper), many(kSleeper);
  REQUIRE(at.run({"fair_semaphore", "acquire", "S", "2", a.pid_text()}).code == 0);
  REQUIRE(at.run({"fair_semaphore", "acquire", "S", "2", b.pid_text()}).code == 0);
  auto waiter = std::make_unique<Waiting>(
      at, std::vector<std::string>{"fair_semaphore", "--wait", "60", "--permits", "2", "acquire",
                                   "S", "2", many.pid_text()});
  REQUIRE(at.run({"fair_semaphore", "release", "S", a.pid_text()}).code == 0);
  REQUIRE(eventually([&] { return permits(at) == 2; }));  // it took the one that became free
  waiter->process.signal(SIGTERM);
  CHECK(waiter->process.wait() == 128 + SIGTERM);
  CHECK(permits(at) == 1);
  CHECK(at.run({"fair_semaphore", "queue", "S"}).out.empty());
}

TEST_CASE("permits of the dead and places of the dead are recovered", "[e2e][fair]") {
  const Session at;
  const Process next(kSleeper), alive(kSleeper);
  {
    const Process a(kSleeper), b(kSleeper);
    REQUIRE(at.run({"fair_semaphore", "--permits", "2", "acquire", "S", "2", a.pid_text()}).code ==
            0);
    const Waiting waits(at, {"fair_semaphore", "--wait", "60", "acquire", "S", "2", b.pid_text()});
    waits.process.signal(SIGKILL);
  }
  CHECK(at.run({"fair_semaphore", "stale", "S"}).out == "1\n2\n");
  CHECK(at.run({"fair_semaphore", "--permits", "2", "acquire", "S", "2", next.pid_text()}).code ==
        0);
  CHECK(at.run({"fair_semaphore", "queue", "S"}).out.empty());
  CHECK(at.run({"fair_semaphore", "clean", "S"}).code == 1);
  REQUIRE(at.run({"fair_semaphore", "release", "S", next.pid_text()}).code == 0);
  CHECK(at.tree().empty());
}

TEST_CASE("numbers that make no sense are refused with 10 and nothing is left", "[e2e][fair]") {
  const Session at;
  const Process a(kSleeper);
  const std::string pid = a.pid_text();
  for (const char* max : {"-1", "x", "", "1000001", "99999999999999999999", "1.5", " 1"}) {
    INFO(max);
    CHECK(at.run({"fair_semaphore", "acquire", "S", max, pid}).code == 10);
  }
  for (const char* permits : {"0", "-1", "x", "3"}) {
    INFO(permits);
    CHECK(at.run({"fair_semaphore", "--permits", permits, "acquire", "S", "2", pid}).code == 10);
  }
  CHECK(at.run({"fair_semaphore", "acquire", "S", "0", pid}).code == 1);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2", "999999999"}).code == 20);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "2"}).code == 10);
  CHECK(at.tree().empty());
}
