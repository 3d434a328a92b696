/// The command line of every tool: which words are refused, and what the message says.

#include <regex>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;

namespace {

using Words = std::vector<std::string>;

/// The name that stands in for a script of the shell package.
std::string shell_name(const std::string& script) {
  return build_dir() + "/libexec/holdfast/lockers/" + script;
}

/// Exit 10, nothing on stdout and nothing on the disk.
Result check_refused(const Session& at, const Words& words, const std::string& cause) {
  CAPTURE(words);
  const Result result = at.run(words);
  check_usage(result, cause);
  CHECK(at.tree().empty());
  return result;
}

}  // namespace

TEST_CASE("an action refuses more words than it has a use for", "[e2e][words]") {
  const Session at;
  const Process self(kSleeper);
  const std::string pid = self.pid_text();
  const auto [words, surplus] = GENERATE_COPY(table<Words, std::string>({
      {{"fast_lock", "lock", "L", "a", "more"}, "more"},
      {{"fast_lock", "unlock", "L", "a", "b"}, "b"},
      {{"fast_lock", "owner", "L", "M"}, "M"},
      {{"fast_lock", "clean", "L", "M"}, "M"},
      {{"check_lock", "true", "lock", "L", "a", "b"}, "b"},
      {{"check_lock", "is_mine", "L", "a", "b"}, "b"},
      {{"grace_lock", "true", "lock", "L", "a", "5", "b"}, "b"},
      {{"lock_local", "lock", "L", pid, "5"}, "5"},
      {{"lock_local", "unlock", "L", pid, "5"}, "5"},
      {{"lock_local", "owner", "L", pid}, pid},
      {{"lock_local", "kill_owner", "L", "TERM", "5"}, "5"},
      {{"lock_ssh", "lock", "L", pid, "5", "6"}, "6"},
      {{"lock_ssh", "owner", "L", "5"}, "5"},
      {{"hostpid_lock", "--idhelper", "local_id", "is_mine", "L", pid, "5"}, "5"},
      {{"local_id", "uid", pid, "5"}, "5"},
      {{"local_id", "kill", "1:2:3", "TERM", "5"}, "5"},
      {{"ssh_id", "is_valid_uid", "a", "b"}, "b"},
      {{"ssh_id", "are_stale", "a"}, "a"},
      {{"semaphore", "-l", "acquire", "S", "1", pid, "2"}, "2"},
      {{"semaphore_ssh", "owners", "S", "2"}, "2"},
      {{"rw_lock", "shared", "L", pid, "5"}, "5"},
      {{"rw_lock", "queue", "L", "5"}, "5"},
      {{"fair_lock", "lock", "L", pid, "5"}, "5"},
      {{"fair_semaphore", "acquire", "S", "1", pid, "2"}, "2"},
      {{"holdfast-ssh", "check", "localhost", "b"}, "b"},
  }));
  check_refused(at, words, "has no use for '" + surplus + "'");
}

TEST_CASE("an action with a list takes as many words as there are", "[e2e][words]") {
  const Session at;
  CHECK(at.run({"fast_lock", "clean_stale_ids", "L", "a", "b", "c"}) == kSilentYes);
  CHECK(at.run({"rw_lock", "clean_stale_ids", "L", "a", "b", "c"}) == kSilentYes);
  CHECK(at.run({"rw_lock", "status", ".", ".", "."}) == kSilentYes);
  CHECK(at.run({"multi_lock", "owners", "a", "b", "c"}) == kSilentYes);
}

