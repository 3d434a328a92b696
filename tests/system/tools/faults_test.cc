/// Bad input and a world that says no: the answer is right, the reason is told, nothing is left.

#include <unistd.h>

#include <cstdlib>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::Matches;
using Catch::StartsWith;

namespace {

Env tools_in_path() {
  const char* path = std::getenv("PATH");
  return {{"PATH", build_dir() + "/bin:" + (path ? path : "/usr/sbin:/usr/bin:/sbin:/bin")}};
}

/// In a mount namespace of its own, so that its mounts end with it.
Result with_mounts(const Session& at, const std::string& script) {
  return at.run({"unshare", "--mount", "/bin/bash", "-c", "set -e; " + script}, tools_in_path());
}

bool can_mount() {
  return is_root() && has_program("unshare") &&
         run({"unshare", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"}).code == 0;
}

bool can_loop() {
  return can_mount() && has_program("mkfs.ext4") &&
         with_mounts({}, "truncate -s 1M i; mkfs.ext4 -q i; mkdir m; mount -o loop i m").code == 0;
}

/// Somebody without rights of root, in a folder where everybody may write.
class Nobody : public Session {
 public:
  Nobody() { must("chmod 0777 ."); }
  ~Nobody() { (void)shell("chmod -R u+rwX ."); }

  bool exists() const {
    return !is_root() ||
           (has_program("setpriv") && as_nobody({tool("fast_lock"), "owner", "none"}).code == 0);
  }
  Result as_nobody(std::vector<std::string> words) const {
    std::vector<std::string> command;
    if (is_root()) {
      command = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
      words[0] = words[0].find('/') == std::string::npos ? tool(words[0]) : words[0];
    }
    command.insert(command.end(), words.begin(), words.end());
    return run(command);
  }
};

/// Every name, kind, size and time below `folder`.
std::string state_of(const Session& at, const std::string& folder) {
  return at.shell("find '" + folder + "' -printf '%p %y %m %s %T@ %l\\n' | sort").out;
}

const Tree kHeldByA = {"L/", "L/owner/", "L/owner/a"};
const std::string kRecordLine = "\\{\"v\":1,[^\n]*\\}\n";

}  // namespace

// ---- rights

TEST_CASE("a parent that is not writable is told with 2 and gets nothing", "[e2e]") {
  const Nobody at;
  if (!at.exists()) SKIP_TEST("needs setpriv, and tools that everybody may run");
  at.must("mkdir -m 0555 p");
  check_failed(at.as_nobody({"fast_lock", "lock", "p/L", "a"}), 2, "Permission denied");
  check_failed(at.as_nobody({"fast_lock", "lock", "p/q/L", "a"}), 2, "Permission denied");
  CHECK(at.tree() == Tree{"p/"});
}

TEST_CASE("a lock of somebody else can be seen but neither taken nor freed", "[e2e]") {
  const Nobody at;
  if (!at.exists()) SKIP_TEST("needs setpriv, and tools that everybody may run");
  at.must("fast_lock lock L a; chmod 0555 L L/owner");
  const std::string before = state_of(at, "L");
  check_failed(at.as_nobody({"fast_lock", "lock", "L", "b"}), 2, "Permission denied");
  check_failed(at.as_nobody({"fast_lock", "unlock", "L", "a"}), 2, "Permission denied");
  check_failed(at.as_nobody({"check_lock", "false", "unlock", "L", "a"}), 2, "Permission denied");
  CHECK(at.as_nobody({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.as_nobody({"fast_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.as_nobody({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.as_nobody({"fast_lock", "clean_stale_ids", "L", "a"}).code == 0);
  CHECK(at.as_nobody({"check_lock", "true", "lock", "L", "b"}).code == 2);
  check_failed(at.as_nobody({"check_lock", "--strict", "false", "unlock", "L", "a"}), 2,
               "Permission denied");
  CHECK(state_of(at, "L") == before);
}

TEST_CASE("an unlock that the disk refused is never reported as done", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mounts of its own");
  const Session at;
  const Result result = with_mounts(at, R"(
      mkdir m; mount -t tmpfs none m; sleep 1000 & holder=$!
      lock_local lock m/L $holder; fast_lock lock m/F a; mount -o remount,ro m
      for words in "lock_local unlock m/L $holder" "lock_local --strict unlock m/L $holder" \
                   "check_lock false unlock m/F a" "fast_lock unlock m/F a" \
                   "lock_local unlock m/L $$" "check_lock false unlock m/F b"; do
        $words 2> reason && echo 0 || echo $?
      done
      cat reason; kill $holder)");
  INFO(result);
  CHECK_THAT(result.out, StartsWith("2\n2\n2\n2\n0\n0\n"));
}

TEST_CASE("a dead holder whose leaf cannot be removed is told with 2 and the way out", "[e2e]") {
  const Nobody at;
  if (!at.exists() || !is_root()) SKIP_TEST("needs root and setpriv");
  at.must("mkdir -m 0777 g");
  {
    Process brief(kSleeper);
    at.must("umask 022; lock_local lock g/L " + brief.pid_text() + "; chmod 0777 g/L");
  }
  const std::string id = at.tree("g/L/owner").at(0);
  Process rival(kSleeper);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"lock_local", "lock", "g/L", rival.pid_text()},
        {"rw_lock", "exclusive", "g/L", rival.pid_text()},
        {"fair_lock", "--wait", "60", "lock", "g/L", rival.pid_text()},
        {"multi_lock", "--id", rival.pid_text(), "acquire", "g/L"},
        {"check_lock", tool("local_id"), "-s", "is_stale", "lock", "g/L", "b"}}) {
    CAPTURE(words);
    const Result refused = at.as_nobody(words);
    INFO(refused);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains("is held by " + id + ", which is dead, but g/L/owner/" + id +
                                     " cannot be removed: Permission denied"));
    CHECK_THAT(refused.err, Contains("fast_lock clean_stale_ids g/L " + id));
  }
  CHECK(at.run({"fast_lock", "clean_stale_ids", "g/L", id}).code == 0);
  CHECK(at.as_nobody({"lock_local", "lock", "g/L", rival.pid_text()}).code == 0);
}

TEST_CASE(
    "a slot whose dead holder cannot be removed fails a semaphore only if no other can free up",
    "[e2e]") {
  const Nobody at;
  if (!at.exists() || !is_root()) SKIP_TEST("needs root and setpriv");
  at.must("mkdir -m 0777 S");
  {
    Process brief(kSleeper);
    at.must("umask 022; semaphore -l acquire S 1 " + brief.pid_text() + "; chmod 0777 S/1");
  }
  const std::string id = at.tree("S/1/owner").at(0);
  Process first(kSleeper), second(kSleeper);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"semaphore", "-l", "acquire", "S", "1", first.pid_text()},
        {"fair_semaphore", "--wait", "60", "acquire", "S", "1", first.pid_text()}}) {
    CAPTURE(words);
    const Result refused = at.as_nobody(words);
    INFO(refused);
    CHECK(refused.code == 2);
    CHECK_THAT(refused.err, Contains(id + ", which is dead, but S/1/owner/" + id +
                                     " cannot be removed: Permission denied"));
  }
  CHECK(at.as_nobody({"semaphore", "-l", "acquire", "S", "2", first.pid_text()}).code == 0);
  CHECK(at.as_nobody({"semaphore", "-l", "acquire", "S", "2", second.pid_text()}).code == 1);
  CHECK(at.as_nobody({"fair_semaphore", "acquire", "S", "2", second.pid_text()}).code == 1);
}

