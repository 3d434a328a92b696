/// hostpid_lock as a shell user meets it, with id helpers that are scripts.

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::StartsWith;

namespace {

using Words = std::vector<std::string>;

Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// A host called host1 with an id helper ./helper: ids are host1:PID:GENERATION with the text of
/// ./generation, whoever is listed in ./dead is stale, and ./status, if it is there, is what
/// is_stale exits with instead. It notes its words in ./asked, a line per call with '|' after each.
class Host : public Session {
 public:
  Host() {
    must(
        "touch dead asked; echo 7 > generation; cat > helper <<'END'\n"
        "#!/bin/bash\n"
        "{ printf '%s|' \"$@\"; echo; } >> asked\n"
        "while [ \"$1\" = --on-check-fail ] || [ \"$1\" = extra ]; do\n"
        "  [ \"$1\" = extra ] || shift; shift\n"
        "done\n"
        "IFS=: read -r host pid generation <<< \"$2\"\n"
        "case $1 in\n"
        "uid) kill -0 \"$2\" 2> /dev/null && echo \"host1:$2:$(cat generation)\" ;;\n"
        "pid) [ -n \"$generation\" ] || { echo \"bad id '$2'\" >&2; exit 20; }; echo \"$pid\" ;;\n"
        "hostid) [ -n \"$generation\" ] || exit 20; echo \"$host\" ;;\n"
        "is_valid_uid) [ -n \"$generation\" ] ;;\n"
        "is_stale) [ ! -e status ] || exit \"$(cat status)\"; grep -qxF -e \"$2\" dead ;;\n"
        "is_host_compatible) echo said; [ \"$2\" = host1 ] || exit 11 ;;\n"
        "kill) [ \"$3\" = 15 ] || exit 15 ;;\n"
        "*) exit 10 ;;\n"
        "esac\n"
        "END\n"
        "chmod +x helper");
  }

  Result hostpid(const Words& words) const {
    return run(Words{"hostpid_lock", "--idhelper", "./helper"} + words);
  }
  /// With no grace to wait for.
  Result at_once(const Words& words) const {
    return hostpid(Words{"--grace-seconds", "0"} + words);
  }
  std::string id(const Process& process, const std::string& generation = "7") const {
    return "host1:" + process.pid_text() + ":" + generation;
  }
  void condemn(const std::string& uid) const { must("echo '" + uid + "' >> dead"); }
  /// What it was asked since the last time, calls of one action only.
  std::string asked(const std::string& action) const {
    const Result lines = shell("grep -F '" + action + "|' asked; : > asked");
    return lines.out;
  }
  Tree held_by(const std::string& uid) const {
    return {"in_use/", "in_use/" + uid + "/", "owner/", "owner/" + uid};
  }
};

}  // namespace

