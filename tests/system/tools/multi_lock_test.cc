/// multi_lock as a shell user meets it.

#include <chrono>
#include <csignal>
#include <thread>

#include "session.h"

using namespace holdfast::testing;

namespace {

std::string uid_of(const Session& at, const Process& process) {
  const std::string out = at.run({"local_id", "uid", process.pid_text()}).out;
  return out.substr(0, out.find('\n'));
}

std::vector<std::string> on_behalf(const Process& who, std::vector<std::string> words) {
  words.insert(words.begin(), {"multi_lock", "--id", who.pid_text()});
  return words;
}

}  // namespace

TEST_CASE("multi_lock takes all its locks or none", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper);
  CHECK(at.run(on_behalf(a, {"acquire", "x:one", "s:two", "three"})) == kSilentYes);
  CHECK(at.run({"multi_lock", "owners", "one", "two", "three"}).out ==
        "X " + uid_of(at, a) + " one\nS " + uid_of(at, a) + " two\nX " + uid_of(at, a) +
            " three\n");
  const Result refused = at.run(on_behalf(b, {"--nowait", "acquire", "s:two", "four", "one"}));
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Catch::Contains("one"));
  CHECK(at.run({"multi_lock", "owners", "four"}).out.empty());
  CHECK(at.run({"multi_lock", "owners", "two"}).out == "S " + uid_of(at, a) + " two\n");
  CHECK(at.run(on_behalf(b, {"--nowait", "acquire", "s:two", "four"})) == kSilentYes);
  CHECK(at.run(on_behalf(a, {"release", "one", "two", "three"})) == kSilentYes);
  CHECK(at.run(on_behalf(b, {"release", "two", "four"})) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("without an id the locks are of the process that calls", "[e2e][multi]") {
  const Session at;
  const Result told = at.shell(
      "multi_lock acquire a b && local_id uid $$ && multi_lock owners a && multi_lock release a b; "
      "echo $?");
  const std::string uid = told.out.substr(0, told.out.find('\n'));
  CHECK(told.out == uid + "\nX " + uid + " a\n0\n");
  CHECK(at.tree().empty());
}

TEST_CASE("only a script can call for itself, not what runs a command and ends", "[e2e][multi]") {
  const Session at;
  for (const std::string runner :
       {"timeout 10", "setsid -w", "env -u X timeout 9", "find /dev/null -exec"}) {
    const std::string end = runner.starts_with("find") ? " ';'" : "";
    const Result refused =
        at.shell(runner + " " + tool("multi_lock") + " acquire a b" + end + "; echo $?");
    CAPTURE(runner, refused);
    CHECK_THAT(refused.err, Catch::Contains("--id PID"));
    if (end.empty()) CHECK(refused.out == "10\n");
    CHECK(at.tree().empty());
  }
  for (const std::string script :
       {"env multi_lock --nowait acquire a", "nice multi_lock --nowait acquire a",
        "perl -e 'exit system(qw(multi_lock --nowait acquire a)) >> 8'",
        "python3 -c 'import subprocess as s; raise SystemExit(s.call([\"multi_lock\", "
        "\"--nowait\", \"acquire\", \"a\"]))'"}) {
    const Result granted = at.shell(script + "; echo $?");
    CAPTURE(script, granted);
    CHECK(granted.out == "0\n");
    at.must("rm -r a");
  }
}

TEST_CASE("a script killed while multi_lock starts leaves no lock to init", "[e2e][multi]") {
  const Session at;
  Process rival(kSleeper);
  for (int i = 0; i < 60; ++i) {
    Process script(
        {"/bin/bash", "-c",
         "cd '" + at.path("") + "' && '" + tool("multi_lock") + "' acquire a b; sleep 1000"});
    std::this_thread::sleep_for(std::chrono::microseconds(i * 150));  // another moment each time
    script.kill_and_wait();
    // a lock of the dead script goes to the rival, one of init would not
    CHECK(eventually([&] {
      return at.run(on_behalf(rival, {"--wait", "5", "acquire", "a", "b"})).code == 0;
    }));
    CHECK(at.run(on_behalf(rival, {"release", "a", "b"})).code == 0);
  }
}

TEST_CASE("a lock that is named twice is taken once, alone if one says so", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper);
  at.must("mkdir folder");
  CHECK(at.run(on_behalf(a, {"--nowait", "acquire", "s:folder/x", "folder/../folder/x", "s:y",
                             "s:./y", "folder//x/"})) == kSilentYes);
  CHECK(at.run({"multi_lock", "owners", "folder/x", "y"}).out ==
        "X " + uid_of(at, a) + " folder/x\nS " + uid_of(at, a) + " y\n");
  CHECK(at.run(on_behalf(a, {"release", "folder/x", "./folder/x", "y"})) == kSilentYes);
}

TEST_CASE("a lock and a link to it are one lock", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper);
  at.must(
      "mkdir -p d/real far; ln -s real d/alias; ln -s ../d/alias/ far/link; "
      "ln -s \"$PWD/far/link\" whole");
  CHECK(at.run(on_behalf(a, {"--nowait", "acquire", "s:d/alias", "d/real", "s:far/link",
                             "s:whole"})) == kSilentYes);
  CHECK(at.run({"multi_lock", "owners", "d/real"}).out == "X " + uid_of(at, a) + " d/real\n");
  CHECK(at.run(on_behalf(a, {"release", "far/link", "d/real", "d/alias"})) == kSilentYes);
}

