/// rw_lock and fair_lock as a shell user meets them.

#include <algorithm>
#include <boost/filesystem.hpp>
#include <csignal>
#include <memory>

#include "court.h"
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
    REQUIRE(eventually([&] { return !at.run({"rw_lock", "queue", "L"}).out.empty(); }));
  }
  static RunOptions in(const Session& at) {
    RunOptions options;
    options.cwd = at.path("");
    return options;
  }
  Process process;
};

}  // namespace

TEST_CASE("an id that is too long to wait with is refused before it holds anything", "[e2e][rw]") {
  const Session at;
  const auto lock = [&](const char* tool, const char* action, std::size_t length) {
    return at.run({tool, "true", action, "L", std::string(length, 'x')});
  };
  for (const auto& [tool, action] :
       {std::pair{"rw_lock", "exclusive"}, {"rw_lock", "shared"}, {"fair_lock", "lock"}}) {
    CAPTURE(tool, action);
    const Result refused = lock(tool, action, 243);
    CHECK(refused.code == 10);
    CHECK_THAT(refused.err, Catch::Contains("the id has 243 bytes"));
    CHECK(at.tree().empty());
    CHECK(lock(tool, action, 242) == kSilentYes);
    // one of the same length gets into the queue, and its time runs out there
    CHECK(at.run({"rw_lock", "--wait", "100ms", "false", "exclusive", "L", std::string(242, 'y')})
              .code == 1);
    at.must("rm -r L");
  }
}

TEST_CASE("rw_lock lets sharers in together and a writer alone", "[e2e][rw]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper), c(kSleeper);
  CHECK(at.run({"rw_lock", "shared", "L", a.pid_text()}) == kSilentYes);
  CHECK(at.run({"rw_lock", "shared", "L", b.pid_text()}) == kSilentYes);
  CHECK(at.run({"rw_lock", "exclusive", "L", c.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "is_mine", "L", a.pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "is_mine", "L", c.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "unlock", "L", a.pid_text()}) == kSilentYes);
  CHECK(at.run({"rw_lock", "unlock", "L", b.pid_text()}) == kSilentYes);
  CHECK(at.tree().empty());
  CHECK(at.run({"rw_lock", "exclusive", "L", c.pid_text()}) == kSilentYes);
  CHECK(at.run({"rw_lock", "shared", "L", a.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "owners", "L"}).out == "X " + uid_of(at, c) + "\n");
  CHECK(at.run({"rw_lock", "unlock", "L", uid_of(at, c)}) == kSilentYes);
}

TEST_CASE("plain lockers and rw_lock keep each other out of one path", "[e2e][rw]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper);
  const std::string plain = GENERATE("lock_local", "fast_lock", "check_lock");
  CAPTURE(plain);
  const std::vector<std::string> words =
      plain == "lock_local" ? std::vector<std::string>{"lock_local", "lock", "L", b.pid_text()}
      : plain == "fast_lock"
          ? std::vector<std::string>{"fast_lock", "lock", "L", uid_of(at, b)}
          : std::vector<std::string>{"check_lock", "local_id", "-s",         "is_stale",
                                     "lock",       "L",        uid_of(at, b)};
  REQUIRE(at.run({"rw_lock", "shared", "L", a.pid_text()}).code == 0);
  CHECK(at.run(words).code == 1);
  REQUIRE(at.run({"rw_lock", "unlock", "L", a.pid_text()}).code == 0);
  REQUIRE(at.run(words).code == 0);
  CHECK(at.run({"rw_lock", "shared", "L", a.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "exclusive", "L", a.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "owners", "L"}).out == "X " + uid_of(at, b) + "\n");
}

