/// grace_lock as a shell user meets it.

#include <sys/stat.h>

#include <algorithm>
#include <ctime>

#include "court.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

using Words = std::vector<std::string>;

const Tree kHeldByA = {"in_use/", "in_use/a/", "owner/", "owner/a"};
const Tree kHeldByB = {"in_use/", "in_use/b/", "owner/", "owner/b"};
const Tree kNothing = {"asked", "dead", "judge"};

/// A court that knows the locker with its judge, and a grace that is over when a test says so.
class GraceCourt : public Court {
 public:
  Result graced(const Words& words, const Env& env = {}) const {
    Words all = {"grace_lock", "--grace-seconds", "1000", "./judge"};
    all.insert(all.end(), words.begin(), words.end());
    return run(all, env);
  }
  Result ungraced(const Words& words, const Env& env = {}) const {
    Words all = {"grace_lock", "./judge"};
    all.insert(all.end(), words.begin(), words.end());
    return run(all, env);
  }
  /// Its grace is over, and those who ponder make no pause worth the name.
  void make_due(const std::string& id) const { must("touch -d '1 hour ago' L/in_use/" + id); }
  void propose(const std::string& id) const {
    must("mkdir -p L/build/" + id + "/owner; touch L/build/" + id + "/owner/" + id);
  }
  bool is_fresh(const std::string& id) const {
    struct stat mark {};
    REQUIRE(stat(path("L/in_use/" + id).c_str(), &mark) == 0);
    return time(nullptr) - mark.st_mtim.tv_sec < 300;
  }
};

}  // namespace

