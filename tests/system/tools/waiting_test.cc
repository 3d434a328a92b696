/// What the tools that wait leave behind when they are told to end, and what they say meanwhile.

#include <unistd.h>

#include <chrono>
#include <csignal>
#include <deque>
#include <regex>
#include <set>
#include <sstream>

#include "session.h"

using namespace holdfast::testing;

namespace {

using Words = std::vector<std::string>;

RunOptions in(const Session& at) {
  RunOptions options;
  options.cwd = at.path("");
  return options;
}

/// One that waits: what is held before, its words without the pid, and what shows that it waits.
struct Wait {
  std::string name;
  std::vector<Words> before;  ///< SELF and OTHER stand for pids
  Words words;
  Words shows;          ///< prints something as soon as it waits
  std::string shown{};  ///< this, if not just anything
};

std::vector<Wait> waits() {
  return {
      {"rw_lock shared",
       {{"rw_lock", "exclusive", "L", "OTHER"}},
       {"rw_lock", "--wait", "60", "shared", "L", "SELF"},
       {"rw_lock", "queue", "L"}},
      {"rw_lock exclusive",
       {{"rw_lock", "shared", "L", "OTHER"}},
       {"rw_lock", "--wait", "60", "exclusive", "L", "SELF"},
       {"rw_lock", "queue", "L"}},
      {"rw_lock --prefer-writers shared",
       {{"rw_lock", "exclusive", "L", "OTHER"}},
       {"rw_lock", "--prefer-writers", "--wait", "60", "shared", "L", "SELF"},
       {"rw_lock", "queue", "L"}},
      {"rw_lock upgrade",
       {{"rw_lock", "shared", "L", "SELF"}, {"rw_lock", "shared", "L", "OTHER"}},
       {"rw_lock", "--wait", "60", "upgrade", "L", "SELF"},
       {"rw_lock", "owners", "L"},
       "X "},
      {"fair_lock",
       {{"fair_lock", "lock", "L", "OTHER"}},
       {"fair_lock", "--wait", "60", "lock", "L", "SELF"},
       {"fair_lock", "queue", "L"}},
      {"fair_semaphore with one permit",
       {{"fair_semaphore", "acquire", "L", "1", "OTHER"}},
       {"fair_semaphore", "--wait", "60", "acquire", "L", "1", "SELF"},
       {"fair_semaphore", "queue", "L"}},
      {"fair_semaphore with several permits, some of which it has",
       {{"fair_semaphore", "--permits", "2", "acquire", "L", "4", "OTHER"}},
       {"fair_semaphore", "--wait", "60", "--permits", "3", "acquire", "L", "4", "SELF"},
       {"fair_semaphore", "slot", "L", "SELF"},
       "\n"},
      {"multi_lock that has the first of two",
       {{"multi_lock", "--id", "OTHER", "acquire", "s:two"}},
       {"multi_lock", "--id", "SELF", "acquire", "s:one", "two"},
       {"rw_lock", "queue", "two"}},
  };
}

Words filled_in(Words words, const Process& self, const Process& other) {
  for (std::string& word : words) {
    if (word == "SELF") word = self.pid_text();
    if (word == "OTHER") word = other.pid_text();
  }
  return words;
}

}  // namespace

TEST_CASE("a signal ends a wait with its own status, and all is as it was before", "[e2e][wait]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  for (const Wait& wait : waits()) {
    const Session at;
    const Process self(kSleeper), other(kSleeper);
    CAPTURE(wait.name, signal);
    for (const Words& words : wait.before) {
      REQUIRE(at.run(filled_in(words, self, other)) == kSilentYes);
    }
    const Tree before = at.tree();
    Process waiter(filled_in(wait.words, self, other), in(at));
    REQUIRE(eventually([&] {
      const std::string out = at.run(filled_in(wait.shows, self, other)).out;
      return wait.shown.empty() ? !out.empty() : out.find(wait.shown) != std::string::npos;
    }));
    waiter.signal(signal);
    CHECK(waiter.wait() == 128 + signal);
    CHECK(at.tree() == before);
  }
}

TEST_CASE("a signal ends a multi_lock that gives back and begins anew, and nothing is left",
          "[e2e][wait]") {
  const std::string signal = GENERATE("INT", "TERM", "HUP");
  const Session at;
  const Process self(kSleeper), other(kSleeper);
  at.must("mkdir locks");
  REQUIRE(at.run({"multi_lock", "--id", other.pid_text(), "acquire", "locks/two"}).code == 0);
  const Tree before = at.tree("locks");
  const Result ended =
      at.shell("set -m; multi_lock --info --hold-limit 0 --id " + self.pid_text() +
               " acquire locks/one locks/two 2> said & w=$!; "
               "until [ $(grep -c 'gave all back' said) -gt 1 ]; do :; done; kill -" +
               signal + " $w; wait $w; kill -l $?");
  CHECK(ended.out == signal + "\n");
  CHECK(at.tree("locks") == before);
}