TEST_CASE("several dead sharers are recovered together", "[e2e][rw]") {
  const Session at;
  const Process writer(kSleeper);
  {
    const Process a(kSleeper), b(kSleeper), c(kSleeper);
    for (const Process* p : {&a, &b, &c}) {
      REQUIRE(at.run({"rw_lock", "shared", "L", p->pid_text()}).code == 0);
    }
    CHECK(at.run({"rw_lock", "is_stale", "L"}).code == 1);
  }
  CHECK(at.run({"rw_lock", "is_stale", "L"}).code == 0);
  CHECK(at.run({"rw_lock", "exclusive", "L", writer.pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "owners", "L"}).out == "X " + uid_of(at, writer) + "\n");
}

TEST_CASE("adversarial 5: of two and of three upgrades that meet all but one are told 23 at once",
          "[e2e][rw][adversarial-5]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper), c(kSleeper), reader(kSleeper);
  std::vector<const Process*> upgraders{&a, &b, &c};
  upgraders.resize(GENERATE(2U, 3U));
  std::vector<const Process*> all = upgraders;
  all.push_back(&reader);
  std::string pids;
  for (const Process* p : upgraders) pids.append(" ").append(p->pid_text());
  for (const Process* p : all) {
    REQUIRE(at.run({"rw_lock", "shared", "L", p->pid_text()}).code == 0);
  }
  const Result told = at.shell("for p in" + pids +
                               "; do (rw_lock --wait 3 upgrade L $p 2>/dev/null; echo $?) & done; "
                               "wait");
  INFO(told);  // the reader never leaves: one waits in vain
  CHECK(told.out == (upgraders.size() == 2 ? "23\n1\n" : "23\n23\n1\n"));
  for (const Process* p : all) {
    CHECK(at.run({"rw_lock", "is_mine", "L", p->pid_text()}).code == 0);
  }
  CHECK(at.run({"rw_lock", "owners", "L"}).out.find("X ") == std::string::npos);
}

TEST_CASE("an upgrade is granted when the last other sharer is gone or dead", "[e2e][rw]") {
  const Session at;
  const Process a(kSleeper);
  auto b = std::make_unique<Process>(kSleeper);
  REQUIRE(at.run({"rw_lock", "shared", "L", a.pid_text()}).code == 0);
  REQUIRE(at.run({"rw_lock", "shared", "L", b->pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "upgrade", "L", a.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "owners", "L"}).out.find("X ") == std::string::npos);
  b.reset();
  CHECK(at.run({"rw_lock", "upgrade", "L", a.pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "owners", "L"}).out == "X " + uid_of(at, a) + "\n");
  CHECK(at.run({"rw_lock", "upgrade", "L", a.pid_text()}).code == 20);
  CHECK(at.run({"rw_lock", "downgrade", "L", a.pid_text()}) == kSilentYes);
  CHECK(at.run({"rw_lock", "owners", "L"}).out == "S " + uid_of(at, a) + "\n");
  CHECK(at.run({"rw_lock", "downgrade", "L", a.pid_text()}).code == 19);
}

TEST_CASE("those who have nothing are told 19 and those who have it 20", "[e2e][rw]") {
  const Session at;
  const Process a(kSleeper);
  for (const char* action : {"upgrade", "downgrade", "unlock"}) {
    const Result result = at.run({"rw_lock", action, "L", a.pid_text()});
    INFO(action << "\n" << result);
    CHECK(result.code == 19);
    CHECK(result.err.starts_with(" ERROR - L is not locked by "));
  }
  CHECK(at.tree().empty());
  const std::string mode = GENERATE("shared", "exclusive");
  REQUIRE(at.run({"rw_lock", mode, "L", a.pid_text()}).code == 0);
  for (const char* again : {"shared", "exclusive"}) {
    CHECK(at.run({"rw_lock", again, "L", a.pid_text()}).code == 20);
  }
  CHECK(at.run({"rw_lock", "unlock", "L", a.pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "shared", "L", "999999999"}).code == 20);
  CHECK(at.tree().empty());
}

