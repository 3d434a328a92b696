#include "identity/command_id.h"

#include <csignal>

#include "scene.h"

using namespace holdfast;
using namespace holdfast::identity;
using namespace holdfast::testing;

namespace {

Verdict ask(std::vector<std::string> words, const std::string& id = "1:2:3") {
  return CommandId(std::move(words)).check(Uid::found(id), std::nullopt);
}

/// What a parent did about SIGCHLD, put back at the end of the scope.
class ChildSignal {
 public:
  explicit ChildSignal(void (*handler)(int)) : before_(std::signal(SIGCHLD, handler)) {}
  ChildSignal(const ChildSignal&) = delete;
  ChildSignal& operator=(const ChildSignal&) = delete;
  ~ChildSignal() { std::signal(SIGCHLD, before_); }

  static bool is_ignored() {
    struct sigaction now {};
    sigaction(SIGCHLD, nullptr, &now);
    return now.sa_handler == SIG_IGN;
  }

 private:
  void (*before_)(int);
};

}  // namespace

TEST_CASE("only status 0 of a checker means dead", "[identity]") {
  const auto [status, life] = GENERATE(table<int, Life>({
      {0, Life::dead},
      {1, Life::alive},
      {2, Life::alive},
      {9, Life::alive},
      {10, Life::unknown},
      {13, Life::unknown},
      {126, Life::unknown},
      {127, Life::unknown},
      {255, Life::unknown},
  }));
  CAPTURE(status);
  const Verdict verdict = ask({"/bin/sh", "-c", "exit " + std::to_string(status)});
  CHECK(verdict.life == life);
  CHECK(verdict.code == status);
}

TEST_CASE("a checker that was killed tells nothing", "[identity]") {
  const auto [name, status] =
      GENERATE(table<std::string, int>({{"KILL", 137}, {"TERM", 143}, {"SEGV", 139}}));
  const Verdict verdict = ask({"/bin/sh", "-c", "kill -" + name + " $$"});
  CHECK(verdict.life == Life::unknown);
  CHECK(verdict.code == status);
}

TEST_CASE("a checker that cannot be started tells nothing", "[identity]") {
  const TempDir dir;
  write_file(dir / "not_executable", "exit 0\n");
  const std::string path = dir.path();
  const std::string program = GENERATE_COPY(values<std::string>(
      {"no-such-program-here", path + "/missing", path + "/not_executable", path, ""}));
  CAPTURE(program);
  CHECK(ask({program}).life == Life::unknown);
}

TEST_CASE("a checker gets its words and then the id as one word", "[identity]") {
  const std::string id = GENERATE(as<std::string>(), "1:2:3", "two words", "-n", "--", "",
                                  "$(touch x)", "`touch x`;'\"|&*", "a\nb", "*");
  CAPTURE(id);
  const TempDir dir;
  const std::string notes = dir / "notes";
  ask({"/bin/sh", "-c", "printf '<%s>' \"$#\" \"$@\" > '" + notes + "'", "name", "is_stale", "a b"},
      id);
  CHECK(read_file(notes) == "<3><is_stale><a b><" + id + ">");
  CHECK(tree(dir.path()) == std::vector<std::string>{"notes"});
}

TEST_CASE("a checker is heard by a parent that ignores its children", "[identity]") {
  const ChildSignal ignored(SIG_IGN);
  CHECK(ask({"/bin/sh", "-c", "exit 0"}).life == Life::dead);
  CHECK(ask({"/bin/sh", "-c", "exit 1"}).life == Life::alive);
  CHECK(ask({"/bin/sh", "-c", "exit 10"}).life == Life::unknown);
  CHECK(ChildSignal::is_ignored());
}

TEST_CASE("a checker that cannot be started leaves the parent's signals as they were",
          "[identity]") {
  const ChildSignal ignored(SIG_IGN);
  CHECK(ask({"/no/such/program"}).life == Life::unknown);
  CHECK(ChildSignal::is_ignored());
}