TEST_CASE("signals that a wait keeps away from itself reach the checker that it runs",
          "[e2e][wait]") {
  const auto [tool, action, held] = GENERATE(table<std::string, Words, std::string>({
      {"rw_lock", {"exclusive", "L"}, "L"},
      {"fair_lock", {"lock", "L"}, "L"},
      {"fair_semaphore", {"acquire", "L", "1"}, "L/1"},
      {"multi_lock", {"acquire", "L"}, "L"},
  }));
  CAPTURE(tool);
  const Session at;
  at.must(
      "printf '#!/bin/sh\\ngrep SigBlk /proc/self/status >> blocked\\nexit 1\\n' > judge; "
      "chmod +x judge");
  REQUIRE(at.run({"fast_lock", "lock", held, "other"}).code == 0);
  Words words{tool, "--wait", "1"};
  if (tool == "multi_lock") words.insert(words.end(), {"--id", "me"});
  words.emplace_back("./judge");
  words.insert(words.end(), action.begin(), action.end());
  if (tool != "multi_lock") words.emplace_back("me");
  CHECK(at.run(words).code == 1);
  CHECK_THAT(read_file(at.path("blocked")), Catch::Matches("(SigBlk:\t0+\n)+"));
}

namespace {

/// The ticket of a waiter that nobody here can judge, renewed some time ago (`date -d`).
void add_unseen(const Session& at, const std::string& lock, const std::string& when) {
  at.must(
      "mkdir -p " + lock + "/.queue; t=" + lock +
      "/.queue/0000000001.w.nowhere.invalid:4242:5000:1700000000; "
      "echo '{\"v\":1,\"host\":\"nowhere\",\"boot\":\"b\",\"pidns\":\"pid:[1]\",\"pid\":42}' > $t; "
      "touch -d '" +
      when + "' $t");
}

}  // namespace

TEST_CASE("a waiter that nobody can judge blocks a free lock for two minutes at most",
          "[e2e][wait]") {
  const auto [tool, action] = GENERATE(table<std::string, Words>({
      {"rw_lock", {"shared", "L"}},
      {"rw_lock", {"exclusive", "L"}},
      {"fair_lock", {"lock", "L"}},
      {"fair_semaphore", {"acquire", "L", "1"}},
  }));
  const Session at;
  const Process self(kSleeper);
  Words words{tool};
  words.insert(words.end(), action.begin(), action.end());
  words.push_back(self.pid_text());
  add_unseen(at, "L", "1 minute ago");
  CHECK(at.run(words).code == 1);
  CHECK(at.run({tool, "clean", "L"}).code == 1);
  add_unseen(at, "L", "3 minutes ago");
  CHECK(at.run(words) == kSilentYes);
  CHECK(at.run({tool, "queue", "L"}) == kSilentYes);
  add_unseen(at, "L", "1 minute ago");
  CHECK(at.run({tool, "--older-than", "30", "clean", "L"}).code == 1);  // for its holder
  CHECK(at.run({tool, "queue", "L"}) == kSilentYes);
}

TEST_CASE("a waiter that is stopped keeps its place", "[e2e][wait]") {
  const Session at;
  const Process holder(kSleeper), one(kSleeper), two(kSleeper);
  REQUIRE(at.run({"fair_lock", "lock", "L", holder.pid_text()}) == kSilentYes);
  Process first({"fair_lock", "--wait", "60", "lock", "L", one.pid_text()}, in(at));
  REQUIRE(eventually([&] { return !at.run({"fair_lock", "queue", "L"}).out.empty(); }));
  first.signal(SIGSTOP);
  at.must("touch -d '1 hour ago' L/.queue/*");
  REQUIRE(at.run({"fair_lock", "unlock", "L", holder.pid_text()}) == kSilentYes);
  CHECK(at.run({"fair_lock", "--wait", "1", "lock", "L", two.pid_text()}).code == 1);
  CHECK(at.run({"fair_lock", "--older-than", "0", "clean", "L"}).code == 1);
  first.signal(SIGCONT);
  CHECK(first.wait() == 0);
  CHECK(at.run({"fair_lock", "is_mine", "L", one.pid_text()}).code == 0);
}