TEST_CASE("adversarial 8: a fair lock is given in the order of arrival",
          "[e2e][fair][adversarial-8]") {
  const Session at;
  const Process holder(kSleeper);
  REQUIRE(at.run({"fair_lock", "lock", "L", holder.pid_text()}).code == 0);
  std::string script = "touch order\n";
  constexpr int kWaiters = 8;
  for (int i = 0; i < kWaiters; ++i) {
    const std::string n = std::to_string(i);
    script += "sleep 1000 & s" + n + "=$!\n";
    script += "(fair_lock --wait 60 lock L $s" + n + " && echo " + n +
              " >> order; fair_lock unlock L $s" + n + ") & w" + n + "=$!\n";
    script +=
        "until [ $(fair_lock queue L | wc -l) = " + std::to_string(i + 1) + " ]; do :; done\n";
  }
  script += "fair_lock queue L > seen\nfair_lock unlock L " + holder.pid_text() + "\nwait";
  std::string order;
  for (int i = 0; i < kWaiters; ++i) {
    script += " $w" + std::to_string(i);
    order += std::to_string(i) + "\n";
  }
  script += "\nkill";
  for (int i = 0; i < kWaiters; ++i) script += " $s" + std::to_string(i);
  at.must(script);
  CHECK(read_file(at.path("order")) == order);
  const std::string seen = read_file(at.path("seen"));
  CHECK(std::count(seen.begin(), seen.end(), '\n') == kWaiters);
  CHECK(seen.starts_with("1 w "));
  CHECK(at.run({"fair_lock", "clean", "L"}).code == 0);
}

TEST_CASE("adversarial 8: a stream of sharers does not keep a writer out",
          "[e2e][rw][adversarial-8]") {
  const Session at;
  const Process first(kSleeper), writer(kSleeper), later(kSleeper);
  REQUIRE(at.run({"rw_lock", "shared", "L", first.pid_text()}).code == 0);
  const Waiting waits(at, {"rw_lock", "--wait", "60", "exclusive", "L", writer.pid_text()});
  CHECK(at.run({"rw_lock", "shared", "L", later.pid_text()}).code == 1);
  CHECK(at.run({"rw_lock", "--barge", "shared", "L", later.pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "unlock", "L", later.pid_text()}).code == 0);
  CHECK(at.run({"rw_lock", "unlock", "L", first.pid_text()}).code == 0);
  CHECK(eventually([&] {
    return at.run({"rw_lock", "owners", "L"}).out == "X " + uid_of(at, writer) + "\n";
  }));
}

TEST_CASE("adversarial 8: of sharers that come in a stream a writer waits for those already in",
          "[e2e][rw][adversarial-8]") {
  const Session at;
  // each shares again as soon as it can, so that with the others it is never free; the writer's
  // line in the book follows its grant, theirs follow each of theirs
  at.must(R"sh(
    cat > share <<'END'
    until [ -e stop ]; do
        rw_lock --wait 60 shared L $$ || exit 1
        echo shared >> book
        sleep 0.05
        rw_lock unlock L $$ || exit 2
    done
END
    pids=
    for i in 1 2 3 4; do sh share & pids="$pids $!"; done
    until [ "$(grep -c shared book)" -gt 8 ]; do sleep 0.01; done 2> /dev/null
    sleep 1000 & writer=$!
    { rw_lock --wait 60 exclusive L $writer && echo alone >> book; echo $? > told; } &
    until rw_lock queue L | grep -q " w " || [ -e told ]; do :; done
    echo queued >> book
    until [ -e told ]; do sleep 0.01; done
    touch stop
    rw_lock unlock L $writer
    wait $pids
    kill $writer
  )sh");
  CHECK(read_file(at.path("told")) == "0\n");
  const std::string book = read_file(at.path("book"));
  const std::size_t queued = book.find("queued\n");
  const std::size_t alone = book.find("alone\n");
  INFO(book);
  REQUIRE(queued != std::string::npos);
  REQUIRE(alone != std::string::npos);
  const std::string between = queued < alone ? book.substr(queued, alone - queued) : "";
  CHECK(std::count(between.begin(), between.end(), '\n') <= 1 + 4);
}

