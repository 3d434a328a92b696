/// lock_local as a shell user meets it.

#include <sys/wait.h>

#include <csignal>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::Matches;
using Catch::StartsWith;

namespace {

Tree held_by(const std::string& id) {
  return {"L/", "L/owner/", "L/owner/" + id};
}

/// A lock L in the session's folder, held by a process of its own.
struct Held {
  Session at;
  Process holder{kSleeper};
  std::string pid = holder.pid_text();
  std::string uid = uid_of(pid);
  Tree tree = held_by(uid);

  Held() { REQUIRE(at.run({"lock_local", "lock", "L", pid}) == kSilentYes); }
};

/// One that is no longer there.
struct Abandoned : Held {
  Abandoned() { holder.kill_and_wait(); }
};

const std::string kForeign = "far.example.org:12:34:56";

void hold_by_foreign_id(const Session& at) {
  at.must("mkdir -p L/owner; touch L/owner/" + kForeign);
}

}  // namespace

TEST_CASE("a process takes a free lock under its uid", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck", "fast_lock");
  const Session at;
  Process self(kSleeper);
  CHECK(at.run({"lock_local", action, "L", self.pid_text()}) == kSilentYes);
  CHECK(at.tree() == held_by(uid_of(self.pid_text())));
}

TEST_CASE("the leaf of a process says which one it is", "[e2e]") {
  Held held;
  const std::string record = read_file(held.at.path("L/owner/" + held.uid));
  CHECK_THAT(record, Matches("\\{\"v\":1,[^\n]*\\}\n"));
  for (const std::string& part :
       {std::string("\"boot\":\""), std::string("\"pidns\":\"pid:["), "\"pid\":" + held.pid + ",",
        std::string("\"start\":"), std::string("\"cmd\":\"sleep\"")}) {
    CHECK_THAT(record, Contains(part));
  }
}