TEST_CASE("a reader of stderr that went away does not kill the tool", "[e2e]") {
  const Session at;
  // 5 is a pipe without a reader; with -d each call writes to it
  const Result result = at.shell(R"(
      mkfifo pipe; exec 4<> pipe 5> pipe 4<&-
      lock_local -d lock L $$ 2>&5; echo $?
      lock_local -d lock L $$ 2>&5; echo $?
      lock_local -d unlock L $$ 2>&5; echo $?
      rm pipe)");
  INFO(result);
  CHECK(result.out == "0\n20\n0\n");
  CHECK(at.tree().empty());
}

TEST_CASE("a limit on the size of files gives 2, and nothing is left", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  for (const std::string& words :
       {"lock_local lock L " + holder.pid_text(), "rw_lock exclusive L " + holder.pid_text(),
        "fair_lock --wait 5 lock L " + holder.pid_text()}) {
    CAPTURE(words);
    const Result result = at.shell("ulimit -f 0; exec " + words);
    INFO(result);
    CHECK(result.code == 2);
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a procfs that cannot be read is told with 2, not as a process that is not running",
          "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mounts of its own");
  if (kIsSanitized) SKIP_TEST("a sanitizer needs /proc itself");
  const Session at;
  const Result hidden = with_mounts(at, "mount -t tmpfs none /proc; lock_local lock L 1");
  INFO(hidden);
  CHECK(hidden.code == 2);
  CHECK_THAT(hidden.err, Contains("cannot read /proc/stat: No such file or directory"));
  CHECK(at.tree().empty());
}