TEST_CASE("whoever stops waiting leaves no place in line", "[e2e][fair]") {
  const Session at;
  const Process holder(kSleeper), other(kSleeper);
  REQUIRE(at.run({"fair_lock", "lock", "L", holder.pid_text()}).code == 0);
  const Tree before = at.tree("L");
  SECTION("when time is up") {
    CHECK(at.run({"fair_lock", "--wait", "1", "lock", "L", other.pid_text()}).code == 1);
  }
  SECTION("when a signal ends it") {
    const std::string signal = GENERATE("INT", "TERM", "HUP");
    CAPTURE(signal);
    const Result ended =
        at.shell("set -m; fair_lock --wait 60 lock L " + other.pid_text() +
                 " & w=$!; until [ \"$(fair_lock queue L)\" ]; do :; done; kill -" + signal +
                 " $w; wait $w; echo $?");
    CHECK(ended.out == std::to_string(128 + (signal == "INT"    ? 2
                                             : signal == "TERM" ? 15
                                                                : 1)) +
                           "\n");
  }
  CHECK(at.tree("L") == before);
  CHECK(at.run({"fair_lock", "queue", "L"}).out.empty());
}

TEST_CASE("adversarial 7: a waiter that was killed does not hold up those behind it",
          "[e2e][fair][adversarial-7]") {
  const Session at;
  const Process holder(kSleeper), first(kSleeper), second(kSleeper), third(kSleeper);
  REQUIRE(at.run({"fair_lock", "lock", "L", holder.pid_text()}).code == 0);
  at.must(
      "fair_lock --wait 60 lock L " + first.pid_text() +
      " & w=$!; until [ \"$(fair_lock queue L)\" ]; do :; done; kill -KILL $w; wait $w || true");
  REQUIRE(at.run({"fair_lock", "queue", "L"}).out.starts_with("1 w " + uid_of(at, first)));
  SECTION("and waits") {
    at.must("(fair_lock --wait 60 lock L " + second.pid_text() +
            "; echo $? > told) & until fair_lock queue L | grep -q " + second.pid_text() +
            ": ; do :; done; fair_lock unlock L " + holder.pid_text() + "; wait");
    CHECK(read_file(at.path("told")) == "0\n");
  }
  SECTION("and only tries") {
    REQUIRE(at.run({"fair_lock", "unlock", "L", holder.pid_text()}).code == 0);
    CHECK(at.run({"fair_lock", "lock", "L", third.pid_text()}).code == 0);
  }
  CHECK(at.run({"fair_lock", "queue", "L"}).out.empty());
}

TEST_CASE("who waits for a process that dies leaves the line", "[e2e][fair]") {
  const Session at;
  const Process holder(kSleeper);
  auto other = std::make_unique<Process>(kSleeper);
  REQUIRE(at.run({"fair_lock", "lock", "L", holder.pid_text()}).code == 0);
  Waiting waits(at, {"fair_lock", "--wait", "60", "lock", "L", other->pid_text()});
  other.reset();
  CHECK(waits.process.wait() == 2);
  CHECK(at.run({"fair_lock", "queue", "L"}).out.empty());
  CHECK(at.run({"fair_lock", "owner", "L"}).out == uid_of(at, holder) + "\n");
}

TEST_CASE("one who only tries does not go before those in line", "[e2e][fair]") {
  const Session at;
  const Process holder(kSleeper), waiter(kSleeper), hasty(kSleeper);
  REQUIRE(at.run({"fair_lock", "lock", "L", holder.pid_text()}).code == 0);
  const Waiting waits(at, {"fair_lock", "--wait", "60", "lock", "L", waiter.pid_text()});
  waits.process.signal(SIGSTOP);  // the line stands, and the lock becomes free
  REQUIRE(at.run({"fair_lock", "unlock", "L", holder.pid_text()}).code == 0);
  CHECK(at.run({"fair_lock", "lock", "L", hasty.pid_text()}).code == 1);
  waits.process.signal(SIGCONT);
  CHECK(eventually([&] {
    return at.run({"fair_lock", "owner", "L"}).out == uid_of(at, waiter) + "\n";
  }));
}