TEST_CASE("a lock has its place in the order by whatever link it is named", "[e2e][multi]") {
  const auto [first, link] = GENERATE(table<std::string, std::string>({
      {"a", "z"},  // the link comes behind `m`, what it leads to before it
      {"a", "a"},
  }));
  CAPTURE(link);
  const Session at;
  const Process self(kSleeper), other(kSleeper);
  at.must("mkdir -p d/a; [ " + link + " = a ] || ln -s a d/" + link);
  REQUIRE(at.run({"rw_lock", "exclusive", "d/m", other.pid_text()}) == kSilentYes);
  RunOptions here;
  here.cwd = at.path("");
  Process waiter(on_behalf(self, {"acquire", "d/m", "d/" + link}), here);
  CHECK(eventually([&] {
    return at.run({"rw_lock", "owners", "d/" + first}).out == "X " + uid_of(at, self) + "\n";
  }));
  waiter.signal(SIGTERM);
  CHECK(waiter.wait() == 128 + SIGTERM);
}

TEST_CASE("a link that leads to itself is told", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper);
  at.must("ln -s round round");
  const Result refused = at.run(on_behalf(a, {"--nowait", "acquire", "round"}));
  CHECK(refused.code == 2);
  CHECK_THAT(refused.err, Catch::Contains("round") && Catch::Contains("symbolic links"));
}

TEST_CASE("five parties with orders of their own all get through", "[e2e][multi]") {
  const Session at;
  const Result told = at.shell(R"sh(
    cat > party <<'END'
    for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        multi_lock --wait 50 acquire "$@" || exit 1
        for f in "$@"; do mkdir "in.$f" || exit 3; done
        for f in "$@"; do rmdir "in.$f" || exit 3; done
        multi_lock release "$@" || exit 2
    done
END
    pids=
    sh party a b c & pids="$pids $!"
    sh party b c a & pids="$pids $!"
    sh party c a b & pids="$pids $!"
    sh party c b & pids="$pids $!"
    sh party a c & pids="$pids $!"
    for p in $pids; do wait "$p"; echo $?; done
    rm party
    )sh");
  CHECK(told.out == "0\n0\n0\n0\n0\n");
  CHECK(told.err.empty());
  CHECK(at.tree().empty());
}

TEST_CASE("who has some and waits too long for the next gives all back", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper), c(kSleeper);
  // in the order of all hosts the smaller name is first: the one that is free
  REQUIRE(at.run(on_behalf(b, {"acquire", "two"})).code == 0);
  RunOptions here;
  here.cwd = at.path("");
  Process waits({"multi_lock", "--id", a.pid_text(), "--hold-limit", "1", "acquire", "one", "two"},
                here);
  REQUIRE(eventually([&] { return !at.run({"multi_lock", "owners", "one"}).out.empty(); }));
  // while it has "one", somebody who asks for that alone waits no longer than the limit
  CHECK(at.run({"multi_lock", "--id", c.pid_text(), "--wait", "30", "acquire", "one"}).code == 0);
  REQUIRE(at.run(on_behalf(c, {"release", "one"})).code == 0);
  REQUIRE(at.run(on_behalf(b, {"release", "two"})).code == 0);
  CHECK(waits.wait() == 0);
}

TEST_CASE("a signal while waiting leaves none of the locks", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper);
  REQUIRE(at.run(on_behalf(b, {"acquire", "two"})).code == 0);
  RunOptions here;
  here.cwd = at.path("");
  Process waits({"multi_lock", "--id", a.pid_text(), "acquire", "one", "two"}, here);
  REQUIRE(eventually([&] { return !at.run({"rw_lock", "queue", "two"}).out.empty(); }));
  waits.signal(SIGINT);
  CHECK(waits.wait() == 128 + SIGINT);
  CHECK(at.run({"multi_lock", "owners", "one"}).out.empty());
  CHECK(at.run({"rw_lock", "queue", "two"}).out.empty());
}

TEST_CASE("what cannot be had is told with its code and nothing is left", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper);
  const Result missing = at.run(on_behalf(a, {"acquire", "one", "nowhere/two"}));
  CHECK(missing.code == 2);
  CHECK_THAT(missing.err, Catch::Contains("nowhere"));
  CHECK(at.run(on_behalf(a, {"release", "one"})).code == 19);
  CHECK(at.run({"multi_lock", "--id", "999999999", "acquire", "one"}).code == 20);
  CHECK(at.run({"multi_lock", "acquire"}).code == 10);
  CHECK(at.run({"multi_lock", "acquire", "x:"}).code == 10);
  CHECK(at.run({"multi_lock", "--nowait", "--wait", "1", "acquire", "one"}).code == 10);
  CHECK(at.run({"multi_lock", "--hold-limit", "x", "acquire", "one"}).code == 10);
  CHECK(at.tree().empty());
  REQUIRE(at.run(on_behalf(a, {"acquire", "one"})).code == 0);
  const Tree before = at.tree();
  CHECK(at.run(on_behalf(a, {"acquire", "nine", "one"})).code == 20);
  CHECK(at.tree() == before);
}

TEST_CASE("a thousand locks are taken and given back", "[e2e][multi]") {
  const Session at;
  const Process a(kSleeper);
  std::vector<std::string> words{"--nowait", "acquire"};
  for (int i = 0; i < 1000; ++i) words.push_back("s:many/" + std::to_string(i));
  at.must("mkdir many");
  CHECK(at.run(on_behalf(a, words)) == kSilentYes);
  words.erase(words.begin());
  words.front() = "release";
  CHECK(at.run(on_behalf(a, words)) == kSilentYes);
  CHECK(at.tree("many").empty());
}