TEST_CASE("a waiter that lost its place queues again and says so", "[e2e][wait]") {
  const Session at;
  const Process one(kSleeper), two(kSleeper), self(kSleeper);
  REQUIRE(at.run({"rw_lock", "shared", "L", one.pid_text()}) == kSilentYes);
  REQUIRE(at.run({"rw_lock", "shared", "L", two.pid_text()}) == kSilentYes);
  const std::string uid = at.run({"local_id", "uid", self.pid_text()}).out;
  const Result waited =
      at.shell("set -e; rw_lock --wait 60 exclusive L " + self.pid_text() +
               " & w=$!; until [ -n \"$(rw_lock queue L)\" ]; do :; done; rm L/.queue/*; "
               "rw_lock unlock L " +
               one.pid_text() +  // it wakes, is refused, and looks at the queue
               "; until [ -n \"$(rw_lock queue L)\" ]; do :; done; rw_lock unlock L " +
               two.pid_text() + "; wait $w");
  CHECK(waited.code == 0);
  CHECK_THAT(waited.err, Catch::Contains("L: the place of " + uid.substr(0, uid.size() - 1) +
                                         " in the queue was given up"));
  CHECK_THAT(waited.err, Catch::Contains("it queues again at the end"));
}

TEST_CASE("a waiter with few file descriptors waits for many permits and many holders",
          "[e2e][wait]") {
  const bool is_one = GENERATE(true, false);  // one process that has all, or one for each
  const Session at;
  const Process self(kSleeper);
  std::deque<Process> holders;
  for (int i = 0; i < (is_one ? 1 : 60); ++i) {
    holders.emplace_back(kSleeper);
    REQUIRE(at.run({"fair_semaphore", "--permits", is_one ? "60" : "1", "acquire", "S", "60",
                    holders.back().pid_text()}) == kSilentYes);
  }
  Process waiter({"sh", "-c",
                  "ulimit -n 32; exec " + tool("fair_semaphore") + " --wait 60 acquire S 60 " +
                      self.pid_text()},
                 in(at));
  REQUIRE(eventually([&] { return !at.run({"fair_semaphore", "queue", "S"}).out.empty(); }));
  // the last one is not watched: it is found dead by looking
  if (is_one) {
    CHECK(at.run({"fair_semaphore", "--permits", "1", "release", "S", holders.back().pid_text()}) ==
          kSilentYes);
  } else {
    holders.back().signal(SIGKILL);
  }
  CHECK(waiter.wait() == 0);
}

TEST_CASE("who waits is told once that nobody can tell of a holder", "[e2e][wait]") {
  const auto [tool, action, slot] = GENERATE(table<std::string, Words, std::string>({
      {"rw_lock", {"shared", "L"}, ""},
      {"rw_lock", {"exclusive", "L"}, ""},
      {"fair_lock", {"lock", "L"}, ""},
      {"fair_semaphore", {"acquire", "L", "1"}, "/1"},
  }));
  const bool is_of_cluster = GENERATE(false, true);
  CAPTURE(tool, action, is_of_cluster);
  const Session at;
  const Process self(kSleeper);
  if (is_of_cluster && at.run({"ssh_id", "uid", self.pid_text()}).code != 0) {
    SKIP_TEST("this host has no full name");
  }
  REQUIRE(at.run({"fast_lock", "lock", "L" + slot, "nowhere.invalid:4242:5000:1700000000"}).code ==
          0);
  Words words{tool, "--wait", "1"};
  if (is_of_cluster) words.insert(words.end(), {"--ssh", "--grace-seconds", "0"});
  words.insert(words.end(), action.begin(), action.end());
  words.push_back(self.pid_text());
  const Result refused =
      at.run(words, {{"HOLDFAST_SSH_CONNECT_TIMEOUT", "1"}, {"HOLDFAST_SSH_TIMEOUT", "1"}});
  INFO(refused);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Catch::Contains("unable to identify live/staleness"));
  std::set<std::string> lines;
  std::istringstream said(refused.err);
  for (std::string line; std::getline(said, line);) {
    CAPTURE(line);
    CHECK(lines.insert(line).second);
  }
}

namespace {

/// A waiter of lock_local or lock_ssh, which leaves no trace on the disk.
class Asleep {
 public:
  Asleep(const Session& at, const Words& words) : process_(words, in(at)) {}

  /// It keeps signals away from itself, so it has begun to wait.
  bool is_waiting() const {
    static const std::regex kBlocked("SigBlk:\\s+0*[1-9a-f]");
    return std::regex_search(read_file("/proc/" + process_.pid_text() + "/status"), kBlocked);
  }
  Process& process() { return process_; }

 private:
  Process process_;
};

/// The tools that wait without a queue. lock_ssh has nobody to ask over ssh here: holders of this
/// host are looked at directly.
std::vector<Words> lockers() {
  std::vector<Words> tools{{"lock_local"}};
  const bool has_full_name = run({"ssh_id", "uid", std::to_string(getpid())}).code == 0;
  if (has_full_name) tools.push_back({"lock_ssh", "--grace-seconds", "1"});
  return tools;
}

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

using Clock = std::chrono::steady_clock;

}  // namespace