TEST_CASE("a process without descriptors to spare is not told that another is not running",
          "[e2e]") {
  if (kIsSanitized) SKIP_TEST("a sanitizer needs descriptors of its own");
  const Session at;
  for (const std::string limit : {"4", "5"}) {
    const Result result = at.shell("ulimit -n " + limit + "; exec lock_local lock L $$");
    CAPTURE(limit, result);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Contains("Too many open files"));
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a record has the number of the user, and of LOGNAME only a part", "[e2e]") {
  const Session at;
  Process holder(kSleeper);
  at.must("LOGNAME=$(printf 'x%.0s' {1..5000}) lock_local lock L " + holder.pid_text());
  const std::string record = read_file(at.path("L/owner/" + at.tree("L/owner").at(0)));
  CHECK_THAT(record, Contains("\"uid\":" + std::to_string(geteuid()) + ","));
  CHECK_THAT(record, Contains("\"user\":\"" + std::string(64, 'x') + "\""));
  Process rival(kSleeper);
  const Result refused = at.run({"lock_local", "--info", "lock", "L", rival.pid_text()});
  CHECK_THAT(refused.err, Contains("(LOGNAME xxxx"));
}

TEST_CASE("an empty lock folder of somebody else cannot be taken", "[e2e]") {
  const Nobody at;
  if (!at.exists()) SKIP_TEST("needs setpriv, and tools that everybody may run");
  at.must("mkdir p; mkdir -m 0555 p/L; chmod 0555 p");
  check_failed(at.as_nobody({"fast_lock", "lock", "p/L", "a"}), 2, "Permission denied");
  CHECK(at.tree() == Tree{"p/", "p/L/"});
}

