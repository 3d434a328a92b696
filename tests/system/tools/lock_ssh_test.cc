/// lock_ssh as a shell user meets it on one host; with others it is tested in tests/system/cluster.

#include <algorithm>
#include <thread>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;

namespace {

std::string ssh_uid(const std::string& pid) {
  const Result made = run({"ssh_id", "uid", pid});
  REQUIRE(made.code == 0);
  return made.out.substr(0, made.out.size() - 1);
}

const Env kNobody = {{"HOLDFAST_SSH_CONNECT_TIMEOUT", "2"}, {"HOLDFAST_SSH_TIMEOUT", "3"}};

}  // namespace

TEST_CASE("lock_ssh locks and tells its owner and unlocks", "[e2e]") {
  const Session at;
  const Process holder(kSleeper);
  const Process rival(kSleeper);
  const std::string uid = ssh_uid(holder.pid_text());
  CHECK(at.run({"lock_ssh", "lock", "L", holder.pid_text()}) == kSilentYes);
  CHECK(at.tree("L") == Tree{"in_use/", "in_use/" + uid + "/", "owner/", "owner/" + uid});
  CHECK(at.run({"lock_ssh", "lock", "L", rival.pid_text()}) == kSilentNo);
  check_failed(at.run({"lock_ssh", "lock", "L", holder.pid_text()}), 20, "already locked by");
  CHECK(at.run({"lock_ssh", "owner", "L"}) == Result{0, uid + "\n", ""});
  CHECK(at.run({"lock_ssh", "owner_pid", "L"}) == Result{0, holder.pid_text() + "\n", ""});
  CHECK(at.run({"lock_ssh", "owner_hostid", "L"}) ==
        Result{0, uid.substr(0, uid.find(':')) + "\n", ""});
  CHECK(at.run({"lock_ssh", "is_mine", "L", holder.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_ssh", "is_mine", "L", uid}) == kSilentYes);
  CHECK(at.run({"lock_ssh", "is_mine", "L", rival.pid_text()}) == kSilentNo);
  CHECK(at.run({"lock_ssh", "is_stale", "L"}).code == 1);
  CHECK(at.run({"lock_ssh", "unlock", "L", rival.pid_text()}).code == 1);
  CHECK(at.run({"lock_ssh", "unlock", "L", holder.pid_text()}) == kSilentYes);
  CHECK(at.tree().empty());
  CHECK(at.run({"lock_ssh", "is_stale", "L"}).code == 2);
}

TEST_CASE("lock_ssh unlocks by uid", "[e2e][Q5]") {
  const Session at;
  const Process holder(kSleeper);
  REQUIRE(at.run({"lock_ssh", "lock", "L", holder.pid_text()}).code == 0);
  CHECK(at.run({"lock_ssh", "unlock", "L", ssh_uid(holder.pid_text())}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("lock_ssh needs no journey for a holder whose record is of this host", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  const Process rival(kSleeper);
  REQUIRE(at.run({"lock_ssh", "lock", "L", holder.pid_text()}).code == 0);
  CHECK(at.run({"lock_ssh", "lock_check", "L", rival.pid_text()}, kNobody) == kSilentNo);
  holder.kill_and_wait();
  CHECK(at.run({"lock_ssh", "is_stale", "L"}, kNobody).code == 0);
  CHECK(at.run({"lock_ssh", "lock_check", "L", rival.pid_text()}, kNobody) == kSilentYes);
  CHECK(at.run({"lock_ssh", "owner_pid", "L"}).out == rival.pid_text() + "\n");
}

TEST_CASE("lock_ssh lock recovers a dead holder after the grace and the next one wins", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  const Process rival(kSleeper);
  REQUIRE(at.run({"lock_ssh", "lock", "L", holder.pid_text()}).code == 0);
  holder.kill_and_wait();
  CHECK(at.run({"lock_ssh", "--grace-seconds", "1000", "lock", "L", rival.pid_text()}) ==
        kSilentNo);
  CHECK(at.run({"lock_ssh", "owner_pid", "L"}).out == holder.pid_text() + "\n");
  CHECK(at.run({"lock_ssh", "lock", "L", rival.pid_text(), "0"}) == kSilentNo);
  CHECK(at.run({"lock_ssh", "lock", "L", rival.pid_text(), "0"}) == kSilentYes);
}

TEST_CASE("a holder on a silent host is never recovered and the notifier hears of it", "[e2e]") {
  const Session at;
  const Process rival(kSleeper);
  const std::string far = "nowhere.invalid:4242:5000:1700000000";
  REQUIRE(at.run({"fast_lock", "lock", "L", far}).code == 0);
  const Result refused = at.run({"lock_ssh", "--on-check-fail", "printf", "--on-check-fail", "%s|",
                                 "lock_check", "L", rival.pid_text()},
                                kNobody);
  INFO(refused);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.out, Catch::StartsWith("L|") && Contains("|" + far + "|WARNING: host(") &&
                              Catch::EndsWith("for " + far + ": SSHDEST Incompatible|"));
  CHECK(at.run({"lock_ssh", "lock", "L", rival.pid_text(), "0"}, kNobody).code == 1);
  CHECK(at.run({"lock_ssh", "is_stale", "L"}, kNobody).code == 10);
  CHECK(at.run({"lock_ssh", "kill_owner", "L"}, kNobody).code == 10);
  CHECK(at.run({"lock_ssh", "clean", "L"}, kNobody).code == 1);
  CHECK(at.run({"lock_ssh", "owner", "L"}).out == far + "\n");
}

TEST_CASE("what a notifier prints does not get into the answer of a lock", "[e2e]") {
  const Session at;
  const Process rival(kSleeper);
  REQUIRE(at.run({"fast_lock", "lock", "L", "nowhere.invalid:4242:5000:1700000000"}).code == 0);
  const Result refused =
      at.run({"lock_ssh", "--on-check-fail", "echo", "lock", "L", rival.pid_text(), "0"}, kNobody);
  INFO(refused);
  CHECK(refused.code == 1);
  CHECK(refused.out.empty());
  CHECK_THAT(refused.err, Contains("L ") && Contains("SSHDEST Incompatible"));
}

TEST_CASE("lock_ssh puts its id helper in front of further words", "[e2e]") {
  const Session at;
  const Process holder(kSleeper);
  at.must("printf '#!/bin/sh\\nexit 1\\n' > judge; chmod +x judge");
  REQUIRE(at.run({"lock_ssh", "--checker", "./judge", "lock", "L", holder.pid_text()}).code == 0);
  // words that ssh_id takes for options are its own, others are its action: nobody knows that one
  CHECK(at.run({"lock_ssh", "--idhelper", "--on-check-fail", "--idhelper", "echo", "is_mine", "L",
                holder.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_ssh", "--idhelper", "nonsense", "is_mine", "L", holder.pid_text()}).code ==
        20);
}

TEST_CASE("an id helper that is asked for its version calls nobody dead", "[e2e]") {
  const Session at;
  const Process holder(kSleeper);
  const Process rival(kSleeper);
  REQUIRE(at.run({"lock_ssh", "lock", "L", holder.pid_text()}).code == 0);
  const std::string word = GENERATE("--version", "--help");
  const std::string further = GENERATE("--info", "nonsense");
  CAPTURE(word, further);
  CHECK(at.run({"lock_ssh", "--idhelper", word, "--idhelper", further, "is_stale", "L"}).code ==
        10);
  CHECK(at.run({"lock_ssh", "--idhelper", word, "--idhelper", further, "lock_check", "L",
                rival.pid_text()})
            .code == 10);
  CHECK(at.run({"lock_ssh", "is_mine", "L", holder.pid_text()}).code == 0);
}

TEST_CASE("lock_ssh says which process does not run and locks nothing", "[e2e][Q16]") {
  const Session at;
  const std::string given = GENERATE(as<std::string>(), kNoPid, "x", "host:1:2:3");
  for (const char* action : {"lock", "lock_check", "fast_lock"}) {
    CAPTURE(action, given);
    const Result result = at.run({"lock_ssh", action, "L", given});
    INFO(result);
    CHECK(result.code == 20);
    CHECK_THAT(result.err, Catch::StartsWith(" ERROR - obtaining UID for ID(" + given + ")\n"));
  }
  CHECK(at.tree().empty());
}

TEST_CASE("a grace that is no number is refused and the lock untouched", "[e2e][Q8]") {
  const Session at;
  const Process holder(kSleeper);
  const std::string grace = GENERATE(as<std::string>(), "-1", "x", "1.5", "99999999999");
  CAPTURE(grace);
  check_usage(at.run({"lock_ssh", "--grace-seconds", grace, "lock", "L", holder.pid_text()}));
  check_usage(at.run({"lock_ssh", "lock", "L", holder.pid_text(), grace}));
  CHECK(at.tree().empty());
}

TEST_CASE("lock_ssh kills its owner on this host", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  REQUIRE(at.run({"lock_ssh", "lock", "L", holder.pid_text()}).code == 0);
  std::thread reaper([&] { holder.wait(); });
  CHECK(at.run({"lock_ssh", "kill_owner", "L"}).code == 0);
  reaper.join();
  CHECK(at.run({"lock_ssh", "kill_owner", "L"}).code == 1);
  CHECK(at.run({"lock_ssh", "clean", "L"}) == kSilentYes);
  CHECK(at.run({"lock_ssh", "kill_owner", "L"}).code == 2);
  CHECK(at.tree().empty());
}

TEST_CASE("a free lock_ssh costs no journey and starts no program", "[e2e]") {
  if (kIsSanitized) SKIP_TEST("a sanitizer makes calls of its own");
  const Session at;
  const Process holder(kSleeper);
  for (const char* action : {"lock", "unlock"}) {
    const Result traced =
        at.run({"strace", "-f", "-qq", "-o", "trace", "-e", "trace=execve,fork,vfork,clone,clone3",
                tool("lock_ssh"), action, "L", holder.pid_text()});
    INFO(traced << read_file(at.path("trace")));
    CHECK(traced.code == 0);
    const std::string trace = read_file(at.path("trace"));
    CHECK(std::count(trace.begin(), trace.end(), '\n') == 1);  // its own execve
  }
}