TEST_CASE("a line full of junk holds nobody up", "[e2e][fair]") {
  const Session at;
  const Process a(kSleeper);
  at.must(
      "mkdir -p L/.queue; cd L/.queue; touch junk 0000000001 0000000002.x.a 00000001.w.a .hidden "
      "'0000000003.w.' 'new.somebody'; mkdir folder");
  CHECK(at.run({"fair_lock", "queue", "L"}).out.empty());
  CHECK(at.run({"fair_lock", "lock", "L", a.pid_text()}).code == 0);
  CHECK(at.run({"fair_lock", "unlock", "L", a.pid_text()}).code == 0);
}

TEST_CASE("adversarial 7: ids of any look wait and hold with a checker of the user's own",
          "[e2e][rw][adversarial-7]") {
  const Court at;
  const std::string id = GENERATE("a.b.c", "a:b", "two words", "--help", "-1", ".dot");
  CAPTURE(id);
  CHECK(at.run({"rw_lock", "./judge", "exclusive", "L", "other"}).code == 0);
  CHECK(at.run({"rw_lock", "--wait", "1", "./judge", "shared", "L", id}).code == 1);
  at.condemn("other");
  CHECK(at.run({"rw_lock", "--wait", "1", "./judge", "shared", "L", id}).code == 0);
  CHECK(at.run({"rw_lock", "./judge", "owners", "L"}).out == "S " + id + "\n");
  CHECK(at.run({"rw_lock", "ids_in_use", "L"}).out == id + "\n");
  CHECK(at.run({"rw_lock", "./judge", "unlock", "L", id}).code == 0);
  CHECK_FALSE(boost::filesystem::exists(at.path("L")));
}

TEST_CASE("a holder with an id of its own keeps its lock from those without its checker",
          "[e2e][rw]") {
  const auto [take, tool, action] = GENERATE(table<std::string, std::string, std::string>({
      {"rw_lock false exclusive L job-17", "rw_lock", "exclusive"},
      {"rw_lock false shared L job-17", "rw_lock", "exclusive"},
      {"fast_lock lock L job-17", "fair_lock", "lock"},
      {"check_lock false lock L job-17", "lock_local", "lock"},
  }));
  CAPTURE(take, tool);
  const Session at;
  const Process self(kSleeper);
  at.must(take);
  const Tree before = at.tree();
  const Result refused = at.run({tool, action, "L", self.pid_text()});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Catch::Contains("job-17"));
  CHECK(at.tree() == before);
  CHECK(at.run({"check_lock", "true", "lock", "L", "job-18"}).code == 0);
}

TEST_CASE("the status of locks is told as lines and as both documents", "[e2e][rw]") {
  const Session at;
  const Process a(kSleeper), b(kSleeper);
  CHECK(at.run({"rw_lock", "--ids-json", "status", "."}).out ==
        "{\"opsQueue\":[],\"lockCount\":0,\"locks\":[],\"failures\":[]}\n");
  REQUIRE(at.run({"rw_lock", "exclusive", "data/7003", a.pid_text()}).code == 0);
  REQUIRE(at.run({"rw_lock", "shared", "data/7011", a.pid_text()}).code == 0);
  REQUIRE(at.run({"rw_lock", "shared", "data/7011", b.pid_text()}).code == 0);
  REQUIRE(at.run({"rw_lock", "shared", "data/other", b.pid_text()}).code == 0);
  const std::string document =
      "{\"opsQueue\":[],\"lockCount\":2,\"locks\":[{\"id\":7003,\"type\":\"EXCLUSIVE\",\"count\":1}"
      ","
      "{\"id\":7011,\"type\":\"SHARED\",\"count\":2}],\"failures\":[]}\n";
  CHECK(at.run({"rw_lock", "--ids-json", "status", "data"}).out == document);
  CHECK(at.run({"rw_lock", "--ids-json", "status", "data/7003", "data/7011", "data/other"}).out ==
        document);
  CHECK(at.run({"rw_lock", "status", "--ids-json", "data"}).out == document);
  CHECK(at.run({"rw_lock", "status", "--ids-json"}).code == 10);
  CHECK(at.run({"rw_lock", "--json", "status", "data"}).out.find("\"id\":\"other\"") !=
        std::string::npos);
  CHECK(at.run({"rw_lock", "status", "data"}).out.find("7003 EXCLUSIVE " + uid_of(at, a)) == 0);
  CHECK(at.run({"rw_lock", "status", "nowhere"}).code == 2);
}

