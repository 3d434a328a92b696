#include "identity/remote.h"

#include <signal.h>

#include <catch2/catch.hpp>

#include "base/exit_code.h"
#include "base/text.h"
#include "identity/local_id.h"
#include "scene.h"
#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {
namespace {

using namespace identity;

constexpr std::uint64_t kBooted = 1700000000;
constexpr std::uint64_t kPid = 4242;
const std::string kHost = "build7.example.org";
const std::string kInner = "pid:[4026532999]";

/// After the lock was taken, which was after the boot of its host.
constexpr std::uint64_t kLater = 1700009000;
const std::string kSince = "2023-11-14T23:00:00Z";  // kBooted + 46 minutes

SshUid uid(const std::string& start = "5000", std::uint64_t btime = kBooted) {
  return *SshUid::parse(kHost + ":" + std::to_string(kPid) + ":" + start + ":" +
                        std::to_string(btime));
}

Record record() {
  Record r;
  r.host = "build7";
  r.boot = "boot-a";
  r.pidns = kFirstPidNamespace;
  r.timens = "time:[1]";
  r.pid = kPid;
  r.start = 5000;
  r.since = kSince;
  return r;
}

Sight running(std::uint64_t start = 5000) {
  ProcStat stat;
  stat.name = "make";
  stat.state = 'S';
  stat.threads = 1;
  stat.start = start;
  stat.word = std::to_string(start);
  return {Sight::Kind::seen, stat};
}

RemoteAnswer answer(const Sight& sight) {
  RemoteAnswer a;
  a.fqdn = kHost;
  a.place = {"build7", "boot-a", std::string(kFirstPidNamespace), "time:[1]", kBooted, true};
  a.is_own_procfs = true;
  a.sights[kPid] = sight;
  return a;
}

int code(SshIdExit exit) {
  return static_cast<int>(exit);
}

/// The host's own word for a question, from this very host.
std::string asked_here(const std::vector<std::uint64_t>& pids) {
  return run({"/bin/sh", "-c", question(pids)}).out;
}

}  // namespace

TEST_CASE("an ssh uid is a host name and three numbers and nothing else", "[identity][H14]") {
  const auto [text, is_uid] = GENERATE(table<std::string, bool>({
      {"build7.example.org:4242:5000:1700000000", true},
      {"b:1:2:3", true},
      {"10.0.0.7:1:2:3", true},
      {"my_host-1:1:2:3", true},
      {"b:1:-5:3", true},  // the nice value of a process with blanks in its name
      {"", false},
      {":", false},
      {"malformed", false},
      {"1:2:3", false},
      {"b:1:2:3:4", false},
      {":1:2:3", false},
      {"b::2:3", false},
      {"b:1::3", false},
      {"b:1:2:", false},
      {"-oProxyCommand=x:1:2:3", false},
      {".b:1:2:3", false},
      {"b c:1:2:3", false},
      {"b;id:1:2:3", false},
      {"$(id):1:2:3", false},
      {"`id`:1:2:3", false},
      {"b'c:1:2:3", false},
      {"b\"c:1:2:3", false},
      {"b\nc:1:2:3", false},
      {"b\tc:1:2:3", false},
      {"u@b:1:2:3", false},
      {"b/c:1:2:3", false},
      {"b%d:1:2:3", false},
      {"b:1;id:2:3", false},
      {"b:$(id):2:3", false},
      {"b:1'2:2:3", false},
      {"b:01:2:3", false},
      {"b:0:2:3", false},
      {"b:-1:2:3", false},
      {"b:1:2;id:3", false},
      {"b:1:--2:3", false},
      {"b:1:2 2:3", false},
      {"b:1:2:3 ", false},
      {"b:1:2:$(id)", false},
      {"b:1:2:3\n", false},
      {"b:1:2:99999999999999999999", false},
  }));
  CAPTURE(text);
  CHECK(SshUid::parse(text).has_value() == is_uid);
  CHECK_FALSE(SshUid::parse(std::string(254, 'b') + ":1:2:3"));
}

