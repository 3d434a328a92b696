/// Answers, and hosts that give none: each has its reason, and none holds the others up.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <sstream>

#include "rig.h"

using namespace holdfast::testing;
using Catch::Contains;

namespace {

std::vector<std::string> children_of(const std::string& pid) {
  std::istringstream all(read_file("/proc/" + pid + "/task/" + pid + "/children"));
  std::vector<std::string> pids;
  for (std::string child; all >> child;) pids.push_back(child);
  return pids;
}

/// Children, their children, and so on.
std::vector<std::string> descendants_of(const std::string& pid) {
  std::vector<std::string> found = children_of(pid);
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const std::string& child : children_of(found[i])) found.push_back(child);
  }
  return found;
}

bool is_running(const std::string& pid) {
  const std::string stat = read_file("/proc/" + pid + "/stat");
  const std::size_t name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) != "Z";
}

}  // namespace

TEST_CASE("stdout and status come back and stdin is empty and stderr is dropped", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Trip trip = rig.errand(engine, "cat; echo out; echo err >&2; printf 'no newline'; exit 42",
                               {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK(trip[0].status == 42);
  CHECK(trip[0].output == "out\nno newline\n");
  CHECK(trip[0].why.empty());
  CHECK(trip.err.empty());
}

TEST_CASE("a long answer comes back whole and one without end is cut", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Trip full = rig.errand(engine, "head -c 1048576 /dev/zero", {"alpha.test"});
  CHECK(full[0].is_answered);
  CHECK(full[0].size == 1048576);

  const Trip endless = rig.errand(engine, "cat /dev/zero", {"alpha.test"});
  CHECK_FALSE(endless[0].is_answered);
  CHECK(endless[0].size == 1048576);
  CHECK_THAT(endless[0].why, Contains("longer than 1048576 bytes"));
}

TEST_CASE("endless noise on stderr is dropped and the answer still comes", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Trip trip = rig.errand(engine, "head -c 8000000 /dev/zero >&2; echo hello", {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK(trip[0].output == "hello\n\n");
}

TEST_CASE("an answer cut short is no answer", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  // Kills the sshd of this session, which nobody tells when the first line has come through: on a
  // busy machine that takes longer.
  std::string heard;
  for (const std::string pause : {"1", "5", "25"}) {
    const Trip trip = rig.errand(
        engine + Words{"--total", "50000"},
        "echo first; sleep " + pause + "; kill -9 $PPID; sleep 5; echo second", {"alpha.test"});
    INFO(trip[0]);
    CHECK_FALSE(trip[0].is_answered);
    CHECK_FALSE(trip[0].why.empty());
    heard = trip[0].output;
    if (heard == "first\n\n") break;
  }
  CHECK(heard == "first\n\n");
}

TEST_CASE("a command ended by a signal is no answer", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Trip trip = rig.errand(engine, "kill -TERM $$", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_FALSE(trip[0].why.empty());
}

TEST_CASE("a host that is not there is told apart from one that refuses", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const auto [host, reason] = GENERATE(table<std::string, std::string>(
      {{"closed.test", "Connection refused"}, {"nowhere.test", "name"}}));
  CAPTURE(engine[1], host);
  Rig rig;
  rig.address("closed");
  const Trip trip = rig.errand(engine, "true", {host});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains(reason) && Contains(host));
}

TEST_CASE("a host that takes the connection and says nothing costs the connect time", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const std::string greeting = GENERATE("", "SSH-2.0-OpenSSH_9.2\r\n");
  CAPTURE(engine[1], greeting);
  Rig rig;
  rig.start_silent("mute", greeting);
  const Trip trip = rig.errand(engine + Words{"--connect", "1000"}, "true", {"mute.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_FALSE(trip[0].why.empty());
  CHECK(trip.seconds < 25);  // less than the total time
}

TEST_CASE("a host that hangs up at once is no answer", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_silent("rude", "Go away.\r\n");
  const Trip trip = rig.errand(engine + Words{"--connect", "1000"}, "true", {"rude.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
}

TEST_CASE("a caller with closed streams is answered", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  std::string line;
  for (const std::string& word : rig.errand_words(engine, "hostname", {"alpha.test"})) {
    line += word + " ";
  }
  const Result result = rig.as_user({"sh", "-c", line + "<&- 2>&-"});
  CHECK_THAT(result.out, Contains("alpha.test answered 0"));
}

TEST_CASE("a command that hangs costs the total time", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Trip trip =
      rig.errand(engine + Words{"--total", "2500"}, "echo first; sleep 1000", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("no answer within 2500 ms, while "));
  CHECK(trip.seconds < 25);
}

TEST_CASE("a name server that says nothing costs the connect time", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  // where a machine without a resolv.conf asks as well
  const auto server = rig.start_as_user({helper("silent_server"), "udp", "127.0.0.1", "53"});
  std::ofstream(rig.path("etc/resolv.conf")) << "nameserver 127.0.0.1\n";
  REQUIRE(eventually([&] {
    return rig.as_user({"grep", "-q", ":0035 ", "/proc/self/net/udp"}).code == 0;
  }));
  const Trip trip =
      rig.errand(engine + Words{"--connect", "1000", "--total", "2000"}, "true", {"far.example"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("no answer within 1 s, while "));
  CHECK(trip.seconds < 25);
}

TEST_CASE("hosts are asked at once and one that hangs keeps no other from answering", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.start_host("beta");
  rig.start_silent("mute");
  const Words mutes(6, "mute.test");
  const Words patience{"--connect", kIsSanitized ? "9000" : "5000"};
  const Trip trip = rig.errand(engine + patience, "echo $SSH_CONNECTION",
                               Words{"alpha.test"} + mutes + Words{"beta.test"});
  CHECK_THAT(trip[0].output, Contains(rig.address("alpha") + " 22\n"));
  for (std::size_t i = 1; i <= mutes.size(); ++i) CHECK_FALSE(trip[i].is_answered);
  CHECK_THAT(trip.told.back().output, Contains(rig.address("beta") + " 22\n"));
  CHECK(trip.seconds < 25);  // one after the other would take 30 and more
}

TEST_CASE("more hosts than may be asked at once are all asked in turn", "[ssh]") {
  NEEDS_RIG();
  Rig rig;
  rig.start_host("alpha");
  const Trip trip = rig.errand({"--at-once", "3"}, "echo hello", Words(10, "alpha.test"));
  for (const Told& told : trip.told) {
    INFO(told);
    CHECK(told.output == "hello\n\n");
  }
}

TEST_CASE("all that was started dies with the one who asked", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool is_proxy = GENERATE(false, true);
  CAPTURE(engine[1], is_proxy);
  Rig rig;
  rig.start_silent("mute");
  if (is_proxy) rig.write(".ssh/config", "ProxyCommand sh -c 'sleep 1000; true'\n");
  const std::size_t generations = is_proxy ? 4 : engine[1] == "command" ? 2 : 1;
  const Words no_hurry{"--connect", "1000000", "--total", "1000000"};
  const auto asking = rig.start_as_user(rig.errand_words(engine + no_hurry, "true", {"mute.test"}));
  std::vector<std::string> pids;
  REQUIRE(eventually([&] {
    pids = descendants_of(asking->pid_text());
    return pids.size() >= generations;
  }));
  asking->kill_and_wait();
  const bool are_gone =
      eventually([&] { return std::none_of(pids.begin(), pids.end(), is_running); });
  CHECK(are_gone);
  for (const std::string& pid : pids) {
    if (!are_gone && is_running(pid)) kill(std::stoi(pid), SIGKILL);
  }
}
