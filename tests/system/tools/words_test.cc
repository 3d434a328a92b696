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