TEST_CASE("a question has nothing in it that a login shell could take apart", "[identity][H14]") {
  const std::string text = question(std::vector<std::uint64_t>{1, 4194304});
  const std::string begin = "exec /bin/sh -c '";
  REQUIRE(text.starts_with(begin));
  CHECK(text.find('\'', begin.size()) == text.size() - 1);
  CHECK(text.find_first_of("\n!") == std::string::npos);
  const std::string order = kill_order(kPid, 5000, "boot-a", 15, std::chrono::seconds(5));
  REQUIRE(order.starts_with(begin));
  CHECK(order.find('\'', begin.size()) == order.size() - 1);
  CHECK(order.find_first_of("\n!") == std::string::npos);
}

TEST_CASE("a host tells of itself and of each pid what procfs and the kernel say", "[identity]") {
  const Process live(kSleeper);
  Process brief(kSleeper);
  brief.kill_and_wait();
  const auto live_pid = static_cast<std::uint64_t>(live.pid());
  const auto dead_pid = static_cast<std::uint64_t>(brief.pid());

  const auto heard = parse_answer(asked_here({live_pid, dead_pid}));
  REQUIRE(heard);
  std::string why;
  const auto identity = LocalId(disk::posix()).identify(live.pid_text(), why);
  REQUIRE(identity);
  CHECK(heard->fqdn == full_host_name());
  CHECK(heard->fqdn + "\n" == run({"hostname", "--fqdn"}).out);
  CHECK(heard->place.host == identity->record.host);
  CHECK(heard->place.boot == identity->record.boot);
  CHECK(heard->place.pidns == identity->record.pidns);
  CHECK(heard->place.timens == identity->record.timens);
  CHECK(heard->is_own_procfs);
  REQUIRE(heard->sights.size() == 2);
  CHECK(heard->sights.at(dead_pid).kind == Sight::Kind::gone);
  CHECK(heard->sights.at(live_pid).kind == Sight::Kind::seen);
  CHECK(heard->sights.at(live_pid).process.start == identity->record.start);
}

TEST_CASE("a hidden process among dead ones is told from them", "[identity][H10]") {
  if (!can_unshare()) SKIP_TEST("needs the right to make namespaces");
  constexpr std::uint64_t kShell = 1;  // of the pid namespace, root's
  RunOptions options;
  options.env["QUESTION"] = question(std::vector<std::uint64_t>{4194001, kShell, 4194002});
  const Result told =
      run(kNewPidNamespace + Words{"/bin/sh", "-c",
                                   "mount -t proc -o hidepid=2 proc /proc && setpriv --reuid 65534 "
                                   "--regid 65534 --clear-groups /bin/sh -c \"$QUESTION\"; true"},
          options);
  INFO(told.out << told.err);
  const auto heard = parse_answer(told.out);
  REQUIRE(heard);
  REQUIRE(heard->sights.size() == 3);
  CHECK(heard->sights.at(4194001).kind == Sight::Kind::gone);
  CHECK(heard->sights.at(kShell).kind == Sight::Kind::hidden);
  CHECK(heard->sights.at(4194002).kind == Sight::Kind::gone);
}

TEST_CASE("an answer that is cut anywhere is none", "[identity]") {
  const std::string whole = asked_here({1});
  REQUIRE(parse_answer(whole));
  for (std::size_t length = 0; length + 1 < whole.size(); ++length) {
    CAPTURE(length);
    CHECK_FALSE(parse_answer(whole.substr(0, length)));
  }
}

TEST_CASE("what a login says before the answer is skipped", "[identity]") {
  const auto heard =
      parse_answer("Welcome!\nfqdn evil.org COMPLETED\n" + asked_here({1}) + "bye\n");
  REQUIRE(heard);
  CHECK(heard->fqdn == full_host_name());
}

TEST_CASE("a line without its last word says nothing", "[identity]") {
  const std::string text =
      "HOLDFAST 1\nfqdn build7.example.org\nbtime 17000000\nstat 4242 (make) S 1\ngone 4242\n"
      "hidden 4242 COMPLETE\nHOLDFAST END\n";
  const auto heard = parse_answer(text);
  REQUIRE(heard);
  CHECK(heard->fqdn.empty());
  CHECK_FALSE(heard->place.btime);
  CHECK(heard->sights.empty());
}