TEST_CASE("hostpid_lock goes through the life of a lock", "[e2e]") {
  const Host at;
  const Process self(kSleeper);
  const Process other(kSleeper);
  CHECK(at.hostpid({"lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.tree("L") == at.held_by(at.id(self)));
  CHECK(at.hostpid({"lock", "L", other.pid_text()}) == kSilentNo);
  CHECK(at.hostpid({"lock_check", "L", other.pid_text()}) == kSilentNo);
  CHECK(at.hostpid({"fast_lock", "L", other.pid_text()}) == kSilentNo);
  CHECK(at.hostpid({"owner", "L"}) == Result{0, at.id(self) + "\n", ""});
  CHECK(at.hostpid({"owner_pid", "L"}) == Result{0, self.pid_text() + "\n", ""});
  CHECK(at.hostpid({"owner_hostid", "L"}) == Result{0, "host1\n", ""});
  CHECK(at.hostpid({"is_mine", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.hostpid({"is_mine", "L", other.pid_text()}) == kSilentNo);
  CHECK(at.hostpid({"is_stale", "L"}) == kSilentNo);
  CHECK(at.hostpid({"clean", "L"}) == kSilentNo);
  CHECK(at.hostpid({"unlock", "L", other.pid_text()}) ==
        Result{1, "", " ERROR - L is not locked by " + at.id(other) + "\n"});
  CHECK(at.hostpid({"unlock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.tree("L").empty());
  CHECK(at.shell("test ! -e L").code == 0);
}

TEST_CASE("hostpid_lock tells a process that holds already with 20", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_check", "fast_lock");
  const Host at;
  const Process self(kSleeper);
  CHECK(at.hostpid({action, "L", self.pid_text()}) == kSilentYes);
  CHECK(at.hostpid({action, "L", self.pid_text()}) ==
        Result{20, "", " ERROR - L already locked by " + at.id(self) + "\n"});
}

TEST_CASE("a pid that is none or runs no more is told with 20 and makes nothing", "[e2e][Q16]") {
  const std::string action = GENERATE("lock", "lock_check", "fast_lock", "unlock", "is_mine");
  const auto [word, reason] = GENERATE(table<std::string, std::string>({
      {kNoPid, "process " + kNoPid + " is not running"},
      {"word", "process word is not running"},
      {"", "process  is not running"},
  }));
  const Host at;
  CHECK(at.hostpid({action, "L", word}) ==
        Result{20, "", " ERROR - obtaining UID for ID(" + word + ")\n ERROR - " + reason + "\n"});
  CHECK(at.shell("test ! -e L").code == 0);
}

TEST_CASE("a missing pid is told with 20", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_check", "fast_lock", "unlock", "is_mine");
  const Host at;
  const Result result = at.hostpid({action, "L"});
  CHECK(result.code == 20);
  CHECK_THAT(result.err, StartsWith(" ERROR - obtaining UID for ID()\n"));
}

TEST_CASE("a lock by uid is refused with 20 and an unlock by uid is not", "[e2e][Q5]") {
  const Host at;
  Process self(kSleeper);
  const std::string uid = at.id(self);
  CHECK(at.hostpid({"lock", "L", uid}).code == 20);
  CHECK(at.hostpid({"lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.hostpid({"is_mine", "L", uid}) == kSilentYes);
  CHECK(at.hostpid({"is_mine", "L", "host2:1:1"}) == kSilentNo);
  CHECK(at.hostpid({"unlock", "L", "host2:1:1"}).code == 1);
  CHECK(at.hostpid({"unlock", "L", "host1:1"}).code == 20);
  self.kill_and_wait();  // also when it is dead
  CHECK(at.hostpid({"unlock", "L", uid}) == kSilentYes);
  CHECK(at.shell("test ! -e L").code == 0);
}

TEST_CASE("a process whose id changed its text is still the holder", "[e2e][H9]") {
  const Session at;
  const Process self(kSleeper);
  const Words local = {"hostpid_lock", "--idhelper", tool("local_id")};
  const std::string now = uid_of(self.pid_text());
  const std::string earlier = now.substr(0, now.rfind(':')) + ":1";  // the clock was stepped since
  CHECK(at.run(local + Words{"lock", "L", self.pid_text()}) == kSilentYes);
  at.must("mv L/owner/" + now + " L/owner/" + earlier);
  CHECK(at.run(local + Words{"lock", "L", self.pid_text()}) ==
        Result{20, "", " ERROR - L already locked by " + earlier + "\n"});
  CHECK(at.run(local + Words{"is_mine", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run(local + Words{"is_mine", "L", now}) == kSilentNo);
  CHECK(at.run(local + Words{"unlock", "L", now}).code == 1);
  CHECK(at.run({"fast_lock", "owner", "L"}).out == earlier + "\n");
  CHECK(at.run(local + Words{"unlock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("a holder of the same number in a container is not the one that asks", "[e2e][H11]") {
  const Session at;
  const Process self(kSleeper);
  const Words local = {"hostpid_lock", "--idhelper", tool("local_id")};
  const std::string uid = uid_of(self.pid_text());
  at.must("lock_local lock L " + self.pid_text() + "; mv L/owner/" + uid + " L/owner/" + uid +
          "0; sed -i 's/\"pidns\":\"[^\"]*\"/\"pidns\":\"pid:[1]\"/' L/owner/*");
  CHECK(at.run(local + Words{"lock", "L", self.pid_text()}).code == 1);
  CHECK(at.run(local + Words{"is_mine", "L", self.pid_text()}) == kSilentNo);
  CHECK(at.run(local + Words{"unlock", "L", self.pid_text()}).code == 1);
  CHECK(at.run({"fast_lock", "owner", "L"}).out == uid + "0\n");
}

TEST_CASE("a dead process of the same pid is not mistaken for the one that asks", "[e2e]") {
  const Host at;
  const Process self(kSleeper);
  at.must("fast_lock lock L " + at.id(self, "6"));
  at.condemn(at.id(self, "6"));
  CHECK(at.hostpid({"is_mine", "L", self.pid_text()}) == kSilentNo);
  CHECK(at.hostpid({"unlock", "L", self.pid_text()}).code == 1);
  CHECK(at.run({"fast_lock", "owner", "L"}).out == at.id(self, "6") + "\n");
}

TEST_CASE("a dead holder is cleaned after the grace and the next lock wins", "[e2e]") {
  const Host at;
  const Process rival(kSleeper);
  at.must("fast_lock lock L host2:1:1; mkdir -p L/in_use/host2:1:1");
  at.condemn("host2:1:1");
  CHECK(at.hostpid({"lock", "L", rival.pid_text()}) == kSilentNo);  // 10 s by default
  CHECK(at.asked("is_stale").empty());
  CHECK(at.hostpid({"lock", "L", rival.pid_text(), "0"}) == kSilentNo);
  CHECK(at.asked("is_stale") == "is_stale|host2:1:1|\n");
  CHECK(at.hostpid({"lock", "L", rival.pid_text()}) == kSilentYes);
  CHECK(at.tree("L") == at.held_by(at.id(rival)));
}

TEST_CASE("lock_check of hostpid_lock takes the lock of the dead at once", "[e2e]") {
  const Host at;
  const Process rival(kSleeper);
  at.must("fast_lock lock L host2:1:1");
  at.condemn("host2:1:1");
  CHECK(at.hostpid({"lock_check", "L", rival.pid_text()}) == kSilentYes);
  CHECK(at.tree("L") == at.held_by(at.id(rival)));
}

TEST_CASE("the grace comes from the third word or the option or is 10", "[e2e]") {
  const auto [before, after, asks] = GENERATE(table<Words, Words, bool>({
      {{}, {}, false},
      {{"--grace-seconds", "0"}, {}, true},
      {{"--grace-seconds", "1000"}, {"0"}, true},
      {{"--grace-seconds", "0"}, {"1000"}, false},
      {{"--grace-seconds", "0"}, {""}, true},
  }));
  const Host at;
  const Process rival(kSleeper);
  at.must("fast_lock lock L host2:1:1; mkdir -p L/in_use/host2:1:1");
  CHECK(at.hostpid(before + Words{"lock", "L", rival.pid_text()} + after) == kSilentNo);
  CHECK(at.asked("is_stale").empty() != asks);
}

TEST_CASE("the environment does not change the grace of hostpid_lock", "[e2e]") {
  const Host at;
  const Process rival(kSleeper);
  at.must("fast_lock lock L host2:1:1; mkdir -p L/in_use/host2:1:1");
  CHECK(at.run({"hostpid_lock", "--idhelper", "./helper", "lock", "L", rival.pid_text()},
               {{"GRACE_SECONDS", "0"}, {"CHECK_FAIL", "x"}, {"LOCKER_ARGS", "-d"}}) == kSilentNo);
  CHECK(at.asked("is_stale").empty());
}

TEST_CASE("a grace of hostpid_lock that is no number is a usage error", "[e2e][Q8]") {
  const std::string bad = GENERATE("-1", "x", "1.5");
  const Host at;
  const Process self(kSleeper);
  check_usage(at.hostpid({"--grace-seconds", bad, "lock", "L", self.pid_text()}),
              "number of seconds");
  check_usage(at.hostpid({"lock", "L", self.pid_text(), bad}), "number of seconds");
  CHECK(at.shell("test ! -e L").code == 0);
}

TEST_CASE("the checker is asked with the words that the options compose", "[e2e]") {
  const auto [options, expected] = GENERATE(table<Words, std::string>({
      {{"--idhelper", "./helper"}, "is_stale|host2:1:1|\n"},
      {{"--idhelper", "./helper", "--idhelper", "extra"}, "extra|is_stale|host2:1:1|\n"},
      {{"--idhelper", "./helper", "--on-check-fail", "notify"},
       "--on-check-fail|notify|--on-check-fail|L|is_stale|host2:1:1|\n"},
      {{"--on-check-fail", "notify", "--idhelper", "./helper", "--on-check-fail", "--two words"},
       "--on-check-fail|notify|--on-check-fail|--two words|--on-check-fail|L|is_stale|host2:1:1|"
       "\n"},
      {{"--checker", "./checker", "--idhelper", "./helper"}, "checker|is_stale|host2:1:1|\n"},
      {{"--idhelper", "./helper", "--checker", "./checker", "--checker", "-x", "--on-check-fail",
        "n"},
       "checker|-x|--on-check-fail|n|--on-check-fail|L|is_stale|host2:1:1|\n"},
  }));
  const Host at;
  const Process rival(kSleeper);
  at.must(
      "fast_lock lock L host2:1:1; cat > checker <<'END'\n"
      "#!/bin/bash\n"
      "{ printf '%s|' checker \"$@\"; echo; } >> asked; exit 1\n"
      "END\n"
      "chmod +x checker");
  const std::string action = GENERATE("lock", "lock_check");
  CHECK(at.run(Words{"hostpid_lock", "--grace-seconds", "0"} + options +
               Words{action, "L", rival.pid_text()}) == kSilentNo);
  // lock_check asks about the holder, and ponders afterwards
  CHECK_THAT(at.asked("is_stale"), StartsWith(expected));
}

TEST_CASE("the words of the id helper go before each action", "[e2e]") {
  const Host at;
  const Process self(kSleeper);
  const Words extra = {"hostpid_lock", "--idhelper", "./helper", "--idhelper", "extra"};
  CHECK(at.run(extra + Words{"lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run(extra + Words{"owner_pid", "L"}).out == self.pid_text() + "\n");
  CHECK(at.run(extra + Words{"is_host_compatible", "host1"}).code == 0);
  CHECK(read_file(at.path("asked")) == "extra|uid|" + self.pid_text() + "|\nextra|pid|" +
                                           at.id(self) + "|\nextra|is_host_compatible|host1|\n");
}

TEST_CASE("a checker that cannot tell leaves the lock of a host that is away", "[e2e]") {
  const std::string status = GENERATE("10", "11", "13", "20", "127");
  const Host at;
  const Process rival(kSleeper);
  at.must("fast_lock lock L host2:1:1; echo " + status + " > status");
  for (const char* action : {"lock", "lock_check"}) {
    const Result result = at.at_once({action, "L", rival.pid_text()});
    CHECK(result.code == 1);
    CHECK_THAT(result.err, Contains("WARNING: L: unable to identify live/staleness for host2:1:1"));
  }
  CHECK(at.hostpid({"clean", "L"}).code == 1);
  CHECK(std::to_string(at.hostpid({"is_stale", "L"}).code) == status);
  CHECK(at.run({"fast_lock", "owner", "L"}).out == "host2:1:1\n");
}

TEST_CASE("is_stale and clean of hostpid_lock follow the checker", "[e2e]") {
  const Host at;
  CHECK(at.hostpid({"is_stale", "L"}) == Result{2, "", ""});
  CHECK(at.hostpid({"clean", "L"}) == kSilentYes);
  at.must("fast_lock lock L host2:1:1");
  CHECK(at.hostpid({"is_stale", "L"}) == kSilentNo);
  CHECK(at.hostpid({"clean", "L"}) == kSilentNo);
  at.condemn("host2:1:1");
  CHECK(at.hostpid({"is_stale", "L"}) == kSilentYes);
  CHECK(at.hostpid({"owner", "L"}).out == "host2:1:1\n");
  CHECK(at.hostpid({"clean", "L"}) == kSilentYes);
  CHECK(at.shell("test ! -e L").code == 0);
}

TEST_CASE("the fields of a free lock are the id helper's word for no id", "[e2e]") {
  const Host at;
  CHECK(at.hostpid({"owner", "L"}) == kSilentYes);
  CHECK(at.hostpid({"owner_pid", "L"}) == Result{20, "", "bad id ''\n"});
  CHECK(at.hostpid({"owner_hostid", "L"}) == Result{20, "", ""});
}

TEST_CASE("is_host_compatible passes on what the id helper says", "[e2e]") {
  const Host at;
  CHECK(at.hostpid({"is_host_compatible", "host1"}) == Result{0, "said\n", ""});
  CHECK(at.hostpid({"is_host_compatible", "host2"}) == Result{11, "said\n", ""});
}

TEST_CASE("kill_owner has the id helper signal the holder", "[e2e]") {
  const Host at;
  CHECK(at.hostpid({"kill_owner", "L"}) == Result{2, "", ""});
  at.must("fast_lock lock L host2:1:1");
  CHECK(at.hostpid({"kill_owner", "L"}) == kSilentYes);
  CHECK(at.asked("kill") == "kill|host2:1:1|15|\n");
  const Result stubborn = at.hostpid({"kill_owner", "L", "KILL"});
  CHECK(stubborn.code == 15);
  CHECK_THAT(stubborn.err, Contains("host2:1:1 got signal KILL and is still running"));
  CHECK(at.asked("kill") == "kill|host2:1:1|9|\n");
  check_usage(at.hostpid({"kill_owner", "L", "NOSUCH"}), "unknown signal");
}

TEST_CASE("what the checker of hostpid_lock prints keeps off stdout but for lock_check", "[e2e]") {
  const Host at;
  const Process rival(kSleeper);
  at.must(
      "fast_lock lock L host2:1:1; mkdir -p L/in_use/host2:1:1;"
      "printf '#!/bin/bash\\necho to out; exit 1\\n' > c; chmod +x c");
  const Words checked = {"--checker", "./c", "--grace-seconds"};
  CHECK(at.hostpid(checked + Words{"0", "lock", "L", rival.pid_text()}) ==
        Result{1, "", "to out\n"});
  CHECK(at.hostpid(checked + Words{"1000", "lock_check", "L", rival.pid_text()}) ==
        Result{1, "to out\n", ""});
}

TEST_CASE("hostpid_lock without an id helper is a usage error and hangs nobody", "[e2e][Q11]") {
  const auto [action, pid] = GENERATE(table<std::string, std::string>({
      {"lock", "1"},
      {"lock_check", "1"},
      {"fast_lock", "1"},
      {"unlock", "1"},
      {"is_mine", "1"},
      {"owner_pid", ""},
      {"is_stale", ""},
      {"clean", ""},
      {"kill_owner", ""},
      {"is_host_compatible", ""},
  }));
  const Session at;
  std::vector<std::string> words{"hostpid_lock", action, "L"};
  if (!pid.empty()) words.push_back(pid);
  check_usage(at.run(words), "id helper");
  CHECK(at.tree().empty());
}

TEST_CASE("the owner can be read without an id helper", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"hostpid_lock", "owner", "L"}) == Result{0, "a\n", ""});
}

TEST_CASE("an id helper that does not exist locks nothing", "[e2e]") {
  const Session at;
  const Process self(kSleeper);
  const Result result =
      at.run({"hostpid_lock", "--idhelper", "./none", "lock", "L", self.pid_text()});
  CHECK(result == Result{20, "",
                         " ERROR - obtaining UID for ID(" + self.pid_text() +
                             ")\n ERROR - ./none exited with 127\n"});
  CHECK(at.tree().empty());
}

TEST_CASE("an unknown action of hostpid_lock is a usage error", "[e2e]") {
  const auto words = GENERATE(values<Words>({{},
                                             {"lock_nocheck", "L", "1"},
                                             {"owner_nocheck", "L"},
                                             {"is_valid_uid", "L"},
                                             {"lock"},
                                             {"owner", ""},
                                             {"--no-such-option", "owner", "L"}}));
  const Host at;
  check_usage(at.hostpid(words));
}

TEST_CASE("options after the action of hostpid_lock are plain words", "[e2e]") {
  const Host at;
  const Process self(kSleeper);
  CHECK(at.hostpid({"lock", "--help x", self.pid_text()}) == kSilentYes);
  CHECK(at.hostpid({"owner", "--help x"}) == Result{0, at.id(self) + "\n", ""});
  CHECK(at.hostpid({"unlock", "--help x", self.pid_text()}) == kSilentYes);
}

TEST_CASE("hostpid_lock with local_id knows the process of its holder", "[e2e]") {
  const Session at;
  Process self(kSleeper);
  const Process rival(kSleeper);
  const Words local = {"hostpid_lock", "--idhelper", tool("local_id"), "--grace-seconds", "0"};
  CHECK(at.run(local + Words{"lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_local", "is_mine", "L", self.pid_text()}) == kSilentYes);
  const Result refused = at.run(local + Words{"--info", "lock", "L", rival.pid_text()});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("\nL is held by pid " + self.pid_text() + " (/bin/sleep 1000)"));
  CHECK(at.run(local + Words{"owner_pid", "L"}).out == self.pid_text() + "\n");
  CHECK(at.run(local + Words{"kill_owner", "L", "KILL"}) == kSilentYes);
  self.wait();
  CHECK(at.run(local + Words{"lock", "L", rival.pid_text()}) == kSilentNo);
  CHECK(at.run(local + Words{"lock", "L", rival.pid_text()}) == kSilentYes);
}