TEST_CASE("a lock that cannot be looked into is neither free nor clean nor stale", "[e2e]") {
  const Nobody at;
  if (!at.exists()) SKIP_TEST("needs setpriv, and tools that everybody may run");
  at.must("fast_lock lock L a; chmod 0 L");
  check_failed(at.as_nobody({"fast_lock", "lock", "L", "b"}), 2, "Permission denied");
  CHECK(at.as_nobody({"fast_lock", "clean", "L"}).code == 2);
  CHECK(at.as_nobody({"lock_local", "clean", "L"}).code == 2);
  CHECK(at.as_nobody({"lock_local", "is_stale", "L"}).code == 13);
  CHECK(at.as_nobody({"check_lock", "true", "is_stale", "L"}).code == 13);
  at.must("chmod 0755 L");
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("the unlock of a lock that cannot be looked into says why", "[e2e]") {
  const Nobody at;
  if (!at.exists()) SKIP_TEST("needs setpriv, and tools that everybody may run");
  at.must("fast_lock lock L a; chmod 0 L");
  check_failed(at.as_nobody({"fast_lock", "unlock", "L", "a"}), 2, "Permission denied");
}

TEST_CASE("a leaf that cannot be read still keeps others out", "[e2e]") {
  const Nobody at;
  if (!at.exists()) SKIP_TEST("needs setpriv, and tools that everybody may run");
  at.must("umask 0; fast_lock lock L a; chmod 0 L/owner/a");
  CHECK(at.as_nobody({"fast_lock", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.as_nobody({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("the lock of a living process of another user is not taken", "[e2e]") {
  const Nobody at;
  if (!is_root() || !at.exists()) SKIP_TEST("needs root and setpriv");
  Process holder(kSleeper);
  at.must("umask 0; lock_local lock L " + holder.pid_text());
  const Tree held = at.tree();
  const Result result = at.run({"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                                "/bin/bash", "-c", tool("lock_local") + " lock L $$"});
  CHECK(result.code == 1);
  CHECK(at.tree() == held);
}

// ---- the path

TEST_CASE("a lock path that is a file is told with 2 and stays", "[e2e]") {
  const std::string lock = GENERATE("L", "L/", "L/below", "L/p/below");
  const Session at;
  at.must("echo precious > L");
  CAPTURE(lock);
  check_failed(at.run({"fast_lock", "lock", lock, "a"}), 2, "Not a directory");
  CHECK(at.run({"fast_lock", "owner", lock}).out.empty());
  CHECK(at.run({"fast_lock", "unlock", lock, "a"}).code == 1);
  CHECK(at.run({"fast_lock", "clean_stale_ids", lock, "a"}).code == 0);
  (void)at.run({"fast_lock", "--older-than", "0", "clean", lock});
  CHECK(at.tree() == Tree{"L"});
  CHECK(read_file(at.path("L")) == "precious\n");
}

TEST_CASE("a dangling symlink is told with 2 and stays", "[e2e]") {
  const std::string target = GENERATE("nowhere", "nowhere/below");
  const std::string lock = GENERATE("L", "L/");
  const Session at;
  at.must("ln -s " + target + " L");
  check_failed(at.run({"fast_lock", "lock", lock, "a"}), 2, "L is a symbolic link");
  CHECK(at.run({"fast_lock", "owner", lock}) == kSilentYes);
  CHECK(at.tree() == Tree{"L@"});
}

TEST_CASE("a symlink to itself is told with 2 and stays", "[e2e]") {
  const Session at;
  at.must("ln -s L L");
  check_failed(at.run({"fast_lock", "lock", "L", "a"}), 2, "Too many levels of symbolic links");
  CHECK(at.tree() == Tree{"L@"});
}

TEST_CASE("a symlink to a folder shares the lock of that folder", "[e2e]") {
  const std::string lock = GENERATE("L", "L/");
  const Session at;
  at.must("mkdir real; ln -s real L");
  CHECK(at.run({"fast_lock", "lock", lock, "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"L@", "real/", "real/owner/", "real/owner/a"});
  CHECK(at.run({"fast_lock", "owner", "real"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "lock", "real", "b"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "clean", lock}) == kSilentNo);
  CHECK(at.run({"fast_lock", "unlock", lock, "a"}) == kSilentYes);
  CHECK(at.tree() == Tree{"L@", "real/"});
  CHECK(at.run({"fast_lock", "clean", lock}) == kSilentYes);
  CHECK(at.run({"fast_lock", "lock", lock, "b"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "lock", lock, "c"}) == kSilentNo);
}

TEST_CASE("a process locks through a symlink to a folder", "[e2e]") {
  const Session at;
  Process self(kSleeper);
  at.must("mkdir real; ln -s real L");
  CHECK(at.run({"lock_local", "lock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.run({"lock_local", "owner_pid", "real"}).out == self.pid_text() + "\n");
  CHECK(at.run({"lock_local", "unlock", "L", self.pid_text()}) == kSilentYes);
  CHECK(at.tree() == Tree{"L@", "real/"});
}

TEST_CASE("a path that is too long is told with 2 and makes nothing", "[e2e]") {
  std::string deep = "p";
  while (deep.size() < 4200) deep += "/p";
  const std::string lock = GENERATE_COPY(std::string(256, 'x'), std::string(256, 'x') + "/L", deep);
  const Session at;
  check_failed(at.run({"fast_lock", "lock", lock, "a"}), 2, "File name too long");
  CHECK(at.tree().empty());
}

TEST_CASE("a lock name of 255 bytes works", "[e2e]") {
  const Session at;
  const std::string lock(255, 'x');
  CHECK(at.run({"fast_lock", "lock", lock, "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "unlock", lock, "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("in a folder that was removed absolute paths work in silence", "[e2e]") {
  const Session at;
  const Result result = at.shell("mkdir d; cd d; rmdir ../d; L=" + at.path("L") +
                                 "; fast_lock lock $L a && fast_lock owner $L &&"
                                 " fast_lock unlock $L a && lock_local lock $L $$ &&"
                                 " lock_local is_mine $L $$ && lock_local unlock $L $$");
  CHECK(result == Result{0, "a\n", ""});
  CHECK(at.tree().empty());
}

TEST_CASE("in a folder that was removed a relative path is told with 2", "[e2e]") {
  const Session at;
  check_failed(at.shell("mkdir d; cd d; rmdir ../d; fast_lock lock L a"), 2,
               "No such file or directory");
  CHECK(at.tree().empty());
}

// ---- strange things in the lock

TEST_CASE("an owner that is no folder is told with 2 and stays", "[e2e]") {
  const std::string plant = GENERATE("touch L/owner", "mkfifo L/owner", "ln -s nowhere L/owner",
                                     "mkdir elsewhere; ln -s ../elsewhere L/owner");
  const Session at;
  at.must("mkdir L; " + plant);
  CAPTURE(plant);
  const Tree before = at.tree();
  check_failed(at.run({"fast_lock", "lock", "L", "a"}), 2, "L/owner");
  CHECK(at.run({"check_lock", "true", "lock", "L", "a"}).code == 2);
  CHECK(at.run({"fast_lock", "--dir-leaf", "lock", "L", "a"}).code == 2);
  CHECK(at.tree() == before);
}

TEST_CASE("two leaves belong to nobody and are told", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/a L/owner/b");
  const Tree before = at.tree();
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "a\nb\n", "L has 2 owners\n"});
  CHECK(at.run({"fast_lock", "is_mine", "L", "a"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "is_mine", "L", "b"}) == kSilentNo);
  const Result refused = at.run({"fast_lock", "lock", "L", "c"});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("2 owners") && Contains("a b"));
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == before);
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "b\n", ""});
}

TEST_CASE("of two owners a single living one keeps the lock", "[e2e]") {
  const Session at;
  Process alive(kSleeper);
  Process rival(kSleeper);
  const std::string uid = uid_of(alive.pid_text());
  at.must("mkdir -p L/owner; touch L/owner/" + uid + " L/owner/" + dead_uid());
  CHECK(at.run({"lock_local", "is_stale", "L"}).code == 1);
  CHECK(at.run({"lock_local", "lock", "L", rival.pid_text()}).code == 1);
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, uid + "\n", ""});
}

TEST_CASE("a dot file among the owners is a visible owner", "[e2e][H8]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/.x");
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, ".x\n", ""});
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentNo);
  CHECK(at.run({"check_lock", "true", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("what NFS left of an open leaf blocks nobody", "[e2e][H8]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/.nfs000001 L/owner/.nfs000002");
  CHECK(at.run({"fast_lock", "owner", "L"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == kSilentYes);
  CHECK(at.run({"lock_local", "is_stale", "L"}).code == 2);
  CHECK(at.run({"fast_lock", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree() == kHeldByA);
}

TEST_CASE("what NFS left beside an owner is no second owner", "[e2e][H8]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/.nfs000001 L/owner/a");
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.tree("L/owner") == Tree{".nfs000001", "a"});
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.run({"fast_lock", "lock", "L", "b"}) == kSilentYes);
  CHECK(at.tree("L/owner") == Tree{"b"});
}

TEST_CASE("clean removes what NFS left", "[e2e][H8]") {
  const Session at;
  at.must("mkdir -p L/owner; touch L/owner/.nfs000001");
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("a leaf that is a pipe keeps nobody waiting", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/owner; mkfifo L/owner/a");
  CHECK(at.run({"fast_lock", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.run({"fast_lock", "lock", "L", "a"}).code == 20);
  CHECK(at.run({"check_lock", "false", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"fast_lock", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("a broken record makes no verdict worse", "[e2e]") {
  const std::string record =
      GENERATE("", "{\"v\":", "{\"v\":1", "{\"v\":2}", "{\"v\":null}", "{\"v\":1,\"pid\":-1}",
               "{\"v\":1,\"pid\":999999999999999999999}", "{\"v\":1,\"host\":{}}");
  const Session at;
  Process holder(kSleeper);
  Process rival(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  at.must("lock_local lock L " + holder.pid_text() + "; printf '%s' '" + record + "' > L/owner/" +
          uid);
  CAPTURE(record);
  CHECK(at.run({"lock_local", "lock", "L", rival.pid_text()}) == kSilentNo);
  CHECK(at.run({"lock_local", "owner_pid", "L"}).out == holder.pid_text() + "\n");
  holder.kill_and_wait();
  CHECK(at.run({"lock_local", "lock", "L", rival.pid_text()}) == kSilentYes);
}

TEST_CASE("a leaf that does not begin like a record is never removed", "[e2e]") {
  const std::string content = GENERATE("x", "{", "{}", "null", "[1]", " {\"v\":1}");
  const Session at;
  Process holder(kSleeper);
  Process rival(kSleeper);
  const std::string leaf = "L/owner/" + uid_of(holder.pid_text());
  at.must("lock_local lock L " + holder.pid_text() + "; printf '%s' '" + content + "' > " + leaf);
  CAPTURE(content);
  const std::string reason = leaf + " was not made by a locker";
  check_failed(at.run({"lock_local", "lock", "L", rival.pid_text()}), 2, reason);
  holder.kill_and_wait();
  check_failed(at.run({"lock_local", "lock", "L", rival.pid_text()}), 2, reason);
  CHECK(read_file(at.path(leaf)) == content);
}

TEST_CASE("a record full of control characters cannot reach the terminal", "[e2e]") {
  const Session at;
  at.must("mkdir -p L/owner");
  write_file(
      at.path("L/owner/a"),
      "{\"v\":1,\"host\":\"\\u001b[2Jfar\",\"user\":\"x\\u0007\\ny\",\"cmd\":\"\\u001b]0;\"}\n");
  const Result refused = at.run({"fast_lock", "--info", "lock", "L", "b"});
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("far"));
  CHECK(refused.err.find_first_of("\x1b\x07") == std::string::npos);
}

TEST_CASE("nothing is changed behind a planted symlink", "[e2e]") {
  const auto [plant, victim] = GENERATE(table<std::string, std::string>({
      {"mkdir L; ln -s ../victim L/build",
       "mkdir -p victim/{a/owner,.gone.1}; touch victim/a/owner/a"},
      {"mkdir -p L/build; ln -s ../../victim L/build/a",
       "mkdir -p victim/owner; touch victim/owner/a"},
      {"mkdir -p L/build/a; ln -s ../../../victim L/build/a/owner", "mkdir victim; touch victim/a"},
      {"mkdir -p L/build/a/owner; ln -s ../../../../victim L/build/a/owner/a", "echo x > victim"},
      {"mkdir -p L/build; ln -s ../../victim L/build/.gone.1", "mkdir -p victim/a; touch victim/b"},
      {"mkdir L; ln -s ../victim L/owner", "mkdir victim; touch victim/a"},
      {"mkdir L; ln -s ../victim L/owner", "mkdir victim; touch victim/.nfs1"},
      {"mkdir L; ln -s ../victim L/owner", "mkdir victim"},
      {"mkdir -p L/owner; ln -s ../../victim L/owner/a", "echo x > victim"},
      {"mkdir -p L/owner; ln -s ../../victim L/owner/a", "mkdir victim; touch victim/a"},
      {"mkdir L; ln -s ../victim L/in_use", "mkdir -p victim/a"},
      {"mkdir -p L/in_use; ln -s ../../victim L/in_use/a", "mkdir -p victim"},
  }));
  const auto words = GENERATE(values<std::vector<std::string>>({
      {"fast_lock", "lock", "L", "a"},
      {"fast_lock", "--dir-leaf", "lock", "L", "a"},
      {"fast_lock", "lock", "L", "b"},
      {"fast_lock", "unlock", "L", "a"},
      {"fast_lock", "clean_stale_ids", "L", "a"},
      {"fast_lock", "--older-than", "0", "clean", "L"},
      {"check_lock", "true", "lock", "L", "a"},
      {"lock_local", "owner", "L"},
      {"lock_local", "clean", "L"},
      {"grace_lock", "true", "lock", "L", "a"},
      {"grace_lock", "true", "lock", "L", "b"},
      {"grace_lock", "--grace-seconds", "1", "true", "lock", "L", "b"},
      {"grace_lock", "true", "lock_check", "L", "b"},
      {"grace_lock", "true", "unlock", "L", "a"},
      {"grace_lock", "true", "clean", "L"},
  }));
  const Session at;
  CAPTURE(plant, victim, words);
  at.must(victim + "; find victim -depth -exec touch -h -d '1 hour ago' {} +; " + plant);
  const std::string before = state_of(at, "victim");
  (void)at.run(words);
  (void)at.run(words);
  CHECK(state_of(at, "victim") == before);
}

TEST_CASE("a planted symlink in the way of a proposal is told or removed", "[e2e]") {
  const std::string plant =
      GENERATE("mkdir L; ln -s ../victim L/build", "mkdir -p L/build; ln -s ../../victim L/build/a",
               "mkdir -p L/build/a; ln -s ../../../victim L/build/a/owner");
  const Session at;
  at.must("mkdir victim; " + plant);
  CAPTURE(plant);
  const Result result = at.run({"fast_lock", "lock", "L", "a"});
  INFO(result);
  if (result.code == 0) {
    CHECK(at.tree() == Tree{"L/", "L/owner/", "L/owner/a", "victim/"});
  } else {
    check_failed(result, 2, "L/build");
    CHECK(at.run({"fast_lock", "owner", "L"}) == kSilentYes);
  }
}

TEST_CASE("clean removes anything named gone", "[e2e]") {
  const std::string plant =
      GENERATE("touch L/build/.gone.1", "ln -s ../../victim L/build/.gone.1",
               "ln -s nowhere L/build/.gone.1", "mkdir -p L/build/.gone.1/{a,b}");
  const Session at;
  at.must("mkdir -p victim/x L/build; " + plant);
  CAPTURE(plant);
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentYes);
  CHECK(at.tree() == Tree{"victim/", "victim/x/"});
}

TEST_CASE("clean keeps what no locker put into a folder named gone", "[e2e]") {
  const std::string plant =
      GENERATE("ln -s ../../../victim L/build/.gone.1/a", "echo text > L/build/.gone.1/a",
               "mkdir -p L/build/.gone.1/a/b");
  const Session at;
  at.must("mkdir -p victim/x L/build/.gone.1; " + plant);
  const Tree before = at.tree();
  CAPTURE(plant);
  CHECK(at.run({"fast_lock", "clean", "L"}) == kSilentNo);
  CHECK(at.tree() == before);
}

// ---- a disk that says no

TEST_CASE("a leaf that cannot be written is told with 2 and leaves nothing", "[e2e]") {
  const Session at;
  at.must("touch other");
  check_failed(at.shell("trap '' XFSZ; ulimit -f 0; exec fast_lock lock L a"), 2, "File too large");
  CHECK(at.tree() == Tree{"other"});
}

TEST_CASE("a lock without a file descriptor to spare is told with 2 and leaves nothing", "[e2e]") {
  if (kIsSanitized) SKIP_TEST("a sanitizer needs descriptors of its own");
  const int limit = GENERATE(range(4, 12));
  const Session at;
  const Result result = at.shell("ulimit -n " + std::to_string(limit) + "; fast_lock lock L a");
  CAPTURE(limit, result);
  if (limit < 6) CHECK(result.code == 2);
  if (result.code == 0) {
    CHECK(at.tree() == kHeldByA);
  } else {
    check_failed(result, 2, "Too many open files");
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a read-only disk is told and changes nothing", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mount namespaces");
  const Session at;
  at.must("mkdir m; fast_lock lock m/held a");
  const auto on_it = [&](const std::string& command) {
    return with_mounts(at, "mount --bind m m; mount -o remount,bind,ro m; " + command);
  };
  check_failed(on_it("fast_lock lock m/L a"), 2, "Read-only file system");
  check_failed(on_it("fast_lock lock m/held b"), 2, "Read-only file system");
  check_failed(on_it("fast_lock unlock m/held a"), 2, "Read-only file system");
  CHECK(on_it("fast_lock owner m/held") == Result{0, "a\n", ""});
  CHECK(on_it("fast_lock clean m/held") == kSilentNo);
  CHECK(at.tree() == Tree{"m/", "m/held/", "m/held/owner/", "m/held/owner/a"});
}

TEST_CASE("a full disk is told with 2 and nothing is left", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mount namespaces");
  const Session at;
  const Result result = with_mounts(
      at,
      "mkdir m; mount -t tmpfs -o size=16k none m; dd if=/dev/zero of=m/fill bs=4k 2>/dev/null || "
      "true; code=0; fast_lock lock m/p/L a || code=$?; find m/* -printf '%P %s\\n' >&1; exit "
      "$code");
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Matches(" ERROR - [^\n]*No space left on device\n"));
  CHECK_THAT(result.out, StartsWith(" 16384\n") && !Contains("L") && !Contains("build"));
}

TEST_CASE("a lock taken before the disk was full is seen and freed with its space", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mount namespaces");
  const Session at;
  const Result result = with_mounts(
      at,
      "mkdir m; mount -t tmpfs -o size=16k none m; fast_lock lock m/L a;"
      "dd if=/dev/zero of=m/fill bs=4k 2>/dev/null || true; fast_lock owner m/L;"
      "! fast_lock lock m/L b 2>/dev/null; fast_lock is_mine m/L a; fast_lock unlock m/L a;"
      "ls m; echo text > m/new; cat m/new");
  CHECK(result == Result{0, "a\nfill\ntext\n", ""});
}

TEST_CASE("a disk without inodes is told with 2 and nothing is left", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mount namespaces");
  const int free = GENERATE(range(1, 7));
  const Session at;
  const Result result =
      with_mounts(at, "mkdir m; mount -t tmpfs -o nr_inodes=" + std::to_string(free + 1) +
                          " none m; code=0; fast_lock lock m/L a || code=$?; find m -mindepth 1;"
                          "exit $code");
  CAPTURE(free, result);
  if (free < 5) {
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Matches(" ERROR - [^\n]*No space left on device\n"));
    CHECK(result.out.empty());
  } else {
    CHECK(result == Result{0, "m/L\nm/L/owner\nm/L/owner/a\n", ""});
  }
}

TEST_CASE("an ext4 disk at its limit says no and leaves nothing until there is room", "[e2e]") {
  if (!can_loop()) SKIP_TEST("needs root, mkfs.ext4 and loop devices");
  const auto [format, fill, less] = GENERATE(table<std::string, std::string, std::string>({
      {"-b 1024 -m 0", "dd if=/dev/zero of=m/fill bs=1k 2>/dev/null || sync m/fill",
       "truncate -s -1K m/fill"},
      {"-N 32", "n=0; while touch m/f$n 2>/dev/null; do n=$((n+1)); done", "n=$((n-1)); rm m/f$n"},
  }));
  const Session at;
  const Result result = with_mounts(
      at, "truncate -s 1M i; mkfs.ext4 -q -O ^has_journal " + format +
              " i; mkdir m; mount -o loop i m; rmdir m/lost+found; " + fill +
              "; for try in 1 2 3 4 5 6 7 8 9; do code=0; fast_lock lock m/L a || code=$?;"
              "echo $code; ls m | grep -v '^f' || true; [ $code = 2 ] || break; " +
              less + "; done");
  CAPTURE(format, result);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Matches("(2\n){2,8}0\nL\n"));
  CHECK_THAT(result.err, Matches("( ERROR - [^\n]*No space left on device\n){2,8}"));
}

TEST_CASE("a lock spread over two disks is told with 12 and not copied", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mount namespaces");
  const std::string command = GENERATE("fast_lock lock L a", "check_lock true lock L a",
                                       "lock_local lock L $$", "fast_lock --dir-leaf lock L a");
  const Session at;
  at.must("mkdir -p L/build");
  const Result result = with_mounts(
      at, "mount -t tmpfs none L/build; code=0; " + command + " || code=$?; find L; exit $code");
  CAPTURE(command, result);
  CHECK(result.code == 12);
  CHECK(result.out == "L\nL/build\n");
  CHECK_THAT(result.err, Matches(" ERROR - [^\n]*Invalid cross-device link\n"));
}

TEST_CASE("a lock spread over two disks that is held answers 1", "[e2e]") {
  if (!can_mount()) SKIP_TEST("needs root and mount namespaces");
  const Session at;
  at.must("fast_lock lock L a; mkdir L/build");
  const Result result = with_mounts(
      at, "mount -t tmpfs none L/build; code=0; fast_lock lock L b || code=$?; find L; exit $code");
  CHECK(result.code == 1);
  CHECK_THAT(result.out, Contains("L/owner/a\n") && !Contains("b\n"));
}

// ---- streams

TEST_CASE("an answer that cannot be written is told with 14", "[e2e]") {
  const auto [to, reason] = GENERATE(table<std::string, std::string>(
      {{">&-", "Bad file descriptor"}, {">/dev/full", "No space left on device"}}));
  const std::string command =
      GENERATE("fast_lock owner L", "fast_lock ids_in_use L", "check_lock false owner L",
               "lock_local owner_nocheck L", "local_id uid $$", "fast_lock --version");
  const Session at;
  at.must("fast_lock lock L a");
  const std::string before = state_of(at, "L");
  CAPTURE(command, to);
  check_failed(at.shell(command + " " + to), 14, reason);
  CHECK(state_of(at, "L") == before);
}

TEST_CASE("a tool with nothing to say needs no stdout", "[e2e]") {
  const Session at;
  CHECK(at.shell("fast_lock lock L a >&-") == kSilentYes);
  CHECK_THAT(read_file(at.path("L/owner/a")), Matches(kRecordLine));
  CHECK(at.shell("fast_lock is_mine L a >&-") == kSilentYes);
  CHECK(at.shell("fast_lock owner free >&-") == kSilentYes);
  CHECK(at.shell("fast_lock unlock L a >&-") == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("closed streams never become files of the lock", "[e2e]") {
  const std::string closed =
      GENERATE("<&-", ">&-", "2>&-", "<&- >&-", "<&- 2>&-", ">&- 2>&-", "<&- >&- 2>&-");
  const std::string tool_name = GENERATE("fast_lock", "lock_local");
  const Session at;
  CAPTURE(closed, tool_name);
  Process rival(kSleeper);
  Process holder(kSleeper);
  const std::string id = tool_name == "fast_lock" ? "a" : holder.pid_text();
  const std::string other = tool_name == "fast_lock" ? "b" : rival.pid_text();
  const auto debug = [&](const std::string& words) {
    return at.shell(tool_name + " --debug " + words + " " + closed).code;
  };
  CHECK(debug("lock L " + id) == 0);
  const Tree held = at.tree();
  REQUIRE(held.size() == 3);
  CHECK_THAT(read_file(at.path(held[2])), Matches(kRecordLine));
  CHECK(debug("lock L " + other) == 1);
  CHECK(debug("lock L " + id) == 20);
  CHECK(at.tree() == held);
  CHECK_THAT(read_file(at.path(held[2])), Matches(kRecordLine));
  CHECK(debug("unlock L " + id) == 0);
  CHECK(at.tree().empty());
}

TEST_CASE("usage keeps its code when nobody listens", "[e2e]") {
  const std::string words = GENERATE("", "lock", "unknown L a", "-x", "lock L a/b");
  const std::string to = GENERATE("2>&-", "2>/dev/full");
  const Session at;
  CAPTURE(words, to);
  CHECK(at.shell("fast_lock " + words + " " + to).code == 10);
  CHECK(at.tree().empty());
}

TEST_CASE("errors keep their codes when nobody listens", "[e2e]") {
  const auto [words, code] = GENERATE(table<std::string, int>({{"fast_lock lock L a", 20},
                                                               {"fast_lock --info lock L b", 1},
                                                               {"fast_lock unlock L b", 1},
                                                               {"fast_lock lock L/owner/a b", 2},
                                                               {"lock_local lock L none", 20},
                                                               {"fast_lock owner L >&-", 14}}));
  const std::string to = GENERATE("2>&-", "2>/dev/full");
  const Session at;
  at.must("fast_lock lock L a");
  CAPTURE(words, to);
  CHECK(at.shell(words + " " + to).code == code);
  CHECK(at.tree() == kHeldByA);
  CHECK_THAT(read_file(at.path("L/owner/a")), Matches(kRecordLine));
}

TEST_CASE("a tool reads nothing from stdin", "[e2e]") {
  const Session at;
  CHECK(at.shell("printf 'one\\ntwo\\n' | { fast_lock lock L a; lock_local clean L; cat; }").out ==
        "one\ntwo\n");
}