TEST_CASE("only the host of that full name with a whole answer tells that a process is dead",
          "[identity]") {
  RemoteAnswer heard = answer(Sight{Sight::Kind::gone});
  const auto verdict = [&] { return judge_remote(uid(), record(), heard); };
  REQUIRE(verdict().life == Life::dead);
  REQUIRE(verdict().code == 0);

  SECTION("without a full name") {
    heard.fqdn.clear();
    CHECK(verdict().life == Life::unknown);
    CHECK(verdict().code == code(SshIdExit::unreachable));
  }
  SECTION("under another full name") {
    heard.fqdn = "build7.elsewhere.org";
    CHECK(verdict().life == Life::unknown);
    CHECK(verdict().code == code(SshIdExit::wrong_host));
  }
  SECTION("without a boot time") {
    heard.place.btime.reset();
    CHECK(verdict().life == Life::unknown);
    CHECK(verdict().code == code(SshIdExit::unreachable));
  }
  SECTION("with nothing about that process") {
    heard.sights.clear();
    CHECK(verdict().life == Life::unknown);
    CHECK(verdict().code == code(SshIdExit::cut_short));
  }
  SECTION("with a procfs of another pid namespace") {
    heard.is_own_procfs = false;
    CHECK(verdict().life == Life::unknown);
  }
  SECTION("without a boot id") {
    heard.place.boot.clear();
    CHECK(verdict().life == Life::unknown);
  }
  SECTION("from another pid namespace") {
    heard.place.pidns = kInner;
    CHECK(verdict().life == Life::unknown);
  }
  SECTION("from a twin that was resumed from the same image") {
    heard.place.host = "build8";
    CHECK(verdict().life == Life::unknown);
    heard.sights[kPid] = running();
    CHECK(verdict().life == Life::alive);
  }
}

TEST_CASE("a rebooted host makes its holders dead and a stepped clock does not", "[identity]") {
  RemoteAnswer heard = answer(running());
  SECTION("another boot id though the boot times agree") {
    heard.place.boot = "boot-b";
    CHECK(judge_remote(uid(), record(), heard).life == Life::dead);
  }
  SECTION("the same boot id though the boot times do not") {
    heard.place.btime = kBooted + 3600;
    CHECK(judge_remote(uid(), record(), heard).life == Life::alive);
    CHECK(judge_remote(uid(), std::nullopt, heard).life == Life::unknown);
  }
  SECTION("another boot id under another node name") {
    heard.place.boot = "boot-b";
    heard.place.host = "build8";
    CHECK(judge_remote(uid(), record(), heard).life == Life::unknown);
  }
  SECTION("another boot id under a name that all hosts have") {
    heard.place.boot = "boot-b";
    heard.place.host = "localhost";
    Record r = record();
    r.host = "localhost";
    CHECK(judge_remote(uid(), r, heard).life == Life::unknown);
  }
}

TEST_CASE("a container is dead only if its host booted after the lock was taken", "[identity]") {
  Record r = record();
  r.pidns = kInner;
  RemoteAnswer heard = answer(running());
  heard.place.boot = "boot-b";
  heard.place.pidns = kInner;
  const auto [btime, since, life] = GENERATE(table<std::uint64_t, std::string, Life>({
      {kLater, kSince, Life::dead},
      {kBooted + 1, kSince, Life::unknown},
      {kBooted + 60, kSince, Life::unknown},  // booted before the lock was taken: another machine
      {kLater, "", Life::unknown},
      {kLater, "tomorrow", Life::unknown},
  }));
  CAPTURE(btime, since);
  heard.place.btime = btime;
  r.since = since;
  CHECK(judge_remote(uid(), r, heard).life == life);
}

TEST_CASE("who asks and reaches itself does not answer for another of its name", "[identity]") {
  RemoteAnswer heard = answer(Sight{Sight::Kind::gone});
  heard.place.is_asker = true;
  heard.place.boot = "boot-b";
  SECTION("a host that has booted since is the one that was restarted") {
    heard.place.btime = kLater;
    CHECK(judge_remote(uid(), record(), heard).life == Life::dead);
  }
  SECTION("a host that was up before is a twin") {
    heard.place.btime = kBooted + 60;
    CHECK(judge_remote(uid(), record(), heard).life == Life::unknown);
  }
  SECTION("a container proves nothing") {
    heard.place.btime = kLater;
    heard.place.pidns = kInner;
    Record r = record();
    r.pidns = kInner;
    CHECK(judge_remote(uid(), r, heard).life == Life::unknown);
  }
  SECTION("without a record only one that booted no earlier") {
    const auto [step, life] = GENERATE(table<int, Life>(
        {{0, Life::dead}, {-1, Life::dead}, {-2, Life::unknown}, {3600, Life::dead}}));
    CAPTURE(step);
    heard.place.btime = kBooted + static_cast<std::uint64_t>(step);
    CHECK(judge_remote(uid(), std::nullopt, heard).life == life);
    CHECK(judge_remote(uid("5000", kBooted * 10), std::nullopt, heard).life == Life::dead);
  }
}

