/// semaphore and semaphore_ssh as a shell user meets them.

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::Matches;

namespace {

using Words = std::vector<std::string>;

/// How each is called, and who makes its ids.
struct Caller {
  Words lead;
  std::string id_tool;
};

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Caller> callers() {
  return {{{"semaphore", "-l"}, "local_id"},
          {{"semaphore", tool("lock_local")}, "local_id"},
          {{"semaphore", "/usr/bin/env", "-a", tool("lock_local")}, "local_id"},
          {{"semaphore", tool("lock_ssh")}, "ssh_id"},
          {{"semaphore_ssh"}, "ssh_id"}};
}

const Words kLocal = {"semaphore", "-l"};

bool has_full_name() {
  return run({"ssh_id", "uid", std::to_string(getpid())}).code == 0;
}

struct Scene : Session {
  Process self{kSleeper};
  Process other{kSleeper};
  std::string me = self.pid_text();
  std::string you = other.pid_text();

  void must_acquire(const std::string& max, const std::string& pid) const {
    REQUIRE(run(kLocal + Words{"acquire", "S", max, pid}) == kSilentYes);
  }
};

}  // namespace

TEST_CASE("a semaphore goes round: acquire, owners, slot, owner, release", "[e2e]") {
  for (const Caller& caller : callers()) {
    if (caller.id_tool == "ssh_id" && !has_full_name()) continue;
    CAPTURE(caller.lead);
    const Scene at;
    const auto call = [&](const Words& words) { return at.run(caller.lead + words); };
    const std::string uid = at.run({caller.id_tool, "uid", at.me}).out;
    CHECK(call({"acquire", "S", "1", at.me}) == kSilentYes);
    CHECK(call({"owners", "S"}) == Result{0, uid, ""});
    CHECK(call({"owner", "S", "1"}) == Result{0, uid, ""});
    CHECK(call({"owner", "S", "2"}) == kSilentYes);
    CHECK(call({"slot", "S", at.me}) == Result{0, "1\n", ""});
    CHECK(call({"slot", "S", at.you}) == kSilentYes);
    CHECK(call({"fast_acquire", "S", "1", at.you}) == kSilentNo);
    CHECK(call({"acquire", "S", "1", at.you}) == kSilentNo);
    CHECK(call({"acquire", "S", "2", at.you}) == kSilentYes);
    CHECK(call({"slot", "S", at.you}) == Result{0, "2\n", ""});
    CHECK(call({"release", "S", at.me}) == kSilentYes);
    CHECK(call({"release", "S", at.me}) ==
          Result{19, "", " ERROR - S not held by " + at.me + "\n"});
    CHECK(call({"release", "S", at.you}) == kSilentYes);
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a process that holds a slot is told so with 20 and gets no second", "[e2e]") {
  const Scene at;
  at.must_acquire("8", at.me);
  const Tree before = at.tree();
  for (const char* action : {"acquire", "fast_acquire"}) {
    const Result again = at.run(kLocal + Words{action, "S", "8", at.me});
    CHECK(again.code == 20);
    CHECK_THAT(again.err,
               Matches(" ERROR - S already acquired by " + at.me + " \\(slot [1-8]\\)\n"));
  }
  CHECK(at.tree() == before);
}

TEST_CASE("a slot by its name may be one of several", "[e2e]") {
  const Scene at;
  for (const char* slot : {"b", "a", "1000"}) {
    CHECK(at.run(kLocal + Words{"acquire_slot", "S", slot, at.me}) == kSilentYes);
  }
  CHECK(at.run(kLocal + Words{"acquire_slot", "S", "a", at.you}) == kSilentNo);
  CHECK(at.run(kLocal + Words{"acquire_slot", "S", "a", at.me}).code == 20);
  for (const char* slot : {"1000\n", "a\n", "b\n"}) {
    CHECK(at.run(kLocal + Words{"slot", "S", at.me}).out == slot);
    CHECK(at.run(kLocal + Words{"release", "S", at.me}) == kSilentYes);
  }
  CHECK(at.tree().empty());
}

TEST_CASE("a dead holder makes room for acquire, and stale tells of it before", "[e2e]") {
  Scene at;
  at.must_acquire("1", at.you);
  CHECK(at.run(kLocal + Words{"stale", "S"}) == kSilentYes);
  at.other.kill_and_wait();
  CHECK(at.run(kLocal + Words{"stale", "S"}) == Result{0, "1\n", ""});
  CHECK(at.run(kLocal + Words{"fast_acquire", "S", "1", at.me}) == kSilentNo);
  CHECK(at.run(kLocal + Words{"acquire", "S", "1", at.me}) == kSilentYes);
  CHECK(at.run(kLocal + Words{"owners", "S"}).out == uid_of(at.me) + "\n");
}

TEST_CASE("clean sweeps the slots of the dead and tells whether one is in use", "[e2e]") {
  Scene at;
  at.must_acquire("2", at.me);
  at.must_acquire("2", at.you);
  at.other.kill_and_wait();
  CHECK(at.run(kLocal + Words{"clean", "S"}) == kSilentNo);
  CHECK(at.run(kLocal + Words{"owners", "S"}).out == uid_of(at.me) + "\n");
  at.self.kill_and_wait();
  CHECK(at.run(kLocal + Words{"clean", "S"}) == kSilentYes);
  CHECK(at.tree().empty());
  CHECK(at.run(kLocal + Words{"clean", "S"}) == kSilentYes);
}

TEST_CASE("a max that is none is a usage error and leaves nothing", "[e2e]") {
  const std::string max = GENERATE("-1", "x", "", "1x", "1.5", "1000001", "99999999999999999999");
  const std::string action = GENERATE("acquire", "fast_acquire");
  const Scene at;
  CAPTURE(max);
  check_usage(at.run(kLocal + Words{action, "S", max, at.me}), max.empty() ? "needs" : "max is");
  CHECK(at.tree().empty());
}

TEST_CASE("max 0 lets in nobody", "[e2e]") {
  const Scene at;
  CHECK(at.run(kLocal + Words{"acquire", "S", "0", at.me}) == kSilentNo);
  CHECK(at.tree().empty());
}

TEST_CASE("a pid that does not run acquires nothing, with 20", "[e2e]") {
  const Scene at;
  for (const char* action : {"acquire", "fast_acquire", "acquire_slot"}) {
    const Result result = at.run(kLocal + Words{action, "S", "1", kNoPid});
    CHECK(result == Result{20, "",
                           " ERROR - obtaining UID for ID(" + kNoPid + ")\n ERROR - process " +
                               kNoPid + " is not running\n"});
  }
  CHECK(at.run(kLocal + Words{"release", "S", kNoPid}).code == 19);
  CHECK(at.tree().empty());
}

TEST_CASE("missing and wrong words are usage errors", "[e2e]") {
  const Scene at;
  const auto [words, cause] = GENERATE(table<Words, std::string>({
      {{"semaphore"}, "specify a locker"},
      {{"semaphore", "-l"}, "<ACTION>"},
      {{"semaphore", "-l", "acquire"}, "needs"},
      {{"semaphore", "-l", "acquire", "S"}, "needs"},
      {{"semaphore", "-l", "acquire", "S", "1"}, "needs the pid"},
      {{"semaphore", "-l", "owner", "S"}, "needs"},
      {{"semaphore", "-l", "bogus", "S"}, "unknown action (bogus)"},
      {{"semaphore", "--bogus", "acquire", "S", "1", "1"}, "unknown option --bogus"},
      {{"semaphore", "-l", "-a", "--bogus", "acquire", "S", "1", "1"}, "--bogus"},
      {{"semaphore", "-l", "acquire_slot", "S", ".queue", "1"}, "cannot be a slot"},
      {{"semaphore", "-l", "acquire_slot", "S", "a/b", "1"}, "cannot be a slot"},
      {{"semaphore", "/bin/true", "clean", "S"}, "lock_local and lock_ssh only"},
      {{"semaphore", "/bin/true", "stale", "S"}, "lock_local and lock_ssh only"},
      {{"semaphore_ssh"}, "<ACTION>"},
      {{"semaphore_ssh", "-l", "acquire", "S", "1", "1"}, "semaphore -l"},
      {{"semaphore_ssh", "acquire", "--local", "S", "1", "1"}, "semaphore -l"},
      {{"semaphore_ssh", "--grace-seconds", "x", "acquire", "S", "1", "1"}, "seconds"},
  }));
  check_usage(at.run(words), cause);
  CHECK(at.tree().empty());
}

TEST_CASE("options may stand anywhere before the word after the semaphore", "[e2e]") {
  const Scene at;
  Words words = GENERATE(values<Words>({
      {"-di", "-l", "acquire", "S", "1", "PID"},
      {"-l", "-di", "acquire", "S", "1", "PID"},
      {"-l", "acquire", "--info", "S", "1", "PID"},
      {"acquire", "-l", "S", "-di", "1", "PID"},
      {"acquire", "S", "-l", "-di", "1", "PID"},
      {tool("lock_local"), "acquire", "-di", "S", "1", "PID"},
      {tool("lock_local"), "acquire", "S", "-di", "-a", "--strict", "1", "PID"},
  }));
  words.back() = at.me;
  CHECK(at.run(Words{"semaphore"} + words) == Result{0, "", "S acquired by " + at.me + "\n"});
}

TEST_CASE("a path and a word after it may look like options", "[e2e]") {
  const Scene at;
  CHECK(at.run(kLocal + Words{"acquire", "--help semaphore", "1", at.me}) == kSilentYes);
  CHECK(at.run(kLocal + Words{"release", "--help semaphore", at.me}) == kSilentYes);
  CHECK(at.run(kLocal + Words{"acquire", "-S", "1", at.me}) == kSilentYes);
  CHECK(at.tree("-S").size() == 3);
}

TEST_CASE("with --info a semaphore says what happened", "[e2e]") {
  const Scene at;
  const Words info = {"semaphore", "-l", "-di"};
  CHECK(at.run(info + Words{"acquire", "S", "1", at.me}).err == "S acquired by " + at.me + "\n");
  const Result refused = at.run(info + Words{"acquire", "S", "1", at.you});
  CHECK_THAT(refused.err, Catch::StartsWith("S failed to be acquired by " + at.you +
                                            " (max 1)\nS/1 is held by "
                                            "pid " +
                                            at.me));
  CHECK(at.run(info + Words{"release", "S", at.me}).err == "S released by " + at.me + "\n");
  CHECK(at.run(info + Words{"fast_acquire", "S", "1", at.me}).err ==
        "S fast_acquired by " + at.me + "\n");
}

TEST_CASE("with --debug a semaphore still releases", "[e2e]") {
  const Scene at;
  at.must_acquire("1", at.me);
  const Result released = at.run({"semaphore", "-l", "-d", "release", "S", at.me});
  CHECK(released.code == 0);
  CHECK_THAT(released.err, Contains("S released by " + at.me));
  CHECK(at.tree().empty());
}

TEST_CASE("a locker of the user's own gets its words, the action, the slot and the id", "[e2e]") {
  const Scene at;
  at.must("printf '#!/bin/sh\\necho \"$@\" >> asked\\nexit ${CODE:-0}\\n' > mine; chmod +x mine");
  const auto asked = [&](const Words& words, const std::string& code = "0") {
    at.must("rm -f asked");
    const Result result = at.run(Words{"semaphore", "./mine"} + words, {{"CODE", code}});
    return std::to_string(result.code) + " " + read_file(at.path("asked"));
  };
  CHECK(asked({"acquire", "S", "1", "me"}) == "0 fast_lock S/1 me\n");
  CHECK(asked({"acquire", "S", "1"}) == "0 fast_lock S/1\n");
  CHECK(asked({"-a", "x y", "-a", "-z", "acquire", "S", "1", "me"}) ==
        "0 x y -z fast_lock S/1 me\n");
  CHECK(asked({"-d", "-a", "x", "fast_acquire", "S", "1", "me"}) ==
        "0 x --debug fast_lock S/1 me\n");
  CHECK(asked({"acquire", "S", "2", "me"}, "1") ==
        "1 fast_lock S/1 me\nfast_lock S/2 me\nlock S/1 me\nlock S/2 me\n");
  CHECK(asked({"acquire", "S", "2", "me"}, "2") ==
        "1 fast_lock S/1 me\nfast_lock S/2 me\nlock S/1 me\nlock S/2 me\n");
  CHECK(asked({"acquire", "S", "2", "me"}, "10") == "10 fast_lock S/1 me\n");
  CHECK(asked({"acquire", "S", "2", "me"}, "42") == "42 fast_lock S/1 me\n");
  CHECK(asked({"acquire_slot", "S", "x", "me"}, "3") == "3 lock S/x me\n");
  at.must("mkdir -p S/1");
  CHECK(asked({"release", "S", "me"}) == "0 is_mine S/1 me\nunlock S/1 me\n");
}

TEST_CASE("a locker that cannot be run is named", "[e2e]") {
  const Scene at;
  CHECK(at.run({"semaphore", "./none", "acquire", "S", "3", "1"}) ==
        Result{127, "", " ERROR - cannot run ./none\n"});
}

TEST_CASE("foreign files in a semaphore are left alone", "[e2e]") {
  const Scene at;
  at.must("mkdir -p S/.queue; touch S/1 S/notes S/.queue/7.w.x");
  const Tree before = at.tree();
  CHECK(at.run(kLocal + Words{"acquire", "S", "2", at.me}) == kSilentYes);
  CHECK(at.run(kLocal + Words{"slot", "S", at.me}).out == "2\n");
  CHECK(at.run(kLocal + Words{"acquire", "S", "2", at.you}) == kSilentNo);
  CHECK(at.run(kLocal + Words{"owners", "S"}) == Result{0, uid_of(at.me) + "\n", ""});
  CHECK(at.run(kLocal + Words{"stale", "S"}) == kSilentYes);
  CHECK(at.run(kLocal + Words{"clean", "S"}) == kSilentNo);
  CHECK(at.run(kLocal + Words{"release", "S", at.me}) == kSilentYes);
  CHECK(at.run(kLocal + Words{"clean", "S"}) == kSilentYes);
  CHECK(at.tree() == before);
}

TEST_CASE("a semaphore that is a file is told with 2", "[e2e]") {
  const Scene at;
  at.must("touch S");
  check_failed(at.run(kLocal + Words{"acquire", "S", "1000000", at.me}), 2, "Not a directory");
}

TEST_CASE("the notifier of semaphore_ssh learns the semaphore and the slot", "[e2e]") {
  if (!has_full_name()) SKIP_TEST("this host has no full name");
  const Scene at;
  at.must(
      "fast_lock lock S/1 BAD; printf '#!/bin/sh\\necho \"$@\" > told\\n' > note; chmod +x note");
  const Result refused = at.run({"semaphore_ssh", "--grace-seconds", "0", "--on-check-fail",
                                 "./note", "--on-check-fail", "word", "acquire", "S", "1", at.me});
  CHECK(refused.code == 1);
  CHECK_THAT(read_file(at.path("told")), Matches("word S S/1 \\S+ BAD WARNING: .*\n"));
}
