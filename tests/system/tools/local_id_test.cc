/// local_id as a shell user meets it.

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::Matches;
using Catch::StartsWith;

namespace {

struct Fields {
  std::string pid;
  std::string start;
  unsigned long btime;

  explicit Fields(const std::string& uid) {
    const std::size_t first = uid.find(':');
    const std::size_t second = uid.find(':', first + 1);
    pid = uid.substr(0, first);
    start = uid.substr(first + 1, second - first - 1);
    btime = std::stoul(uid.substr(second + 1));
  }
  std::string with_btime(long change) const {
    return pid + ":" + start + ":" + std::to_string(static_cast<long>(btime) + change);
  }
  std::string with_start(const std::string& other) const {
    return pid + ":" + other + ":" + std::to_string(btime);
  }
};

bool is_zombie(const std::string& pid) {
  return read_file("/proc/" + pid + "/stat").find(") Z ") != std::string::npos;
}

/// A process that ignores TERM. It says so by a file, since a signal may come before its trap.
struct Stubborn {
  Session at;
  Process process{
      {"/bin/bash", "-c", "trap '' TERM; echo > " + at.path("ready") + "; exec /bin/sleep 1000"}};
  Stubborn() {
    REQUIRE(eventually([&] { return !read_file(at.path("ready")).empty(); }));
  }
};

}  // namespace

TEST_CASE("uid of a running process is its pid and start and boot time", "[e2e]") {
  Process holder(kSleeper);
  const std::string pid = holder.pid_text();
  const Result expected = shell("echo " + pid + ":$(cut -d' ' -f22 /proc/" + pid +
                                "/stat):$(awk '$1 == \"btime\" {print $2}' /proc/stat)");
  CHECK(run({"local_id", "uid", pid}) == expected);
  CHECK(run({"local_id", "uid", pid}) == expected);
}

TEST_CASE("uid takes the 22nd word as the shell does even when the name has blanks", "[e2e][H4]") {
  const Session at;
  const std::string name = GENERATE("x y z", "a b", "(a) b)", "1 2 3 4 5 6 7");
  at.must("cp /bin/sleep '" + name + "'");
  Process holder({at.path(name), "1000"});
  const std::string pid = holder.pid_text();
  const Result expected = shell("echo " + pid + ":$(awk '{print $22}' /proc/" + pid +
                                "/stat):$(awk '$1 == \"btime\" {print $2}' /proc/stat)");
  const Result made = run({"local_id", "uid", pid});
  CHECK(made == expected);
  const std::string uid = made.out.substr(0, made.out.size() - 1);
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
  CHECK(run({"local_id", "pid", uid}) == Result{0, pid + "\n", ""});
}

TEST_CASE("the true start time of a process whose name has blanks is accepted too", "[e2e][H4]") {
  const Session at;
  at.must("cp /bin/sleep 'x y z'");
  Process holder({at.path("x y z"), "1000"});
  const std::string pid = holder.pid_text();
  const Result start = shell("sed 's/.*) //' /proc/" + pid + "/stat | cut -d' ' -f20");
  const std::string uid = Fields(uid_of(pid)).with_start(start.out.substr(0, start.out.size() - 1));
  REQUIRE(uid != uid_of(pid));
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
}

TEST_CASE("uid of what is no running process answers 1 and prints nothing", "[e2e]") {
  const std::string text =
      GENERATE(as<std::string>(), kNoPid, "0", "-1", "", "x", "self", "1/../self", " 1", "1 ", "01",
               "+1", "1.0", "99999999999999999999", ".", "..", "1:2:3");
  CAPTURE(text);
  CHECK(run({"local_id", "uid", text}) == kSilentNo);
}

TEST_CASE("uid of a uid answers 1", "[e2e]") {
  Process holder(kSleeper);
  CHECK(run({"local_id", "uid", uid_of(holder.pid_text())}) == kSilentNo);
}

TEST_CASE("pid of a living uid prints its pid", "[e2e]") {
  Process holder(kSleeper);
  CHECK(run({"local_id", "pid", uid_of(holder.pid_text())}) ==
        Result{0, holder.pid_text() + "\n", ""});
}

TEST_CASE("pid of a dead uid answers 1 and prints nothing", "[e2e]") {
  CHECK(run({"local_id", "pid", dead_uid()}) == kSilentNo);
}

TEST_CASE("is_stale is 1 for the living and 0 for the dead", "[e2e]") {
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
  holder.kill_and_wait();
  CHECK(run({"local_id", "is_stale", uid}) == kSilentYes);
}