TEST_CASE("a name that every host has is nobody's", "[identity]") {
  RemoteAnswer heard = answer(Sight{Sight::Kind::gone});
  heard.fqdn = GENERATE("localhost", "localhost.localdomain");
  const auto id = SshUid::parse(heard.fqdn + ":4242:5000:1700000000");
  REQUIRE(id);
  CHECK(judge_remote(*id, std::nullopt, heard).life == Life::unknown);
  CHECK(judge_remote(*id, record(), heard).code == code(SshIdExit::wrong_host));
}

TEST_CASE("without a record an id is judged as the shell does but for what a clock explains",
          "[identity]") {
  const auto [start, btime, life] = GENERATE(table<std::string, std::uint64_t, Life>({
      {"5000", kBooted, Life::alive},
      {"5000", kBooted + 1, Life::alive},
      {"5000", kBooted - 1, Life::alive},
      {"5000", kBooted + 2, Life::unknown},
      {"5000", kBooted * 10, Life::dead},  // no clock does that
      {"5001", kBooted, Life::dead},
      {"50001", kBooted, Life::dead},
      {"20", kBooted, Life::unknown},  // a word of a name with blanks
      {"-5", kBooted, Life::unknown},
  }));
  CAPTURE(start, btime);
  CHECK(judge_remote(uid(start, btime), std::nullopt, answer(running())).life == life);
}

TEST_CASE("a process that hides is alive and one in between is unknown", "[identity]") {
  Sight sight = running();
  CHECK(judge_remote(uid(), record(), answer(Sight{Sight::Kind::hidden})).life == Life::alive);
  CHECK(judge_remote(uid(), record(), answer(Sight{})).life == Life::unknown);
  sight.process.state = 'X';
  CHECK(judge_remote(uid(), record(), answer(sight)).life == Life::unknown);
  sight.process.state = 'Z';
  CHECK(judge_remote(uid(), record(), answer(sight)).life == Life::dead);
  sight.process.threads = 2;
  CHECK(judge_remote(uid(), record(), answer(sight)).life == Life::alive);
}

TEST_CASE("an order to kill hits the process that was seen and no other", "[identity]") {
  Process target(kSleeper);
  std::string why;
  const auto identity = LocalId(disk::posix()).identify(target.pid_text(), why);
  REQUIRE(identity);
  const auto obey = [&](std::uint64_t start, const std::string& boot, int signal) {
    return parse_kill(run({"/bin/sh", "-c",
                           kill_order(identity->record.pid, start, boot, signal,
                                      std::chrono::seconds(signal == 0 ? 0 : 20))})
                          .out);
  };
  const auto& record = identity->record;
  CHECK(obey(record.start + 1, record.boot, 9) == static_cast<int>(KillExit::already_stale));
  CHECK(obey(record.start, "0000-0000", 9) == static_cast<int>(KillExit::already_stale));
  CHECK(obey(record.start, record.boot, 0) == static_cast<int>(KillExit::killed));
  CHECK(::kill(target.pid(), 0) == 0);
  // nobody reaps it here until it is waited for: a zombie is gone
  CHECK(obey(record.start, record.boot, 15) == static_cast<int>(KillExit::killed));
  CHECK(target.wait() == 128 + 15);
  CHECK(obey(record.start, record.boot, 15) == static_cast<int>(KillExit::already_stale));
}

TEST_CASE("a kill that was not told whole is cut short", "[identity]") {
  const std::string text = GENERATE("", "kill killed", "kill killed COMPLETE", "killed COMPLETED");
  CHECK(parse_kill(text) == code(SshIdExit::cut_short));
}

TEST_CASE("only what a kernel prints is taken for a boot id", "[identity][H14]") {
  CHECK(is_boot_id("9949bea3-fbe0-4caf-b706-5fd85b2f9c71"));
  CHECK_FALSE(is_boot_id(""));
  CHECK_FALSE(is_boot_id("$(id)"));
  CHECK_FALSE(is_boot_id("9949;id"));
}

}  // namespace holdfast::testing
