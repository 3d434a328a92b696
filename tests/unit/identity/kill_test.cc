#include <csignal>

#include "identity/local_id.h"
#include "scene.h"

using namespace holdfast;
using namespace holdfast::identity;
using namespace holdfast::testing;
using namespace std::chrono_literals;

namespace {

const LocalId& ids() {
  static const LocalId ids(disk::posix());
  return ids;
}

Identity identity_of(const std::string& pid) {
  std::string why;
  const auto identity = ids().identify(pid, why);
  INFO(why);
  REQUIRE(identity);
  return *identity;
}

bool is_running(const Process& process) {
  const char state = state_of(process.pid_text());
  return state != '-' && state != 'Z' && state != 'X';
}

}  // namespace

TEST_CASE("a kill ends the process behind the id and sees it gone", "[identity]") {
  const int signal = GENERATE(SIGTERM, SIGKILL, SIGINT, SIGQUIT, SIGABRT);
  const bool has_record = GENERATE(true, false);
  Process process(kSleeper);
  const Identity identity = identity_of(process.pid_text());
  const auto record = has_record ? std::optional(identity.record) : std::nullopt;
  CHECK(ids().kill(identity.uid, record, signal, 20s) == KillExit::killed);
  CHECK(process.wait() == 128 + signal);
  CHECK(ids().kill(identity.uid, record, signal, 20s) == KillExit::already_stale);
}

TEST_CASE("a kill says so when the process does not die in time", "[identity]") {
  const Process process({"/bin/bash", "-c", "trap '' TERM; exec -a stubborn sleep 1000"});
  REQUIRE(eventually([&] { return is_named(process, "sleep"); }));
  const Identity identity = identity_of(process.pid_text());
  CHECK(ids().kill(identity.uid, identity.record, SIGTERM, 50ms) == KillExit::still_running);
  CHECK(is_running(process));
  CHECK(run({"local_id", "--wait", "0", "kill", identity.uid.str()}).code == 15);
  CHECK(ids().kill(identity.uid, identity.record, SIGKILL, 20s) == KillExit::killed);
}

TEST_CASE("a signal that ends nobody is sent without waiting for an end", "[identity]") {
  const Process process(kSleeper);
  const Identity identity = identity_of(process.pid_text());
  CHECK(ids().kill(identity.uid, identity.record, 0, 20s) == KillExit::killed);
  CHECK(ids().kill(identity.uid, identity.record, SIGSTOP, 20s) == KillExit::killed);
  CHECK(eventually([&] { return state_of(process.pid_text()) == 'T'; }));
}

TEST_CASE("a zombie is already stale to a kill", "[identity][H18]") {
  const Process process(kSleeper);
  const Identity identity = identity_of(process.pid_text());
  process.signal(SIGKILL);
  REQUIRE(eventually([&] { return state_of(process.pid_text()) == 'Z'; }));
  CHECK(ids().kill(identity.uid, identity.record, SIGTERM, 20s) == KillExit::already_stale);
}

TEST_CASE("a kill spares the process that has the pid of the one named now", "[identity]") {
  const Process process(kSleeper);
  Identity identity = identity_of(process.pid_text());
  const std::string text = identity.uid.str();
  const std::string btime = text.substr(text.rfind(':'));
  const Uid earlier = Uid::found(process.pid_text() + ":101" + btime);
  identity.record.start = 101;

  CHECK(ids().kill(earlier, identity.record, SIGKILL, 20s) == KillExit::already_stale);
  CHECK(ids().kill(earlier, std::nullopt, SIGKILL, 20s) == KillExit::already_stale);
  CHECK(run({"local_id", "kill", earlier.str(), "KILL"}).code == 1);
  CHECK(is_running(process));
}

TEST_CASE("a kill spares whom it cannot tell", "[identity]") {
  const Process process(kSleeper);
  const Identity identity = identity_of(process.pid_text());
  const std::string text = identity.uid.str();
  Record foreign = identity.record;

  SECTION("an id with a host in front and no record") {
    CHECK(ids().kill(Uid::found("build7:" + text), std::nullopt, SIGKILL, 20s) ==
          KillExit::unknown);
  }
  SECTION("an id of five fields") {
    CHECK(ids().kill(Uid::found("a:b:" + text), std::nullopt, SIGKILL, 20s) == KillExit::unknown);
  }
  SECTION("a boot time far away") {
    const Uid stepped = Uid::found(text.substr(0, text.rfind(':')) + ":1000000000");
    CHECK(ids().kill(stepped, std::nullopt, SIGKILL, 20s) == KillExit::unknown);
  }
  SECTION("a record of another pid namespace") {
    foreign.pidns = "pid:[1]";
    // with another boot time, so that not even root can prove that it has ended
    const std::size_t btime = text.rfind(':') + 1;
    const std::string later = std::to_string(std::stol(text.substr(btime)) + 5);
    CHECK(ids().kill(Uid::found(text.substr(0, btime) + later), foreign, SIGKILL, 20s) ==
          KillExit::unknown);
  }
  SECTION("a record of another host") {
    foreign.host += "x";
    foreign.boot = "another";
    CHECK(ids().kill(identity.uid, foreign, SIGKILL, 20s) == KillExit::unknown);
  }
  CHECK(is_running(process));
}

TEST_CASE("a kill of another user's process is not permitted", "[identity]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  const Process process(kSleeper);
  const std::string id = identity_of(process.pid_text()).uid.str();
  const Words nobody = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
  const Result result = scene.script("local_id kill '" + id + "' KILL", nobody);
  CHECK(result.code == 16);
  CHECK(result.err.find("not permitted") != std::string::npos);
  CHECK(is_running(process));
}

TEST_CASE("a process whose id would fit others as well is not signalled without its record",
          "[identity]") {
  Process process({helper("named_process"), "my job"});
  REQUIRE(eventually([&] { return is_named(process, "my job"); }));
  const Identity identity = identity_of(process.pid_text());
  CHECK(ids().check(identity.uid, std::nullopt).life == Life::alive);
  CHECK(ids().kill(identity.uid, std::nullopt, SIGKILL, 20s) == KillExit::unknown);
  CHECK(is_running(process));
  CHECK(ids().kill(identity.uid, identity.record, SIGKILL, 20s) == KillExit::killed);
}