TEST_CASE("the names of the shell package go on to ignore surplus words", "[e2e][words]") {
  const Session at;
  const Process self(kSleeper);
  const std::string pid = self.pid_text();
  const std::string fast = shell_name("lib/fast_lock.sh");
  CHECK(at.run({fast, "lock", "L", "a", "more", "words"}) == kSilentYes);
  CHECK(at.run({fast, "owner", "L", "more"}) == Result{0, "a\n", ""});
  CHECK(at.run({fast, "unlock", "L", "a", "more"}) == kSilentYes);
  const std::string local = shell_name("lock_local.sh");
  CHECK(at.run({local, "lock", "L", pid, "more"}) == kSilentYes);
  CHECK(at.run({local, "is_mine", "L", pid, "more"}) == kSilentYes);
  CHECK(at.run({local, "unlock", "L", pid, "more"}) == kSilentYes);
  CHECK(at.run({shell_name("local_id.sh"), "uid", pid, "more"}).out == uid_of(pid) + "\n");
  const std::string semaphore = shell_name("semaphore.sh");
  CHECK(at.run({semaphore, "-l", "acquire", "S", "1", pid, "more"}) == kSilentYes);
  CHECK(at.run({semaphore, "-l", "release", "S", pid, "more"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("an option where a path is expected is refused, and the message says how to write it",
          "[e2e][words]") {
  const Session at;
  const Process self(kSleeper);
  const std::string pid = self.pid_text();
  const auto [words, option] = GENERATE_COPY(table<Words, std::string>({
      {{"multi_lock", "acquire", "--wait", "3", "a", "b"}, "--wait"},
      {{"multi_lock", "--nowait", "acquire", "a", "--wait=3", "b"}, "--wait=3"},
      {{"multi_lock", "owners", "a", "--info"}, "--info"},
      {{"fair_lock", "lock", "--wait", "5", "deploy.lock", pid}, "--wait"},
      {{"fair_lock", "lock", "-w", pid}, "-w"},
      {{"fast_lock", "lock", "--help", "a"}, "--help"},
      {{"fast_lock", "owner", "-di"}, "-di"},
      {{"fast_lock", "clean", "--older-than=7"}, "--older-than=7"},
      {{"lock_local", "lock", "--info", pid}, "--info"},
      {{"lock_local", "lock", "--wait", pid}, "--wait"},
      {{"lock_ssh", "owner", "--grace-seconds"}, "--grace-seconds"},
      {{"rw_lock", "status", ".", "--json"}, "--json"},
      {{"check_lock", "true", "lock", "-s", "a"}, "-s"},
      {{"fair_semaphore", "acquire", "--permits", "2", pid}, "--permits"},
  }));
  check_refused(at, words,
                "'" + option +
                    "' is an option and stands before the action; a path of that name "
                    "is written './" +
                    option + "'");
}

TEST_CASE("a path that only looks like an option, or is written with its folder, is a path",
          "[e2e][words]") {
  const Session at;
  const std::string path =
      GENERATE("--help lock_local", "--no-such-option", "./--wait", "-x", "--info=", "--wait 3");
  CAPTURE(path);
  CHECK(at.run({"fast_lock", "lock", path, "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "owner", path}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "unlock", path, "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("the names of the shell package take any word for a path", "[e2e][words]") {
  const Session at;
  const std::string path = GENERATE("--help", "--info", "-di", "--older-than", "--help lock_local");
  const std::string fast = shell_name("lib/fast_lock.sh");
  CAPTURE(path);
  CHECK(at.run({fast, "lock", path, "a"}) == kSilentYes);
  CHECK(at.run({fast, "owner", path}) == Result{0, "a\n", ""});
  CHECK(at.run({fast, "unlock", path, "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("an option that the action does not use is refused by name", "[e2e][words]") {
  const Session at;
  const Process self(kSleeper);
  const std::string pid = self.pid_text();
  const auto [words, cause] = GENERATE_COPY(table<Words, std::string>({
      {{"lock_local", "--wait", "3", "owner", "L"},
       "'--wait' is not for 'owner', but for 'lock' and 'kill_owner'"},
      {{"lock_local", "--wait=3", "owner", "L"}, "'--wait' is not for 'owner'"},
      {{"lock_local", "-w", "3", "clean", "L"}, "'--wait' is not for 'clean'"},
      {{"lock_local", "-n", "unlock", "L", pid}, "'--nowait' is not for 'unlock', but for 'lock'"},
      {{"lock_local", "--wait", "3", "lock_nocheck", "L", pid}, "'--wait' is not for"},
      {{"lock_local", "--strict", "lock", "L", pid},
       "'--strict' is not for 'lock', but for "
       "'unlock'"},
      {{"lock_local", "--older-than", "3", "lock", "L", pid}, "'--older-than' is not for 'lock'"},
      {{"fast_lock", "--dir-leaf", "unlock", "L", "a"}, "'--dir-leaf' is not for 'unlock'"},
      {{"check_lock", "true", "--strict", "lock", "L", "a"}, "'--strict' is not for 'lock'"},
      {{"lock_ssh", "--wait", "3", "is_mine", "L", pid}, "'--wait' is not for 'is_mine'"},
      {{"local_id", "--wait", "3", "uid", pid}, "'--wait' is not for 'uid', but for 'kill'"},
      {{"ssh_id", "--wait", "3", "uid", pid}, "'--wait' is not for 'uid', but for 'kill'"},
      {{"semaphore", "-l", "--older-than", "3", "acquire", "S", "1", pid}, "'--older-than' is not"},
      {{"rw_lock", "--wait", "3", "unlock", "L", pid},
       "'--wait' is not for 'unlock', but for 'shared', 'exclusive' and 'upgrade'"},
      {{"rw_lock", "--json", "owners", "L"}, "'--json' is not for 'owners', but for 'status'"},
      {{"rw_lock", "--barge", "upgrade", "L", pid}, "'--barge' is not for 'upgrade'"},
      {{"fair_lock", "--wait", "3", "queue", "L"}, "'--wait' is not for 'queue', but for 'lock'"},
      {{"fair_semaphore", "--permits", "2", "owners", "S"}, "'--permits' is not for 'owners'"},
      {{"multi_lock", "--nowait", "release", "a"}, "'--nowait' is not for 'release'"},
      {{"multi_lock", "--id", pid, "owners", "a"}, "'--id' is not for 'owners'"},
      {{"multi_lock", "--hold-limit", "3", "release", "a"}, "'--hold-limit' is not for 'release'"},
  }));
  check_refused(at, words, cause);
}

TEST_CASE("an option that says what the lock is goes with every action", "[e2e][words]") {
  const Session at;
  CHECK(at.run({"lock_ssh", "--grace-seconds", "5", "--on-check-fail", "true", "owner", "L"}) ==
        kSilentYes);
  CHECK(at.run({"rw_lock", "--ssh", "--grace-seconds", "5", "owners", "L"}) == kSilentYes);
  CHECK(at.run({"hostpid_lock", "--idhelper", "local_id", "owner", "L"}) == kSilentYes);
}

TEST_CASE("the names of the shell package take each option with every action", "[e2e][words]") {
  const Session at;
  const Process self(kSleeper);
  const std::string local = shell_name("lock_local.sh");
  CHECK(at.run({local, "--strict", "lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run({local, "--older-than", "3", "is_mine", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run({local, "--dir-leaf", "unlock", "L", self.pid_text()}) == kSilentYes);
}

TEST_CASE("help that was asked for is on stdout and exits 0", "[e2e][words]") {
  const std::string option = GENERATE("-u", "-h", "--help");
  const Session at;
  for (const std::string name :
       {"fast_lock", "check_lock", "grace_lock", "hostpid_lock", "local_id", "ssh_id", "lock_local",
        "lock_ssh", "semaphore", "semaphore_ssh", "rw_lock", "fair_lock", "fair_semaphore",
        "multi_lock", "holdfast-ssh"}) {
    CAPTURE(name, option);
    const Result help = at.run({name, option});
    CHECK(help.code == 0);
    CHECK(help.err.empty());
    CHECK_THAT(help.out, Catch::StartsWith("\n    usage: " + name + " "));
    CHECK_THAT(help.out, Contains("--info") && !Contains("Error - "));
  }
}

TEST_CASE("help under a name of the shell package is on stderr with 10, and by that name",
          "[e2e][words]") {
  const Session at;
  const std::string option = GENERATE("-u", "-h", "--help");
  const auto [script, name] = GENERATE(table<std::string, std::string>({
      {"lock_local.sh", "lock_local.sh"},
      {"lock_ssh.sh", "lock_ssh.sh"},
      {"local_id.sh", "local_id.sh"},
      {"semaphore.sh", "semaphore.sh"},
      {"lib/fast_lock.sh", "fast_lock.sh"},
      {"lib/check_lock.sh", "check_lock.sh"},
  }));
  const Result help = at.run({shell_name(script), option});
  CHECK(help.code == 10);
  CHECK(help.out.empty());
  CHECK_THAT(help.err, Catch::StartsWith("\n    usage: " + name + " "));
}

TEST_CASE("help for an id is refused: 0 would call the id dead to whoever runs it as a checker",
          "[e2e][words]") {
  const Session at;
  CHECK(at.run({"lock_local", "--help", "lock"}).code == 0);
  const std::string option = GENERATE("--help", "--version");
  check_refused(at, {"local_id", option, "1:2:3"}, "has no use for '1:2:3'");
  check_refused(at, {"ssh_id", option, "is_stale", "1:2:3"}, "has no use for ");
  at.must("fast_lock lock L alive");
  CHECK(at.run({"check_lock", tool("local_id"), "-s", option, "lock", "L", "other"}).code == 1);
  CHECK(at.run({"fast_lock", "owner", "L"}).out == "alive\n");
}

TEST_CASE("a typo gets its cause, the usage line that matters and a suggestion", "[e2e][words]") {
  const Session at;
  const auto [words, said] = GENERATE(table<Words, std::string>({
      {{"lock_local", "lokc", "L", "1"},
       "Error - unknown action (lokc); did you mean 'lock'?\n"
       "usage: lock_local [option]... lock <lock_path> <pid>\n"
       "'lock_local --help' lists all actions and options\n"},
      {{"lock_local", "is-mine", "L", "1"},
       "Error - unknown action (is-mine); did you mean 'is_mine'?\n"
       "usage: lock_local [option]... is_mine <lock_path> <pid|uid>\n"
       "'lock_local --help' lists all actions and options\n"},
      {{"lock_local", "lock", "L"},
       "Error - action 'lock' needs <lock_path> <pid>\n"
       "usage: lock_local [option]... lock <lock_path> <pid>\n"
       "'lock_local --help' lists all actions and options\n"},
      {{"fair_lock", "--wiat", "3", "lock", "L", "1"},
       "Error - unknown option --wiat; did you mean '--wait'?\n"
       "usage: fair_lock [option]... [stale_checker] <action> [word]...\n"
       "'fair_lock --help' lists all actions and options\n"},
      {{"rw_lock", "shraed", "L", "1"},
       "Error - neither 'shraed' nor 'L' is an action; did you mean 'shared'?\n"
       "usage: rw_lock [option]... [stale_checker] shared <lock_path> <pid>\n"
       "'rw_lock --help' lists all actions and options\n"},
      {{"fast_lock", "frobnicate", "L"},
       "Error - unknown action (frobnicate)\n"
       "usage: fast_lock [option]... <action> [word]...\n"
       "'fast_lock --help' lists all actions and options\n"},
      {{"semaphore", "-l", "aquire", "S", "1", "1"},
       "Error - unknown action (aquire); did you mean 'acquire'?\n"
       "usage: semaphore [option]... <locker> acquire <semaphore_path> <max> [pid]\n"
       "'semaphore --help' lists all actions and options\n"},
  }));
  CHECK(at.run(words) == Result{10, "", said});
  CHECK(at.tree().empty());
}

TEST_CASE("a typo under a name of the shell package is answered as the script does",
          "[e2e][words]") {
  const Session at;
  const Result told = at.run({shell_name("lock_local.sh"), "lokc", "L", "1"});
  CHECK(told.code == 10);
  CHECK_THAT(told.err, Catch::StartsWith("\n    usage: lock_local.sh lock <lock_path> <pid>\n"));
  CHECK_THAT(told.err, Catch::EndsWith("\nError - unknown action (lokc)\n"));
}

TEST_CASE("the front door takes a dash for an underscore, and knows what was meant",
          "[e2e][words]") {
  const Session at;
  const Process self(kSleeper);
  CHECK(at.run({"holdfast", "lock-local", "lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run({"holdfast", "fast-lock", "owner", "L"}).out == uid_of(self.pid_text()) + "\n");
  CHECK(at.run({"holdfast", "lock_local", "unlock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run({"holdfast", "lock-local", "--help"}).out == at.run({"lock_local", "--help"}).out);
  CHECK(at.run({"holdfast", "lokc-local", "lock", "L"}) ==
        Result{10, "",
               "Error - no such tool: lokc-local; did you mean 'lock_local'?\n"
               "usage: holdfast TOOL [WORD]...\n"
               "'holdfast --help' lists all tools\n"});
}

TEST_CASE("the parser is CLI11 as the language allows it, and sets up no streams at the start",
          "[e2e][words]") {
  // A program may not declare names of its own in namespace std, nor define reserved ones.
  const Result found =
      shell("grep -rnE '^namespace std |define _[A-Z_]' --include=*.cc --include=*.h " +
            source_dir() + "/src/cli " + source_dir() + "/tools");
  CHECK(found == Result{1, "", ""});
  if (kIsSanitized || !has_program("nm")) return;
  const Result symbols = run({"nm", "-C", tool("holdfast")});
  REQUIRE_THAT(symbols.out, Contains("CLI::App::"));
  CHECK_THAT(symbols.out, !Contains("std::ios_base::Init::Init"));
}