TEST_CASE("a malformed uid has no pid and is stale", "[e2e]") {
  const std::string uid = GENERATE("", "x", ":", "::", ":::", "1", "1:", "1:2", "1:2:", "1::3",
                                   ":2:3", "x:2:3", "1:2:x", "0:2:3", "-1:2:3", "1 2 3", "a b");
  CAPTURE(uid);
  CHECK(run({"local_id", "pid", uid}) == kSilentNo);
  CHECK(run({"local_id", "is_stale", uid}) == kSilentYes);
}

TEST_CASE("a bare pid of a running process is no uid", "[e2e]") {
  Process holder(kSleeper);
  CHECK(run({"local_id", "pid", holder.pid_text()}) == kSilentNo);
  CHECK(run({"local_id", "is_stale", holder.pid_text()}) == kSilentYes);
}

TEST_CASE("the same pid with another start time is another process", "[e2e]") {
  Process holder(kSleeper);
  const std::string uid = Fields(uid_of(holder.pid_text())).with_start("101");
  CHECK(run({"local_id", "is_stale", uid}) == kSilentYes);
  CHECK(run({"local_id", "pid", uid}) == kSilentNo);
}

TEST_CASE("a boot time that is one second off is the same boot", "[e2e]") {
  const int change = GENERATE(-1, 1);
  Process holder(kSleeper);
  const std::string uid = Fields(uid_of(holder.pid_text())).with_btime(change);
  CAPTURE(uid);
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
  CHECK(run({"local_id", "pid", uid}) == Result{0, holder.pid_text() + "\n", ""});
}

TEST_CASE("a clock that was stepped makes nobody stale", "[e2e]") {
  const int change = GENERATE(-3600, -2, 2, 3600);
  Process holder(kSleeper);
  const std::string uid = Fields(uid_of(holder.pid_text())).with_btime(change);
  const Result result = run({"local_id", "is_stale", uid});
  CHECK(result.code == 13);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("WARNING") && Contains(uid));
  CHECK(run({"local_id", "pid", uid}).out.empty());
}

TEST_CASE("an id of another kind is never called stale", "[e2e][H12]") {
  const std::string uid =
      GENERATE("far.example.org:12:34:56", "far:12:34:56:mark", "zone:far:12:34:56");
  const Result result = run({"local_id", "is_stale", uid});
  CHECK(result.code == 13);
  CHECK_THAT(result.err, Contains("WARNING") && Contains(uid));
  CHECK(run({"local_id", "pid", uid}) == kSilentNo);
}

TEST_CASE("a zombie is dead", "[e2e][H18]") {
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  holder.signal(SIGKILL);
  REQUIRE(eventually([&] { return is_zombie(holder.pid_text()); }));
  CHECK(run({"local_id", "is_stale", uid}) == kSilentYes);
  CHECK(run({"local_id", "pid", uid}) == kSilentNo);
}

TEST_CASE("a stopped process is alive", "[e2e]") {
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  holder.signal(SIGSTOP);
  REQUIRE(eventually([&] {
    return read_file("/proc/" + holder.pid_text() + "/stat").find(") T ") != std::string::npos;
  }));
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
}

TEST_CASE("fewer than two words are a usage error", "[e2e]") {
  const std::string action = GENERATE("uid", "pid", "is_stale", "kill", "");
  CAPTURE(action);
  check_usage(run({"local_id", action}));
}

TEST_CASE("local_id without a word is a usage error", "[e2e]") {
  check_usage(run({"local_id"}));
}

TEST_CASE("local_id runs no unknown action", "[e2e]") {
  const Session at;
  check_usage(at.run({"local_id", "touch", "x"}), "touch");
  CHECK(at.tree().empty());
}

TEST_CASE("local_id refuses unknown options", "[e2e]") {
  const std::string option = GENERATE("-x", "--strict", "--dir-leaf", "--older-than=1");
  check_usage(run({"local_id", option, "uid", "1"}));
}

TEST_CASE("local_id at info level says why on stderr and keeps stdout clean", "[e2e]") {
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  CHECK(run({"local_id", "--info", "uid", holder.pid_text()}) == Result{0, uid + "\n", ""});
  const Result none = run({"local_id", "-di", "uid", kNoPid});
  CHECK(none.code == 1);
  CHECK(none.out.empty());
  CHECK_THAT(none.err, Contains("process " + kNoPid + " is not running\n"));
  const Result alive = run({"local_id", "--info", "is_stale", uid});
  CHECK(alive.code == 1);
  CHECK_THAT(alive.err, StartsWith(uid) && Contains("running"));
}