TEST_CASE("grace_lock takes a free lock without asking and marks its holder", "[e2e]") {
  const GraceCourt at;
  const auto before = time(nullptr);
  CHECK(at.graced({"lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree("L") == kHeldByA);
  struct stat mark {};
  REQUIRE(stat(at.path("L/in_use/a").c_str(), &mark) == 0);
  CHECK(mark.st_mtim.tv_sec >= before - 1);
  CHECK(at.asked().empty());
}

TEST_CASE("grace_lock refuses with 1 and asks nobody within the grace", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  at.condemn("a");
  CHECK(at.graced({"lock", "L", "b"}) == kSilentNo);
  CHECK(at.tree("L") == kHeldByA);
  CHECK(at.asked().empty());
}

TEST_CASE("a lock after the grace cleans a stale owner and the next one gets it", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  at.make_due("a");
  at.condemn("a");
  // a grace of 2 s: the pause is 0 or 1 s halved, none
  const Words lock = {"grace_lock", "--grace-seconds", "2", "./judge", "lock", "L", "b"};
  CHECK(at.run(lock) == kSilentNo);
  CHECK(at.tree() == kNothing);
  CHECK(at.asked() == "a|\n");
  CHECK(at.run(lock) == kSilentYes);
  CHECK(at.tree("L") == kHeldByB);
}

TEST_CASE("a check gives a living owner a new grace", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  at.make_due("a");
  // the first asks after no pause, the second finds the mark dated
  CHECK(at.run({"grace_lock", "--grace-seconds", "2", "./judge", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.asked() == "a|\n");
  CHECK(at.is_fresh("a"));
  CHECK(at.graced({"lock", "L", "b"}) == kSilentNo);
  CHECK(at.asked() == "a|\n");
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("without a grace every refused lock asks at once", "[e2e]") {
  const Words grace = GENERATE(values<Words>({{}, {"--grace-seconds", "0"}}));
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  Words lock = {"grace_lock", "./judge", "lock", "L", "b"};
  lock.insert(lock.begin() + 1, grace.begin(), grace.end());
  CHECK(at.run(lock) == kSilentNo);
  CHECK(at.run(lock) == kSilentNo);
  CHECK(at.asked() == "a|\na|\n");
  at.condemn("a");
  CHECK(at.run(lock) == kSilentNo);
  CHECK(at.tree() == kNothing);
}

TEST_CASE("lock_check asks whatever the grace and takes what is stale", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  CHECK(at.graced({"lock_check", "L", "b"}) == kSilentNo);
  CHECK(at.asked() == "a|\n");
  at.condemn("a");
  CHECK(at.graced({"lock_check", "L", "b"}) == kSilentYes);
  CHECK(at.asked() == "a|\na|\n");
  CHECK(at.tree("L") == kHeldByB);
}

TEST_CASE("grace_lock unlock frees the lock with 0 and leaves nothing", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  CHECK(at.graced({"unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == kNothing);
  CHECK(at.asked().empty());
}

TEST_CASE("grace_lock unlock by a stranger answers 1 with a message", "[e2e]") {
  const GraceCourt at;
  CHECK(at.graced({"unlock", "L", "b"}) == Result{1, "", " ERROR - L is not locked by b\n"});
  at.must("grace_lock true lock L a");
  CHECK(at.graced({"unlock", "L", "b"}) == Result{1, "", " ERROR - L is not locked by b\n"});
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("an unlock leaves a due id to a child and returns", "[e2e][H21]") {
  const Session at;
  at.must(
      "mkfifo gate; grace_lock true lock L a; mkdir -p L/build/b/owner L/in_use/b;"
      "touch L/build/b/owner/b; touch -d '1 hour ago' L/in_use/b;"
      "printf '#!/bin/bash\\ntouch called; read < gate\\n' > slow; chmod +x slow");
  // stdout and stderr of this run end although the child goes on
  CHECK(at.run({"grace_lock", "--grace-seconds", "1000", "./slow", "unlock", "L", "a"}) ==
        kSilentYes);
  CHECK(eventually([&] { return at.shell("test -e called").code == 0; }));
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == Result{0, "b\n", ""});
  at.must("echo > gate");
  CHECK(eventually([&] { return at.tree() == Tree{"called", "gate", "slow"}; }));
}

TEST_CASE("a lock that was got leaves a due id to a child and returns", "[e2e][H21]") {
  const Session at;
  at.must(
      "mkfifo gate; mkdir -p L/build/b/owner L/in_use/b;"
      "touch L/build/b/owner/b; touch -d '1 hour ago' L/in_use/b;"
      "printf '#!/bin/bash\\ntouch called; read < gate\\n' > slow; chmod +x slow");
  CHECK(at.run({"grace_lock", "--grace-seconds", "1000", "./slow", "lock", "L", "a"}) ==
        kSilentYes);
  CHECK(eventually([&] { return at.shell("test -e called").code == 0; }));
  at.must("echo > gate");
  CHECK(eventually([&] { return at.tree("L") == kHeldByA; }));
}

TEST_CASE("only one child asks about a due id in one grace", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  at.propose("b");
  at.must("mkdir -p L/in_use/b");
  at.make_due("b");
  for (int i = 0; i < 3; ++i) {
    CHECK(at.graced({"unlock", "L", "a"}) == kSilentYes);
    CHECK(at.graced({"lock", "L", "a"}) == kSilentYes);
  }
  CHECK(eventually([&] { return at.asked() == "b|\n"; }));
  CHECK(at.is_fresh("b"));
}

TEST_CASE("two stale ids are cleaned in one ponder", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  at.propose("b");
  at.condemn("a");
  at.condemn("b");
  CHECK(at.ungraced({"lock", "L", "c"}) == kSilentNo);
  CHECK(at.tree() == kNothing);
}

TEST_CASE("the word after the id beats the option and the environment", "[e2e]") {
  const auto [words, env, asks] = GENERATE(table<Words, Env, bool>({
      {{"./judge", "lock", "L", "b"}, {}, true},
      {{"./judge", "lock", "L", "b"}, {{"GRACE_SECONDS", "1000"}}, false},
      {{"./judge", "lock", "L", "b"}, {{"GRACE_SECONDS", ""}}, true},
      {{"--grace-seconds", "0", "./judge", "lock", "L", "b"}, {{"GRACE_SECONDS", "1000"}}, true},
      {{"./judge", "--grace-seconds", "1000", "lock", "L", "b"}, {}, false},
      {{"./judge", "lock", "L", "b", "1000"}, {}, false},
      {{"--grace-seconds", "1000", "./judge", "lock", "L", "b", "0"}, {}, true},
      {{"--grace-seconds", "1000", "./judge", "lock", "L", "b", ""}, {}, false},
      {{"--grace-seconds", "0", "--grace-seconds", "1000", "./judge", "lock", "L", "b"}, {}, false},
  }));
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  Words all = {"grace_lock"};
  all.insert(all.end(), words.begin(), words.end());
  CHECK(at.run(all, env) == kSilentNo);
  CHECK(at.asked() == (asks ? "a|\n" : ""));
}

TEST_CASE("a grace that is no number of seconds is a usage error that changes nothing",
          "[e2e][Q8]") {
  const std::string bad = GENERATE("-1", "x", "1.5", "10s", " 1", "99999999999999999999");
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  CAPTURE(bad);
  check_usage(at.run({"grace_lock", "--grace-seconds", bad, "./judge", "lock", "L", "b"}),
              "number of seconds");
  check_usage(at.run({"grace_lock", "./judge", "lock", "L", "b", bad}), "number of seconds");
  check_usage(at.run({"grace_lock", "./judge", "unlock", "L", "a", bad}), "number of seconds");
  check_usage(at.run({"grace_lock", "./judge", "lock", "L", "b"}, {{"GRACE_SECONDS", bad}}),
              "GRACE_SECONDS");
  CHECK(at.tree("L") == kHeldByA);
  CHECK(at.asked().empty());
}

TEST_CASE("the words after --checker-arg go before the id in their order", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  CHECK(at.run({"grace_lock", "./judge", "--checker-arg", "one", "-s", "two words", "--debug",
                "--checker-arg", "--grace-seconds", "-s", "", "lock", "L", "b"})
            .code == 1);
  CHECK(at.asked() == "one|two words|--grace-seconds||a|\n");
}

TEST_CASE("grace_lock tells an id that holds already with 20", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_check", "lock_nocheck", "fast_lock");
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  CHECK(at.graced({action, "L", "a"}) == Result{20, "", " ERROR - L already locked by a\n"});
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("grace_lock answers 2 with a reason when the lock cannot be built", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_check", "lock_nocheck");
  const GraceCourt at;
  at.must("touch L");
  check_failed(at.graced({action, "L", "a"}), 2, "Not a directory");
}

TEST_CASE("lock_nocheck and owner and is_mine need no checker and ask none", "[e2e]") {
  const GraceCourt at;
  CHECK(at.run({"grace_lock", "lock_nocheck", "L", "a"}) == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/a"});
  at.condemn("a");
  for (const char* action : {"lock_nocheck", "fast_lock"}) {
    CHECK(at.run({"grace_lock", action, "L", "b"}) == kSilentNo);
    CHECK(at.ungraced({action, "L", "b"}) == kSilentNo);
  }
  CHECK(at.run({"grace_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.ungraced({"owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"grace_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({"grace_lock", "is_mine", "L", "b"}) == kSilentNo);
  CHECK(at.run({"grace_lock", "owner", "free"}) == kSilentYes);
  CHECK(at.asked().empty());
}

TEST_CASE("what the checker prints goes to stderr in a ponder and to stdout in lock_check",
          "[e2e]") {
  const Session at;
  at.must(
      "grace_lock true lock L a;"
      "printf '#!/bin/bash\\necho to out; echo to err >&2; exit 1\\n' > c; chmod +x c");
  CHECK(at.run({"grace_lock", "./c", "lock", "L", "b"}) == Result{1, "", "to out\nto err\n"});
  CHECK(at.run({"grace_lock", "--grace-seconds", "1000", "./c", "lock_check", "L", "b"}) ==
        Result{1, "to out\n", "to err\n"});
}

TEST_CASE("a checker that cannot tell frees nothing under any action", "[e2e]") {
  const std::string checker = GENERATE("exit 10", "exit 13", "exit 127", "exit 255", "kill -9 $$");
  const GraceCourt at;
  at.must("grace_lock true lock L a; printf '#!/bin/bash\\n" + checker + "\\n' > judge");
  for (const char* action : {"lock", "lock_check"}) {
    const Result result = at.ungraced({action, "L", "b"});
    CHECK(result.code == 1);
    CHECK_THAT(result.err, Contains("WARNING: L: unable to identify live/staleness for a: "));
  }
  CHECK(at.ungraced({"unlock", "L", "b"}).code == 1);
  CHECK(at.ungraced({"clean", "L"}).code == 1);
  CHECK(at.ungraced({"is_stale", "L"}).code >= 10);
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
}

TEST_CASE("a checker that does not exist frees no graced lock", "[e2e]") {
  const GraceCourt at;
  at.must("grace_lock true lock L a");
  CHECK(at.run({"grace_lock", "./no-such-checker", "lock", "L", "b"}).code == 1);
  CHECK(at.run({"grace_lock", "./no-such-checker", "is_stale", "L"}).code == 127);
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("grace_lock is_stale tells and changes nothing", "[e2e]") {
  const GraceCourt at;
  CHECK(at.graced({"is_stale", "L"}) == Result{2, "", ""});
  at.must("grace_lock true lock L a");
  CHECK(at.graced({"is_stale", "L"}) == kSilentNo);
  at.condemn("a");
  CHECK(at.graced({"is_stale", "L"}) == kSilentYes);
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("grace_lock clean asks about all whatever their grace", "[e2e]") {
  const GraceCourt at;
  CHECK(at.graced({"clean", "L"}) == kSilentYes);
  at.must("grace_lock true lock L a; mkdir -p L/build/.gone.1 L/in_use/c");
  at.propose("b");
  at.condemn("b");
  CHECK(at.graced({"clean", "L"}) == kSilentNo);
  CHECK(at.tree("L") == kHeldByA);
  at.condemn("a");
  CHECK(at.graced({"clean", "L"}) == kSilentYes);
  CHECK(at.tree() == kNothing);
}

TEST_CASE("grace_lock says at info level what happened", "[e2e]") {
  const GraceCourt at;
  const auto told = [&](const Words& words) { return at.ungraced(words, {{"DEBUG", "INFO"}}).err; };
  CHECK(told({"lock", "L", "a"}) == "L locked by a\n");
  CHECK_THAT(told({"lock", "L", "b"}), StartsWith("L failed to lock for b\n"));
  at.condemn("a");
  CHECK_THAT(told({"lock", "L", "b"}), Contains("cleaned stale id a\n"));
  CHECK(told({"lock", "L", "b"}) == "L locked by b\n");
  CHECK(told({"unlock", "L", "b"}) == "L unlocked by b\n");
}

TEST_CASE("too few words for grace_lock are a usage error that makes nothing", "[e2e]") {
  const auto words = GENERATE(values<Words>({{},
                                             {"true"},
                                             {"true", "-s"},
                                             {"true", "--grace-seconds"},
                                             {"true", "lock"},
                                             {"true", "lock", "L"},
                                             {"true", "lock", "L", ""},
                                             {"true", "lock", "", "a"},
                                             {"true", "unlock", "L"},
                                             {"true", "lock_check", "L"},
                                             {"true", "no_such_action", "L", "a"},
                                             {"--no-such-option", "true", "lock", "L", "a"},
                                             {"lock_nocheck", "L"},
                                             {"owner"},
                                             {"is_mine", "L"}}));
  const Session at;
  Words all = {"grace_lock"};
  all.insert(all.end(), words.begin(), words.end());
  check_usage(at.run(all));
  CHECK(at.tree().empty());
}

TEST_CASE("with local_id as the checker grace_lock runs no program", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  const auto lock = [&] {
    const Words words = {tool("grace_lock"), tool("local_id"), "-s", "is_stale", "lock", "L", "b"};
    if (kIsSanitized) return at.run(words);  // a sanitizer makes calls of its own
    Words traced = {
        "strace", "-f", "-qq", "-o", "trace", "-e", "trace=execve,fork,vfork,clone,clone3"};
    traced.insert(traced.end(), words.begin(), words.end());
    const Result result = at.run(traced);
    const std::string trace = read_file(at.path("trace"));
    INFO(trace);
    CHECK(std::count(trace.begin(), trace.end(), '\n') == 1);  // its own execve
    return result;
  };
  at.must("fast_lock lock L " + uid_of(holder.pid_text()));
  CHECK(lock() == kSilentNo);
  holder.kill_and_wait();
  CHECK(lock() == kSilentNo);
  CHECK(lock() == kSilentYes);
  CHECK(at.tree("L") == kHeldByB);
}