TEST_CASE("lock_local and lock_ssh with --wait get the lock when it is released", "[e2e][wait]") {
  for (const Words& tool : lockers()) {
    CAPTURE(tool);
    const Session at;
    const Process self(kSleeper), other(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", other.pid_text()}).code == 0);
    Asleep waiter(at, tool + Words{"--wait", "1m", "lock", "L", self.pid_text()});
    REQUIRE(eventually([&] { return waiter.is_waiting(); }));
    const auto begin = Clock::now();
    REQUIRE(at.run(tool + Words{"unlock", "L", other.pid_text()}).code == 0);
    CHECK(waiter.process().wait() == 0);
    CHECK(Clock::now() - begin < std::chrono::seconds(30));
    CHECK(at.run(tool + Words{"is_mine", "L", self.pid_text()}).code == 0);
  }
}

TEST_CASE("lock_local and lock_ssh with --wait get the lock when its holder dies", "[e2e][wait]") {
  for (const Words& tool : lockers()) {
    CAPTURE(tool);
    const Session at;
    const Process self(kSleeper);
    Process other(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", other.pid_text()}).code == 0);
    Asleep waiter(at, tool + Words{"-w", "forever", "lock", "L", self.pid_text()});
    REQUIRE(eventually([&] { return waiter.is_waiting(); }));
    other.kill_and_wait();
    CHECK(waiter.process().wait() == 0);
    CHECK(at.run(tool + Words{"is_mine", "L", self.pid_text()}).code == 0);
  }
}

TEST_CASE("lock_local and lock_ssh stop waiting when the time of --wait is over", "[e2e][wait]") {
  for (const Words& tool : lockers()) {
    CAPTURE(tool);
    const Session at;
    const Process self(kSleeper), other(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", other.pid_text()}).code == 0);
    const auto begin = Clock::now();
    CHECK(at.run(tool + Words{"--wait", "400ms", "lock", "L", self.pid_text()}).code == 1);
    const auto took = Clock::now() - begin;
    CHECK(took >= std::chrono::milliseconds(400));
    CHECK(took < std::chrono::seconds(20));
    CHECK(at.run(tool + Words{"is_mine", "L", other.pid_text()}).code == 0);
  }
}

TEST_CASE("lock_local and lock_ssh try once without --wait, with --nowait and with --wait 0",
          "[e2e][wait]") {
  const Words words = GENERATE(Words{}, Words{"-n"}, Words{"--nowait"}, Words{"--wait", "0"});
  for (const Words& tool : lockers()) {
    CAPTURE(tool, words);
    const Session at;
    const Process self(kSleeper), other(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", other.pid_text()}).code == 0);
    const auto begin = Clock::now();
    CHECK(at.run(tool + words + Words{"lock", "L", self.pid_text()}).code == 1);
    CHECK(Clock::now() - begin < std::chrono::seconds(20));
    CHECK(at.run(tool + words + Words{"lock", "M", self.pid_text()}).code == 0);
  }
}

TEST_CASE("a wait of lock_local for what the process holds already ends at once with 20",
          "[e2e][wait]") {
  for (const Words& tool : lockers()) {
    CAPTURE(tool);
    const Session at;
    const Process self(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", self.pid_text()}).code == 0);
    CHECK(at.run(tool + Words{"--wait", "forever", "lock", "L", self.pid_text()}).code == 20);
  }
}

TEST_CASE("a wait of lock_local ends when the process that is to hold the lock dies",
          "[e2e][wait]") {
  for (const Words& tool : lockers()) {
    CAPTURE(tool);
    const Session at;
    const Process other(kSleeper);
    Process self(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", other.pid_text()}).code == 0);
    Asleep waiter(at, tool + Words{"--wait", "forever", "lock", "L", self.pid_text()});
    REQUIRE(eventually([&] { return waiter.is_waiting(); }));
    self.kill_and_wait();
    CHECK(waiter.process().wait() == 2);
    CHECK(at.run(tool + Words{"is_mine", "L", other.pid_text()}).code == 0);
  }
}

TEST_CASE("a signal ends a wait of lock_local with its own status, and nothing is left",
          "[e2e][wait]") {
  const int signal = GENERATE(SIGINT, SIGTERM, SIGHUP);
  for (const Words& tool : lockers()) {
    CAPTURE(tool, signal);
    const Session at;
    const Process self(kSleeper), other(kSleeper);
    REQUIRE(at.run(tool + Words{"lock", "L", other.pid_text()}).code == 0);
    const Tree before = at.tree("L/owner");
    Asleep waiter(at, tool + Words{"--wait", "forever", "lock", "L", self.pid_text()});
    REQUIRE(eventually([&] { return waiter.is_waiting(); }));
    waiter.process().signal(signal);
    CHECK(waiter.process().wait() == 128 + signal);
    CHECK(at.tree("L/owner") == before);
  }
}
