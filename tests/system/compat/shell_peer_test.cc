/// A shell script and our tools on one lock directory, each in its turn.
#include <catch2/catch.hpp>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;

namespace {

using Words = std::vector<std::string>;

std::string shell_peer() {
  return source_dir() + "/tests/system/compat/shell_peer";
}

/// One lock, a holder and a rival, and the two tools by which they come to it.
struct Meeting {
  TempDir dir;
  Process holder{kSleeper};
  Process rival{kSleeper};

  Result ask(const std::string& tool, const std::string& action) const {
    return run({tool, action, dir / "lock"});
  }
  Result ask(const std::string& tool, const std::string& action, const Process& process) const {
    return run({tool, action, dir / "lock", process.pid_text()});
  }
  Words files() const { return tree(dir / "lock"); }
};

}  // namespace

TEST_CASE("a shell and our tools give a process the same id", "[compat]") {
  const Meeting at;
  REQUIRE(at.ask(shell_peer(), "lock", at.holder).code == 0);
  const Result id = run({"local_id", "uid", at.holder.pid_text()});
  CHECK(at.ask(shell_peer(), "owner").out == id.out);
  CHECK(at.ask("lock_local", "is_mine", at.holder).code == 0);
}

TEST_CASE("a shell holder keeps our tools out and is named by them", "[compat]") {
  const Meeting at;
  REQUIRE(at.ask(shell_peer(), "lock", at.holder).code == 0);
  const Words files = at.files();
  const std::string id = at.ask(shell_peer(), "owner").out;

  const std::string action = GENERATE("lock", "lock_nocheck", "fast_lock");
  CHECK(at.ask("lock_local", action, at.rival).code == 1);
  CHECK(at.ask("lock_local", "lock", at.holder).code == 20);
  CHECK(run({"fast_lock", "lock", at.dir / "lock", "somebody"}).code == 1);
  CHECK(at.ask("lock_local", "owner").out == id);
  CHECK(at.ask("lock_local", "owner_nocheck").out == id);
  CHECK(at.ask("lock_local", "owner_pid").out == at.holder.pid_text() + "\n");
  CHECK(at.ask("fast_lock", "owner").out == id);
  CHECK(at.ask("lock_local", "is_stale").code == 1);
  CHECK(at.ask("lock_local", "clean").code == 1);
  CHECK(at.files() == files);
}

TEST_CASE("our holder keeps a shell out and is named by it", "[compat]") {
  const Meeting at;
  REQUIRE(at.ask("lock_local", "lock", at.holder).code == 0);
  const Words files = at.files();
  CHECK(at.ask(shell_peer(), "lock", at.rival).code == 1);
  CHECK(at.ask(shell_peer(), "lock", at.holder).code == 20);
  CHECK(at.ask(shell_peer(), "owner").out == at.ask("lock_local", "owner").out);
  CHECK(at.files() == files);

  CHECK(at.ask("lock_local", "unlock", at.holder).code == 0);
  CHECK(tree(at.dir.path()).empty());
  CHECK(at.ask(shell_peer(), "lock", at.rival).code == 0);
}

TEST_CASE("either side unlocks what the other locked and leaves nothing", "[compat]") {
  const auto [locker, unlocker] = GENERATE(table<std::string, std::string>({
      {shell_peer(), "lock_local"},
      {"lock_local", shell_peer()},
      {"lock_local", "lock_local"},
      {shell_peer(), shell_peer()},
  }));
  CAPTURE(locker, unlocker);
  const Meeting at;
  REQUIRE(at.ask(locker, "lock", at.holder).code == 0);
  CHECK(at.ask(unlocker, "unlock", at.holder).code == 0);
  CHECK(tree(at.dir.path()).empty());
}

TEST_CASE("either side recovers the dead of the other", "[compat]") {
  const auto [locker, heir] = GENERATE(table<std::string, std::string>({
      {shell_peer(), "lock_local"},
      {"lock_local", shell_peer()},
  }));
  CAPTURE(locker, heir);
  Meeting at;
  REQUIRE(at.ask(locker, "lock", at.holder).code == 0);
  REQUIRE(at.ask(heir, "lock", at.rival).code == 1);
  at.holder.kill_and_wait();
  CHECK(at.ask(heir, "lock", at.rival).code == 0);
  CHECK(at.ask(heir, "owner").out == run({"local_id", "uid", at.rival.pid_text()}).out);
  CHECK(at.ask(heir, "unlock", at.rival).code == 0);
  CHECK(tree(at.dir.path()).empty());
}

TEST_CASE("the proposal of a dead shell is cleaned and that of a live one is left", "[compat]") {
  Meeting at;
  const std::string build = at.dir / "lock/build/";
  for (const Process* process : {&at.holder, &at.rival}) {
    const std::string id = run({"local_id", "uid", process->pid_text()}).out;
    const std::string name = id.substr(0, id.find('\n'));
    const std::string folder = build + name + "/owner";
    REQUIRE(run({"/bin/mkdir", "-p", folder}).code == 0);
    write_file(folder + "/" + name, "");
  }
  at.holder.kill_and_wait();
  CHECK(at.ask("lock_local", "clean").code == 1);
  CHECK(tree(at.dir / "lock/build").size() == 3);
  CHECK(run({"fast_lock", "ids_in_use", at.dir / "lock"}).out ==
        run({"local_id", "uid", at.rival.pid_text()}).out);
  CHECK(run({"lock_local", "--older-than", "0", "clean", at.dir / "lock"}).code == 0);
  CHECK(tree(at.dir.path()).empty());
}

TEST_CASE("a shell whose live proposal is cleaned loses the attempt and not the exclusion",
          "[compat]") {
  // `mv` is held up between the proposal and its move, and meanwhile somebody cleans everything.
  const Meeting at;
  const std::string bin = at.dir / "bin";
  REQUIRE(run({"/bin/mkdir", bin}).code == 0);
  write_file(bin + "/mv", "#!/bin/sh\n" + tool("lock_local") + " --older-than 0 clean '" +
                              (at.dir / "lock") + "'\nexec /bin/mv \"$@\"\n");
  REQUIRE(run({"/bin/chmod", "+x", bin + "/mv"}).code == 0);
  RunOptions held_up;
  held_up.env["PATH"] = bin + ":/usr/bin:/bin";
  CHECK(run({shell_peer(), "lock", at.dir / "lock", at.holder.pid_text()}, held_up).code == 1);
  CHECK(at.ask("lock_local", "owner").out.empty());
  CHECK(at.ask("lock_local", "lock", at.rival).code == 0);
}