TEST_CASE("no name of a lock hides the others from the status of their folder", "[e2e][rw]") {
  const std::string name = GENERATE("build", "owner", "in_use");
  const std::string action = GENERATE("exclusive", "shared");
  CAPTURE(name, action);
  const Session at;
  const Process a(kSleeper), b(kSleeper);
  REQUIRE(at.run({"rw_lock", action, "data/" + name, a.pid_text()}) == kSilentYes);
  REQUIRE(at.run({"rw_lock", action, "data/7003", b.pid_text()}) == kSilentYes);
  const std::string word = action == "shared" ? " SHARED " : " EXCLUSIVE ";
  const std::string one = name + word + uid_of(at, a);
  CHECK_THAT(at.run({"rw_lock", "status", "data"}).out,
             Catch::StartsWith("7003" + word + uid_of(at, b)) && Catch::Contains("\n" + one));
  CHECK_THAT(at.run({"rw_lock", "status", "data/" + name}).out, Catch::StartsWith(one));
  // free, it hides nothing either
  at.must("rm -r data/" + name + "/*; mkdir -p data/.upgrade/owner; touch data/.upgrade/owner/x");
  CHECK_THAT(at.run({"rw_lock", "--json", "status", "data"}).out,
             Catch::Contains("\"lockCount\":1") && Catch::Contains("\"7003\""));
}

TEST_CASE("a lock of which several have a hold is shared in its status", "[e2e][rw]") {
  const Session at;
  const Process self(kSleeper), other(kSleeper);
  REQUIRE(at.run({"rw_lock", "shared", "7003", self.pid_text()}) == kSilentYes);
  REQUIRE(at.run({"rw_lock", "shared", "7003", other.pid_text()}) == kSilentYes);
  const Process upgrading({"rw_lock", "--wait", "60", "upgrade", "7003", self.pid_text()},
                          Waiting::in(at));
  REQUIRE(eventually([&] {
    return at.run({"rw_lock", "owners", "7003"}).out.find("X ") != std::string::npos;
  }));
  CHECK_THAT(at.run({"rw_lock", "--ids-json", "status", "7003"}).out,
             Catch::Contains("{\"id\":7003,\"type\":\"SHARED\",\"count\":2}"));
}

TEST_CASE("wrong words are refused with 10 and nothing is left", "[e2e][rw]") {
  const Session at;
  const Process a(kSleeper);
  const auto words = GENERATE_COPY(values<std::vector<std::string>>({
      {"rw_lock"},
      {"rw_lock", "shared"},
      {"rw_lock", "shared", "L"},
      {"rw_lock", "shared", "L", ""},
      {"rw_lock", "--wait", "soon", "shared", "L", "1"},
      {"rw_lock", "--wait", "-1", "shared", "L", "1"},
      {"rw_lock", "--nonsense", "shared", "L", "1"},
      {"rw_lock", "--ssh-strict", "shared", "L", "1"},
      {"rw_lock", "--ssh", "./judge", "shared", "L", "1"},
      {"fair_lock", "--barge", "lock", "L", "1"},
      {"fair_lock", "lock", "L"},
  }));
  const Result result = at.run(words);
  INFO(words.back() << "\n" << result);
  CHECK(result.code == 10);
  CHECK(at.tree().empty());
}