TEST_CASE("local_id at debug level puts the date before every line", "[e2e]") {
  const Result none = run({"local_id", "--debug", "uid", kNoPid});
  CHECK(none.code == 1);
  CHECK_THAT(none.err, Matches("(" + kDate + " [^\n]+\n)+"));
}

TEST_CASE("kill ends the process that the uid names", "[e2e]") {
  const auto [signal, status] = GENERATE(table<std::string, int>({{"", 128 + SIGTERM},
                                                                  {"TERM", 128 + SIGTERM},
                                                                  {"SIGTERM", 128 + SIGTERM},
                                                                  {"15", 128 + SIGTERM},
                                                                  {"KILL", 128 + SIGKILL},
                                                                  {"9", 128 + SIGKILL},
                                                                  {"INT", 128 + SIGINT}}));
  CAPTURE(signal);
  Process holder(kSleeper);
  std::vector<std::string> command = {"local_id", "kill", uid_of(holder.pid_text())};
  if (!signal.empty()) command.push_back(signal);
  CHECK(run(command) == kSilentYes);
  CHECK(holder.wait() == status);
}

TEST_CASE("kill of the dead answers 1", "[e2e]") {
  CHECK(run({"local_id", "kill", dead_uid()}) == kSilentNo);
}

TEST_CASE("kill of a malformed uid signals nobody and answers 1", "[e2e]") {
  Process holder(kSleeper);
  CHECK(run({"local_id", "kill", holder.pid_text()}) == kSilentNo);
  CHECK(run({"local_id", "is_stale", uid_of(holder.pid_text())}) == kSilentNo);
}

TEST_CASE("kill spares a later process with the same pid", "[e2e]") {
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  CHECK(run({"local_id", "kill", Fields(uid).with_start("101")}) == kSilentNo);
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
  CHECK(waitpid(holder.pid(), nullptr, WNOHANG) == 0);
}

TEST_CASE("kill of one whom nobody can tell answers 13 and signals nobody", "[e2e]") {
  Process holder(kSleeper);
  const Fields fields(uid_of(holder.pid_text()));
  const std::string uid =
      GENERATE_COPY(fields.with_btime(100), "far.example.org:" + fields.with_btime(0));
  const Result result = run({"local_id", "kill", uid});
  check_failed(result, 13, uid);
  CHECK(waitpid(holder.pid(), nullptr, WNOHANG) == 0);
}

TEST_CASE("kill answers 15 when the process does not die in time", "[e2e]") {
  Stubborn holder;
  const std::string uid = uid_of(holder.process.pid_text());
  check_failed(run({"local_id", "--wait", "0", "kill", uid}), 15, "still running");
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
  CHECK(run({"local_id", "kill", uid, "KILL"}) == kSilentYes);
  CHECK(holder.process.wait() == 128 + SIGKILL);
}

TEST_CASE("kill does not wait for a signal that does not end processes", "[e2e]") {
  const std::string signal = GENERATE("CONT", "0", "WINCH");
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  CHECK(run({"local_id", "kill", uid, signal}) == kSilentYes);
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
}

TEST_CASE("an unknown signal is a usage error and signals nobody", "[e2e]") {
  const std::string signal = GENERATE("", "NOSUCH", "-9", "65", "9x", "term");
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  CAPTURE(signal);
  check_usage(run({"local_id", "kill", uid, signal}));
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
}

TEST_CASE("the option --wait wants a number of seconds", "[e2e]") {
  const std::string value = GENERATE("", "x", "-1");
  CAPTURE(value);
  check_usage(run({"local_id", "--wait", value, "kill", "1:2:3"}));
}

TEST_CASE("kill answers 16 when the kernel refuses the signal", "[e2e]") {
  if (!is_root() || !has_program("setpriv")) SKIP_TEST("needs root and setpriv");
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  const Result result = run({"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                             tool("local_id"), "kill", uid});
  check_failed(result, 16, uid);
  CHECK(run({"local_id", "is_stale", uid}) == kSilentNo);
}

TEST_CASE("the same uid is found through the shell name of the tool", "[e2e]") {
  Process holder(kSleeper);
  const std::string script = build_dir() + "/libexec/holdfast/lockers/local_id.sh";
  CHECK(run({script, "uid", holder.pid_text()}) == run({"local_id", "uid", holder.pid_text()}));
}