TEST_CASE("a second living process is refused with 1 in silence", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck", "fast_lock");
  const Held held;
  Process rival(kSleeper);
  CHECK(held.at.run({"lock_local", action, "L", rival.pid_text()}) == kSilentNo);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("a process that holds already is told so with 20", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck", "fast_lock");
  const Held held;
  CHECK(held.at.run({"lock_local", action, "L", held.pid}) ==
        Result{20, "", " ERROR - L already locked by " + held.uid + "\n"});
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("the lock of a dead process goes to the next who asks", "[e2e]") {
  const Abandoned held;
  Process next(kSleeper);
  CHECK(held.at.run({"lock_local", "lock", "L", next.pid_text()}) == kSilentYes);
  CHECK(held.at.tree() == held_by(uid_of(next.pid_text())));
}

TEST_CASE("lock_nocheck leaves the lock of a dead process alone", "[e2e]") {
  const std::string action = GENERATE("lock_nocheck", "fast_lock");
  const Abandoned held;
  Process next(kSleeper);
  CHECK(held.at.run({"lock_local", action, "L", next.pid_text()}) == kSilentNo);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("of many processes exactly one recovers an abandoned lock", "[e2e]") {
  const Abandoned held;
  const Result codes = held.at.shell(
      "for i in 1 2 3 4 5 6; do sleep 1000 & pids+=($!); done;"
      "for p in ${pids[@]}; do { lock_local lock L $p; echo $?; } & tries+=($!); done;"
      "wait ${tries[@]}; kill ${pids[@]}");
  INFO(codes);
  CHECK_THAT("\n" + codes.out, Matches("\n(1\n)*0\n(1\n)*"));
  CHECK(held.at.tree().size() == 3);
  CHECK(held.at.tree() != held.tree);
}

TEST_CASE("lock answers 2 with a reason when it cannot be built", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck", "fast_lock");
  const Session at;
  Process self(kSleeper);
  at.must("touch L");
  check_failed(at.run({"lock_local", action, "L", self.pid_text()}), 2, "Not a directory");
}

TEST_CASE("a pid that does not run is named with 20", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck", "fast_lock", "unlock", "is_mine");
  const Session at;
  CHECK(at.run({"lock_local", action, "L", kNoPid}) ==
        Result{20, "",
               " ERROR - obtaining UID for ID(" + kNoPid + ")\n ERROR - process " + kNoPid +
                   " is not running\n"});
  CHECK(at.tree().empty());
}

TEST_CASE("what is no pid is named with 20", "[e2e]") {
  const std::string word = GENERATE("x", "self", "0", "-1", "1 2", "01", "--help 1", "1/../self");
  const std::string action = GENERATE("lock", "lock_nocheck", "unlock", "is_mine");
  const Session at;
  CAPTURE(word, action);
  const Result result = at.run({"lock_local", action, "L", word});
  CHECK(result.code == 20);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, StartsWith(" ERROR - obtaining UID for ID(" + word + ")\n ERROR - "));
  CHECK(at.tree().empty());
}

TEST_CASE("a uid is no pid to lock for", "[e2e]") {
  const Session at;
  Process self(kSleeper);
  const std::string uid = uid_of(self.pid_text());
  const Result result = at.run({"lock_local", "lock", "L", uid});
  CHECK(result.code == 20);
  CHECK_THAT(result.err, StartsWith(" ERROR - obtaining UID for ID(" + uid + ")\n"));
  CHECK(at.tree().empty());
}

TEST_CASE("missing words are a usage error and take no lock", "[e2e]") {
  const auto words = GENERATE(values<std::vector<std::string>>({{},
                                                                {""},
                                                                {"lock"},
                                                                {"lock", "L"},
                                                                {"lock", "L", ""},
                                                                {"lock", "", "1"},
                                                                {"lock_nocheck", "L"},
                                                                {"fast_lock", "L"},
                                                                {"unlock", "L"},
                                                                {"unlock", "L", ""},
                                                                {"is_mine", "L"},
                                                                {"owner"},
                                                                {"owner", ""},
                                                                {"owner_nocheck"},
                                                                {"owner_pid"},
                                                                {"owner_pid_nocheck"},
                                                                {"is_stale"},
                                                                {"kill_owner"},
                                                                {"clean"}}));
  const Session at;
  std::vector<std::string> command = {"lock_local"};
  command.insert(command.end(), words.begin(), words.end());
  CAPTURE(command);
  check_usage(at.run(command));
  CHECK(at.tree().empty());
}

TEST_CASE("lock_local refuses unknown actions and options", "[e2e]") {
  const Session at;
  check_usage(at.run({"lock_local", "touch", "L", "1"}), "touch");
  check_usage(at.run({"lock_local", "ids_in_use", "L"}), "ids_in_use");
  check_usage(at.run({"lock_local", "-x", "lock", "L", "1"}), "-x");
  check_usage(at.run({"lock_local", "--", "lock", "L", "1"}), "--");
  check_usage(at.run({"lock_local", "-s", "x", "lock", "L", "1"}), "-s");
  CHECK(at.tree().empty());
}

TEST_CASE("the holder unlocks by its pid or by its uid", "[e2e]") {
  const bool by_uid = GENERATE(false, true);
  const Held held;
  CHECK(held.at.run({"lock_local", "unlock", "L", by_uid ? held.uid : held.pid}) == kSilentYes);
  CHECK(held.at.tree().empty());
}

TEST_CASE("the lock of a dead process can be given back by its uid", "[e2e]") {
  const Abandoned held;
  CHECK(held.at.run({"lock_local", "unlock", "L", held.uid}) == kSilentYes);
  CHECK(held.at.tree().empty());
}

TEST_CASE("an unlock for a dead pid answers 20 and leaves the lock", "[e2e]") {
  const Abandoned held;
  CHECK(held.at.run({"lock_local", "unlock", "L", held.pid}).code == 20);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("an unlock by a stranger answers 0 with a message and frees nothing", "[e2e]") {
  const Held held;
  Process stranger(kSleeper);
  const std::string id = uid_of(stranger.pid_text());
  CHECK(held.at.run({"lock_local", "unlock", "L", stranger.pid_text()}) ==
        Result{0, "", " ERROR - L is not locked by " + id + "\n"});
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("a second unlock answers 0 with a message", "[e2e]") {
  const Held held;
  held.at.must("lock_local unlock L " + held.pid);
  CHECK(held.at.run({"lock_local", "unlock", "L", held.pid}) ==
        Result{0, "", " ERROR - L is not locked by " + held.uid + "\n"});
}

TEST_CASE("with --strict only the holder's unlock answers 0", "[e2e]") {
  const Held held;
  Process stranger(kSleeper);
  const std::string id = uid_of(stranger.pid_text());
  CHECK(held.at.run({"lock_local", "--strict", "unlock", "L", stranger.pid_text()}) ==
        Result{1, "", " ERROR - L is not locked by " + id + "\n"});
  CHECK(held.at.tree() == held.tree);
  CHECK(held.at.run({"lock_local", "--strict", "unlock", "L", held.pid}) == kSilentYes);
}

TEST_CASE("an unlock cleans every dead proposer", "[e2e]") {
  const Held held;
  const std::string one = dead_uid();
  const std::string two = dead_uid();
  Process alive(kSleeper);
  const std::string rival = uid_of(alive.pid_text());
  held.at.must("for id in " + one + " " + two + " 'no uid' " + rival +
               "; do mkdir -p \"L/build/$id/owner\"; touch \"L/build/$id/owner/$id\"; done");
  CHECK(held.at.run({"lock_local", "unlock", "L", held.pid}) == kSilentYes);
  CHECK(held.at.tree("L") == Tree{"build/", "build/" + rival + "/", "build/" + rival + "/owner/",
                                  "build/" + rival + "/owner/" + rival});
}

TEST_CASE("owner and owner_nocheck print the uid of the holder", "[e2e]") {
  const std::string action = GENERATE("owner", "owner_nocheck");
  const Held held;
  CHECK(held.at.run({"lock_local", action, "L"}) == Result{0, held.uid + "\n", ""});
  CHECK(held.at.run({"lock_local", action, "free"}) == kSilentYes);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("owner of an abandoned lock prints nothing and frees it", "[e2e]") {
  const Abandoned held;
  CHECK(held.at.run({"lock_local", "owner", "L"}) == kSilentYes);
  CHECK(held.at.tree().empty());
}

TEST_CASE("owner_nocheck of an abandoned lock prints the dead and frees nothing", "[e2e]") {
  const Abandoned held;
  CHECK(held.at.run({"lock_local", "owner_nocheck", "L"}) == Result{0, held.uid + "\n", ""});
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("owner_pid and owner_pid_nocheck print the pid of the holder", "[e2e]") {
  const std::string action = GENERATE("owner_pid", "owner_pid_nocheck");
  const Held held;
  CHECK(held.at.run({"lock_local", action, "L"}) == Result{0, held.pid + "\n", ""});
  CHECK(held.at.run({"lock_local", action, "free"}) == kSilentNo);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("owner_pid of an abandoned lock answers 1 and frees it", "[e2e]") {
  const Abandoned held;
  CHECK(held.at.run({"lock_local", "owner_pid", "L"}) == kSilentNo);
  CHECK(held.at.tree().empty());
}

TEST_CASE("owner_pid_nocheck of an abandoned lock answers 1 and frees nothing", "[e2e]") {
  const Abandoned held;
  CHECK(held.at.run({"lock_local", "owner_pid_nocheck", "L"}) == kSilentNo);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("is_mine is 0 for the holder by pid or uid and 1 for others", "[e2e]") {
  const Held held;
  Process other(kSleeper);
  CHECK(held.at.run({"lock_local", "is_mine", "L", held.pid}) == kSilentYes);
  CHECK(held.at.run({"lock_local", "is_mine", "L", held.uid}) == kSilentYes);
  CHECK(held.at.run({"lock_local", "is_mine", "L", other.pid_text()}) == kSilentNo);
  CHECK(held.at.run({"lock_local", "is_mine", "L", uid_of(other.pid_text())}) == kSilentNo);
  CHECK(held.at.run({"lock_local", "is_mine", "free", held.pid}) == kSilentNo);
}

TEST_CASE("the actions work and speak at info level", "[e2e]") {
  const std::string option = GENERATE("-di", "--info");
  const Session at;
  Process self(kSleeper);
  const std::string uid = uid_of(self.pid_text());
  CHECK(at.run({"lock_local", option, "lock", "L", self.pid_text()}) ==
        Result{0, "", "L locked by " + uid + "\n"});
  CHECK(at.run({"lock_local", option, "owner", "L"}) == Result{0, uid + "\n", ""});
  CHECK(at.run({"lock_local", option, "owner_pid", "L"}) == Result{0, self.pid_text() + "\n", ""});
  CHECK(at.run({"lock_local", option, "is_mine", "L", self.pid_text()}).code == 0);
  CHECK(at.run({"lock_local", option, "unlock", "L", self.pid_text()}) ==
        Result{0, "", "L unlocked by " + uid + "\n"});
  CHECK(at.tree().empty());
}

TEST_CASE("the actions work at debug level with the date before every line", "[e2e]") {
  const bool by_variable = GENERATE(false, true);
  const Session at;
  Process self(kSleeper);
  const std::string uid = uid_of(self.pid_text());
  const auto debug = [&](const std::string& action) {
    std::vector<std::string> words{"lock_local", action, "L"};
    if (action != "owner") words.push_back(self.pid_text());
    if (by_variable) return at.run(words, {{"DEBUG", "DEBUG"}});
    words.insert(words.begin() + 1, "--debug");
    return at.run(words);
  };
  const Result locked = debug("lock");
  CHECK(locked.code == 0);
  CHECK_THAT(locked.err, Matches("(" + kDate + " [^\n]+\n)+"));
  CHECK_THAT(locked.err, EndsWith(" L locked by " + uid + "\n"));
  CHECK(debug("owner").out == uid + "\n");
  const Result unlocked = debug("unlock");
  CHECK(unlocked.code == 0);
  CHECK_THAT(unlocked.err, Matches("(" + kDate + " [^\n]+\n)+"));
  CHECK(at.tree().empty());
}

TEST_CASE("a recovery is told at info level", "[e2e]") {
  const Abandoned held;
  Process next(kSleeper);
  CHECK_THAT(held.at.run({"lock_local", "--info", "lock", "L", next.pid_text()}).err,
             EndsWith("recovery needed for " + held.uid + "\nL locked by " +
                      uid_of(next.pid_text()) + "\n"));
}

TEST_CASE("a refusal at info level names the holding process in full", "[e2e]") {
  const Session at;
  Process holder({"/bin/sleep", "1000.5"});
  REQUIRE(at.run({"lock_local", "lock", "L", holder.pid_text()}, {{"LOGNAME", "anna"}}).code == 0);
  Process rival(kSleeper);
  const Result refused = at.run({"lock_local", "--info", "lock", "L", rival.pid_text()});
  const std::string host = run({"uname", "-n"}).out;
  const std::string user = at.shell("printf %s \"$(id -un)\"").out;
  CHECK(refused.code == 1);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, StartsWith("L failed to lock for " + uid_of(rival.pid_text()) + "\n"));
  CHECK_THAT(refused.err,
             Contains("\nL is held by pid " + holder.pid_text() + " (/bin/sleep 1000.5) of " +
                      user + " (LOGNAME anna) on " + host.substr(0, host.size() - 1) + " since "));
  CHECK_THAT(refused.err,
             Matches("[^]* since \\d{4}-\\d\\d-\\d\\d[T ]\\d\\d:\\d\\d:\\d\\d[^\n]*\n"));
}

TEST_CASE("a refusal by a shell holder names its id", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  Process rival(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  at.must("mkdir -p L/owner; touch L/owner/" + uid);
  CHECK_THAT(at.run({"lock_local", "--info", "lock", "L", rival.pid_text()}).err,
             EndsWith("L is held by " + uid + ", who left no record\n"));
}

TEST_CASE("a refusal on a terminal names the holder unasked", "[e2e]") {
  if (!has_program("script")) SKIP_TEST("needs script");
  const Held held;
  Process rival(kSleeper);
  const Result seen = held.at.shell("script -qec 'lock_local lock L " + rival.pid_text() +
                                    "' typescript </dev/null");
  INFO(seen);
  CHECK(seen.code == 1);
  CHECK_THAT(seen.out, Contains("L is held by pid " + held.pid + " (/bin/sleep 1000)"));
}

TEST_CASE("an unlock on a terminal never asks about a write-protected leaf", "[e2e]") {
  if (!has_program("script")) SKIP_TEST("needs script");
  const Held held;
  held.at.must("chmod 0444 L/owner/*");
  const Result seen =
      held.at.shell("script -qec 'lock_local unlock L " + held.pid + "' /dev/null </dev/null");
  INFO(seen);
  CHECK(seen.code == 0);
  CHECK(seen.out.empty());
  CHECK(held.at.tree().empty());
}

TEST_CASE("a live lock of another kind of id is not taken and is warned about", "[e2e][H12]") {
  const Session at;
  Process self(kSleeper);
  hold_by_foreign_id(at);
  const Result result = at.run({"lock_local", "lock", "L", self.pid_text()});
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("WARNING") && Contains(kForeign));
  CHECK(at.run({"lock_local", "owner", "L"}).out == kForeign + "\n");
  CHECK(at.tree() == held_by(kForeign));
}

TEST_CASE("an owner whose id is malformed is stale", "[e2e]") {
  const std::string id = GENERATE("x", "1:2", "a b", ".hidden", "a:b:c");
  const Session at;
  Process self(kSleeper);
  at.must("mkdir -p L/owner; touch 'L/owner/" + id + "'");
  CAPTURE(id);
  CHECK(at.run({"lock_local", "lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.tree() == held_by(uid_of(self.pid_text())));
}

TEST_CASE("a holder that takes a name with blanks keeps its lock", "[e2e][H4]") {
  const Session at;
  at.must("mkfifo never");
  Process holder({"/bin/bash", "-c",
                  "cd " + at.path("") + "; " + tool("lock_local") +
                      " lock L $$ && printf 'x y z' > /proc/self/comm && exec 3<> never &&"
                      " touch ready && read <&3"});
  REQUIRE(eventually([&] { return at.tree().size() == 5; }));
  Process rival(kSleeper);
  CHECK(at.run({"lock_local", "lock", "L", rival.pid_text()}).code == 1);
  CHECK(at.run({"lock_local", "is_mine", "L", holder.pid_text()}).code == 0);
  CHECK(at.run({"lock_local", "owner_pid", "L"}).out == holder.pid_text() + "\n");
  CHECK(at.run({"lock_local", "--strict", "unlock", "L", holder.pid_text()}).code == 0);
  CHECK(at.tree() == Tree{"never", "ready"});
}

TEST_CASE("a shell holder whose name has blanks is safe from us", "[e2e][H4]") {
  const Session at;
  at.must("cp /bin/sleep 'x y z'");
  Process holder({at.path("x y z"), "1000"});
  const std::string pid = holder.pid_text();
  const Result id = shell("echo " + pid + ":$(awk '{print $22}' /proc/" + pid +
                          "/stat):$(awk '$1 == \"btime\" {print $2}' /proc/stat)");
  at.must("mkdir -p L/owner; touch L/owner/" + id.out);
  Process rival(kSleeper);
  CHECK(at.run({"lock_local", "lock", "L", rival.pid_text()}) == kSilentNo);
  holder.kill_and_wait();
  CHECK(at.run({"lock_local", "lock", "L", rival.pid_text()}) == kSilentYes);
}

TEST_CASE("locking under a name with blanks works and warns", "[e2e][H4]") {
  const Session at;
  at.must("cp /bin/sleep 'x y z'");
  Process holder({at.path("x y z"), "1000"});
  const Result locked = at.run({"lock_local", "lock", "L", holder.pid_text()});
  CHECK(locked.code == 0);
  CHECK_THAT(locked.err, Contains("WARNING") && Contains(holder.pid_text()));
  CHECK(at.run({"lock_local", "owner_pid", "L"}).out == holder.pid_text() + "\n");
}

TEST_CASE("a stopped holder keeps its lock", "[e2e][H16]") {
  const Held held;
  Process rival(kSleeper);
  held.holder.signal(SIGSTOP);
  CHECK(held.at.run({"lock_local", "lock", "L", rival.pid_text()}) == kSilentNo);
  CHECK(held.at.tree() == held.tree);
}

TEST_CASE("the lock of a zombie goes to the next who asks", "[e2e][H18]") {
  const Held held;
  Process rival(kSleeper);
  held.holder.signal(SIGKILL);
  CHECK(eventually([&] {
    return held.at.run({"lock_local", "lock", "L", rival.pid_text()}).code == 0;
  }));
}

TEST_CASE("lock_local is_stale is 0 dead and 1 alive and 2 free and 13 unknown", "[e2e]") {
  Held held;
  CHECK(held.at.run({"lock_local", "is_stale", "free"}) == Result{2, "", ""});
  CHECK(held.at.run({"lock_local", "is_stale", "L"}) == kSilentNo);
  held.holder.kill_and_wait();
  CHECK(held.at.run({"lock_local", "is_stale", "L"}) == kSilentYes);
  CHECK(held.at.tree() == held.tree);

  const Session foreign;
  hold_by_foreign_id(foreign);
  const Result unknown = foreign.run({"lock_local", "is_stale", "L"});
  CHECK(unknown.code == 13);
  CHECK(unknown.out.empty());
  CHECK_THAT(unknown.err, Contains("WARNING"));
  CHECK(foreign.tree() == held_by(kForeign));
}

TEST_CASE("lock_local is_stale of a lock with only a proposal is 2", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/build/" + dead_uid() + "/owner");
  const Tree before = at.tree();
  CHECK(at.run({"lock_local", "is_stale", "L"}) == Result{2, "", ""});
  CHECK(at.tree() == before);
}

TEST_CASE("kill_owner ends the holder and leaves the lock to the next", "[e2e]") {
  const auto [signal, status] =
      GENERATE(table<std::string, int>({{"", SIGTERM}, {"KILL", SIGKILL}, {"INT", SIGINT}}));
  Held held;
  std::vector<std::string> command = {"lock_local", "kill_owner", "L"};
  if (!signal.empty()) command.push_back(signal);
  CHECK(held.at.run(command) == kSilentYes);
  CHECK(held.holder.wait() == 128 + status);
  CHECK(held.at.tree() == held.tree);
  CHECK(held.at.run(command) == kSilentNo);
  Process next(kSleeper);
  CHECK(held.at.run({"lock_local", "lock", "L", next.pid_text()}) == kSilentYes);
}

TEST_CASE("kill_owner of a free lock answers 2", "[e2e]") {
  const Session at;
  CHECK(at.run({"lock_local", "kill_owner", "L"}) == Result{2, "", ""});
  CHECK(at.tree().empty());
}

TEST_CASE("kill_owner signals nobody when nobody can tell who it is", "[e2e]") {
  const Session at;
  hold_by_foreign_id(at);
  check_failed(at.run({"lock_local", "kill_owner", "L"}), 13, kForeign);
}

TEST_CASE("kill_owner with an unknown signal is a usage error", "[e2e]") {
  const Held held;
  check_usage(held.at.run({"lock_local", "kill_owner", "L", "NOSUCH"}), "NOSUCH");
  CHECK(held.at.run({"lock_local", "is_stale", "L"}) == kSilentNo);
}

TEST_CASE("kill_owner tells the killed process at info level", "[e2e]") {
  Held held;
  const Result told = held.at.run({"lock_local", "--info", "kill_owner", "L"});
  CHECK(told.code == 0);
  CHECK_THAT(told.err, Contains(held.uid) && Contains("TERM"));
}

TEST_CASE("lock_local clean frees an abandoned lock in silence", "[e2e]") {
  const Abandoned held;
  held.at.must("mkdir -p L/build/.gone.1 L/in_use/x L/build/" + dead_uid() + "/owner");
  CHECK(held.at.run({"lock_local", "clean", "L"}) == kSilentYes);
  CHECK(held.at.tree().empty());
  CHECK(held.at.run({"lock_local", "clean", "L"}) == kSilentYes);
}

TEST_CASE("lock_local clean keeps a living holder and says 1", "[e2e]") {
  const Held held;
  held.at.must("mkdir -p L/build/.gone.1/x L/build/" + dead_uid() + "/owner");
  CHECK(held.at.run({"lock_local", "clean", "L"}) == kSilentNo);
  CHECK(held.at.tree() == held.tree);
  CHECK(held.at.run({"lock_local", "clean", "L"}) == kSilentNo);
}

TEST_CASE("lock_local clean takes living proposals only when they are old", "[e2e]") {
  const Session at;
  Process proposer(kSleeper);
  const std::string uid = uid_of(proposer.pid_text());
  at.must("mkdir -p L/build/" + uid + "/owner; touch L/build/" + uid + "/owner/" + uid);
  const Tree before = at.tree();
  CHECK(at.run({"lock_local", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == before);
  CHECK(at.run({"lock_local", "--older-than", "0", "clean", "L"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("lock_local with folders as leaves recovers from the dead too", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  Process next(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  CHECK(at.run({"lock_local", "--dir-leaf", "lock", "L", holder.pid_text()}) == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/" + uid + "/"});
  CHECK(at.run({"lock_local", "owner_pid", "L"}) == Result{0, holder.pid_text() + "\n", ""});
  CHECK(at.run({"lock_local", "is_mine", "L", holder.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_local", "lock", "L", next.pid_text()}) == kSilentNo);
  CHECK(at.run({"lock_local", "is_stale", "L"}) == kSilentNo);
  holder.kill_and_wait();
  CHECK(at.run({"lock_local", "is_stale", "L"}) == kSilentYes);
  CHECK(at.run({"lock_local", "--dir-leaf", "lock", "L", next.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_local", "unlock", "L", next.pid_text()}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("a lock path that looks like an option is a lock", "[e2e]") {
  const Session at;
  Process self(kSleeper);
  const std::string lock = GENERATE("--help x", "--infos", "a lock");
  CHECK(at.run({"lock_local", "lock", lock, self.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_local", "owner_pid", lock}).out == self.pid_text() + "\n");
  CHECK(at.run({"lock_local", "unlock", lock, self.pid_text()}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("a script locks for itself and its trap unlocks", "[e2e]") {
  const Session at;
  const Result result = at.shell(
      "trap 'lock_local unlock L $$; lock_local owner L' EXIT;"
      "until lock_local lock L $$; do :; done; [ \"$(lock_local owner_pid L)\" = $$ ] && echo "
      "mine");
  CHECK(result == Result{0, "mine\n", ""});
  CHECK(at.tree().empty());
}

TEST_CASE("lock_local runs under its shell name", "[e2e]") {
  const Held held;
  const std::string script = build_dir() + "/libexec/holdfast/lockers/lock_local.sh";
  CHECK(held.at.run({script, "owner_pid", "L"}) == Result{0, held.pid + "\n", ""});
  CHECK(held.at.run({script, "unlock", "L", held.pid}) == kSilentYes);
}

TEST_CASE("a process that took another name is told that it holds the lock already", "[e2e][H4]") {
  const Session at;
  const Result result =
      at.shell("lock_local lock L $$ && printf 'x y z' > /proc/$$/comm && lock_local lock L $$");
  CHECK(result.code == 20);
  CHECK_THAT(result.err, Catch::Contains("L already locked by"));
}

TEST_CASE("work that outlives its process does not keep the lock", "[e2e][H13]") {
  // as the page says: the lock belongs to the process, not to what it left running
  const Session at;
  const Result first = at.shell("lock_local lock L $$; sleep 1000 >/dev/null 2>&1 & echo $!");
  const std::string child = first.out.substr(0, first.out.find('\n'));
  CHECK(at.shell("kill -0 " + child + " && lock_local lock L $$").code == 0);
  CHECK(at.shell("kill -KILL " + child).code == 0);
}

TEST_CASE("a leaf of any size is met with a refusal", "[e2e]") {
  if (kIsSanitized) SKIP_TEST("a sanitizer needs more memory than that");
  const Session at;
  at.must("mkdir -p L/owner; truncate -s 3G L/owner/1:200:3");
  const Result foreign = at.shell("ulimit -v 1500000; lock_local lock L $$");
  CHECK(foreign.code == 2);
  CHECK_THAT(foreign.err, Catch::Contains("L/owner/1:200:3 was not made by a locker"));
  at.must("printf '{\"v\":1' > L/owner/1:200:3; truncate -s 3G L/owner/1:200:3");
  const Result record = at.shell("ulimit -v 1500000; lock_local lock L $$");
  CHECK(record.code == 1);
  CHECK_THAT(record.err, Catch::Contains("its record cannot be read"));
}
