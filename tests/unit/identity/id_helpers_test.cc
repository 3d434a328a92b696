/// Programs as id helpers, and our own local_id as one.
#include <unistd.h>

#include <csignal>

#include "disk/disk.h"
#include "identity/command_id_helper.h"
#include "identity/local_id_helper.h"
#include "scene.h"

using namespace holdfast;
using namespace holdfast::identity;
using namespace holdfast::testing;

namespace {

/// A helper that notes its words in ./asked, a line per call, and says what `script` makes it say.
struct Helper {
  TempDir dir;
  CommandIdHelper ids;

  explicit Helper(const std::string& script)
      : ids({write(dir, script), "first", "second word"}, disk::posix()) {}

  static std::string write(const TempDir& dir, const std::string& script) {
    const std::string file = dir / "helper";
    write_file(file, "#!/bin/bash\n{ printf '%s|' \"$@\"; echo; } >> " + (dir / "asked") +
                         "\nshift 2\n" + script + "\n");
    REQUIRE(run({"/bin/chmod", "+x", file}).code == 0);
    return file;
  }
  std::string asked() const { return read_file(dir / "asked"); }
};

}  // namespace

TEST_CASE("a program is asked for ids by its words and the action", "[identity][helper]") {
  const Helper helper("echo \"host:$2:of $1\"; echo");
  std::string why;
  const auto identity = helper.ids.identify("12 '$(false)", why);
  REQUIRE(identity);
  CHECK(identity->uid.str() == "host:12 '$(false):of uid");
  CHECK_FALSE(identity->record.names_process());
  CHECK_FALSE(identity->record.host.empty());
  CHECK(helper.asked() == "first|second word|uid|12 '$(false)|\n");
}

TEST_CASE("an id helper that makes no id is told with its reason", "[identity][helper]") {
  const auto [script, reason] = GENERATE(table<std::string, std::string>({
      {"exit 1", "process 12 is not running"},
      {"echo id; exit 1", "process 12 is not running"},
      {"exit 12", "exited with 12"},
      {"kill -9 $$", "exited with 137"},
      {"true", "made no id of 12"},
      {"echo a/b", "made no id of 12"},
      {"printf 'a\\nb'", "made no id of 12"},
  }));
  const Helper helper(script);
  std::string why;
  CHECK_FALSE(helper.ids.identify("12", why));
  CHECK_THAT(why, Catch::Contains(reason));
}

TEST_CASE("an id helper that is not there makes no id", "[identity][helper]") {
  const CommandIdHelper ids({"/no/such/helper"}, disk::posix());
  std::string why;
  CHECK_FALSE(ids.identify("12", why));
  CHECK_THAT(why, Catch::Contains("/no/such/helper exited with 127"));
  CHECK_FALSE(ids.is_valid_uid("a:b"));
  CHECK(ids.pid(Uid::found("a")).code == 127);
}

TEST_CASE("fields come from the program with its status", "[identity][helper]") {
  const Helper helper("echo \"$1 of $2\"; [ \"$1\" = pid ] || exit 20");
  const Told pid = helper.ids.pid(Uid::found("u"));
  CHECK(pid.code == 0);
  CHECK(pid.text == "pid of u");
  CHECK(helper.ids.hostid(Uid::found("u")).code == 20);
  CHECK(helper.ids.is_host_compatible("h") == 20);
  CHECK(helper.ids.kill(Uid::found("u"), std::nullopt, SIGTERM, std::chrono::seconds(1)) == 20);
  CHECK_THAT(helper.asked(), Catch::EndsWith("first|second word|is_host_compatible|h|\n"
                                             "first|second word|kill|u|15|\n"));
}

TEST_CASE("a uid is what the helper takes for one", "[identity][helper]") {
  const auto [script, is_valid] = GENERATE(table<std::string, bool>({
      {"[ $1 = is_valid_uid ]", true},
      {"[ $1 = pid ] && echo 12", true},  // does not know is_valid_uid
      {"[ $1 = pid ]", false},            // finds nothing in it
      {"exit 10", false},
  }));
  const Helper helper(script);
  CAPTURE(script);
  CHECK(helper.ids.is_valid_uid("a:1") == is_valid);
  CHECK_FALSE(helper.ids.is_valid_uid("a/1"));  // whatever it says
}

TEST_CASE("a parent that ignores its children does not hide what a helper says",
          "[identity][helper]") {
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const Ran ran = run_program({"/bin/sh", "-c", "echo said; exit 3"}, Output::captured);
  const auto after = std::signal(SIGCHLD, before);
  CHECK(ran.status == 3);
  CHECK(ran.output == "said");
  CHECK(after == SIG_IGN);
}

TEST_CASE("a program can be interrupted by signals that its parent keeps away from itself",
          "[identity][helper]") {
  sigset_t kept_away;
  sigemptyset(&kept_away);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&kept_away, signal);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &kept_away, &before);
  const Ran ran = run_program({"/bin/grep", "SigBlk", "/proc/self/status"}, Output::captured);
  sigset_t after;
  pthread_sigmask(SIG_SETMASK, &before, &after);
  CHECK(ran.output == "SigBlk:\t0000000000000000");
  CHECK(sigismember(&after, SIGINT) == 1);
}

TEST_CASE("a program that is fed is not waited for longer than it runs", "[identity][helper]") {
  const auto output = GENERATE(Output::captured, Output::to_stderr);
  const auto [script, input] = GENERATE(table<std::string, std::string>({
      {"read -r word && [ \"$word\" = fed ] && exit 3", "fed\n"},
      {"read -r word || exit 3", ""},
      {"exec <&-; exit 3", std::string(1 << 20, 'x')},  // does not read it
  }));
  CAPTURE(script);
  CHECK(run_program({"/bin/sh", "-c", script}, output, input).status == 3);
}

TEST_CASE("local_id as an id helper knows processes and no hosts", "[identity][helper]") {
  const LocalIdHelper ids(disk::posix());
  Process process(kSleeper);
  std::string why;
  const auto identity = ids.identify(process.pid_text(), why);
  REQUIRE(identity);
  CHECK(identity->record.names_process());
  CHECK(ids.is_valid_uid(identity->uid.str()));
  CHECK_FALSE(ids.is_valid_uid("12"));
  CHECK(ids.pid(identity->uid).text == process.pid_text());
  CHECK(ids.hostid(identity->uid).code == 10);
  CHECK(ids.is_host_compatible("host") == 10);
  CHECK(ids.kill(identity->uid, identity->record, SIGKILL, std::chrono::seconds(20)) == 0);
  CHECK(ids.kill(identity->uid, identity->record, SIGKILL, std::chrono::seconds(20)) == 1);
  CHECK(ids.pid(identity->uid).code == 1);
}
