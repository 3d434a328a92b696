/// The tools and processes of this namespace in odd states: renamed, stopped, zombies, recycled
/// pids; and ids that no tool wrote.
#include <unistd.h>

#include <csignal>

#include "scene.h"

using namespace holdfast::testing;

namespace {

std::string own_pid() {
  return std::to_string(getpid());
}

/// For both kinds of leaf: with a record, as ours are, and without, as the shell's.
void hold(const Scene& scene, const Process& holder, bool has_record) {
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  if (!has_record) scene.forget_records();
  REQUIRE(scene.owners() == Words{shell_uid(holder.pid_text())});
}

void check_still_held(const Scene& scene, const std::string& id) {
  CHECK(scene.lock_as(own_pid()) == 1);
  CHECK(scene.lock_local({"owner", scene.lock()}).out == id + "\n");
  CHECK(scene.lock_local({"--older-than", "0", "clean", scene.lock()}).code == 1);
  CHECK(scene.owners() == Words{id});
}

}  // namespace

TEST_CASE("a holder that takes a name with blanks keeps its lock and can unlock",
          "[identity][H4]") {
  const bool has_record = GENERATE(true, false);
  const std::string name = GENERATE("x y z", "a b", ") S 1 (x", "tab\tin");
  CAPTURE(has_record, name);
  const Scene scene;
  const Process holder({helper("named_process"), "plain", name});
  REQUIRE(eventually([&] { return is_named(holder, "plain"); }));
  hold(scene, holder, has_record);
  const std::string id = shell_uid(holder.pid_text());

  holder.signal(SIGUSR1);
  REQUIRE(eventually([&] { return is_named(holder, name); }));
  REQUIRE(shell_uid(holder.pid_text()) != id);
  check_still_held(scene, id);
  CHECK(scene.lock_local({"is_stale", scene.lock()}).code == 1);
  CHECK(scene.lock_local({"is_mine", scene.lock(), holder.pid_text()}).code == 0);
  CHECK(scene.lock_local({"--strict", "unlock", scene.lock(), holder.pid_text()}).code == 0);
  CHECK(tree(scene.lock()).empty());
}

TEST_CASE("a holder whose name has blanks keeps its lock under any later name", "[identity][H4]") {
  // Without a record and under a plain name nothing tells it from a later process any more.
  const auto [has_record, next] = GENERATE(table<bool, std::string>({
      {true, "a b"},
      {true, "plain"},
      {true, "three words now"},
      {false, "a b"},
      {false, "three words now"},
  }));
  const std::string later = next;  // clang 14 lets no lambda use a binding
  CAPTURE(has_record, later);
  const Scene scene;
  const Process holder({helper("named_process"), "a b", later});
  REQUIRE(eventually([&] { return is_named(holder, "a b"); }));
  const std::string id = shell_uid(holder.pid_text());
  const Result locked = scene.lock_local({"lock", scene.lock(), holder.pid_text()});
  CHECK(locked.code == 0);
  CHECK(locked.err.find("has blanks in its name") != std::string::npos);
  if (!has_record) scene.forget_records();

  holder.signal(SIGUSR1);
  REQUIRE(eventually([&] { return is_named(holder, later); }));
  check_still_held(scene, id);
}

TEST_CASE("a stopped holder keeps its lock", "[identity][H16]") {
  const bool has_record = GENERATE(true, false);
  const Scene scene;
  const Process holder(kSleeper);
  hold(scene, holder, has_record);
  holder.signal(SIGSTOP);
  REQUIRE(eventually([&] { return state_of(holder.pid_text()) == 'T'; }));
  check_still_held(scene, shell_uid(holder.pid_text()));
}

TEST_CASE("a zombie without a living thread is recovered", "[identity][H18]") {
  const bool has_record = GENERATE(true, false);
  const Scene scene;
  const Process holder(kSleeper);
  hold(scene, holder, has_record);
  holder.signal(SIGKILL);
  REQUIRE(eventually([&] { return state_of(holder.pid_text()) == 'Z'; }));
  CHECK(scene.lock_local({"is_stale", scene.lock()}).code == 0);
  CHECK(scene.lock_as(own_pid()) == 0);
  CHECK(scene.owners() == Words{shell_uid(own_pid())});
}

TEST_CASE("a zombie with a living thread is not recovered", "[identity][H18]") {
  const bool has_record = GENERATE(true, false);
  const Scene scene;
  const Process holder({helper("leaderless")});
  REQUIRE(eventually([&] { return state_of(holder.pid_text()) == 'Z'; }));
  hold(scene, holder, has_record);
  check_still_held(scene, shell_uid(holder.pid_text()));
}

TEST_CASE("a recycled pid is not taken for the holder", "[identity][H17]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const bool has_record = GENERATE(true, false);
  CAPTURE(has_record);
  const Scene scene;
  const Result result = scene.script(
      R"sh(
      sleep 1000 & holder=$!
      lock_local lock "$LOCK" "$holder" || exit 91
      id=$(lock_local owner "$LOCK")
      )sh" +
          std::string(has_record ? "" : R"sh(: > "$LOCK/owner/$id" || exit 92)sh") + R"sh(
      kill -KILL "$holder"; wait "$holder"
      for _ in $(seq 200); do   # until the pid is there again, with another start time
        echo $((holder - 1)) > /proc/sys/kernel/ns_last_pid
        sleep 1000 & heir=$!
        [ "$heir" = "$holder" ] && [ "$(local_id uid "$heir")" != "$id" ] && break
        kill -KILL "$heir"; wait "$heir"
      done 2> /dev/null
      [ "$heir" = "$holder" ] || exit 93
      local_id kill "$id" KILL; [ $? = 1 ] || exit 94
      lock_local kill_owner "$LOCK" KILL; [ $? = 1 ] || exit 95
      kill -0 "$heir" || exit 96
      lock_local is_mine "$LOCK" "$heir"; [ $? = 1 ] || exit 97
      lock_local --strict unlock "$LOCK" "$heir" 2> /dev/null; [ $? = 1 ] || exit 98
      lock_local lock "$LOCK" $$ || exit 99
      lock_local owner_pid "$LOCK"
      echo "I am $$"
      )sh",
      kNewPidNamespace);
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(result.out == "1\nI am 1\n");
}

TEST_CASE("an id with a host in front keeps its lock and draws a warning", "[identity]") {
  const Scene scene;
  const Process holder(kSleeper);
  const std::string host = GENERATE(as<std::string>(), "build7.example.org", "localhost", "");
  const std::string mine = run({"uname", "-n"}).out;
  const std::string id =
      (host.empty() ? mine.substr(0, mine.find('\n')) : host) + ":" + shell_uid(holder.pid_text());
  scene.hold_without_record(id);

  const Result refused = scene.lock_local({"lock", scene.lock(), own_pid()});
  CHECK(refused.code == 1);
  CHECK(refused.err.find("WARNING") != std::string::npos);
  CHECK(refused.err.find(id) != std::string::npos);
  check_still_held(scene, id);
}

TEST_CASE("no word of an owner's name is ever run", "[identity][H14]") {
  const std::string nasty = GENERATE(as<std::string>(), "$(touch x)", "`touch x`", "';touch x;'",
                                     "\";touch x;\"", "1;touch x", "1|touch x", "1&&touch x",
                                     "1&touch x&", "-x", "--help", "$((1))", "\ntouch x\n", "*");
  const int field = GENERATE(range(0, 7));
  const std::vector<std::string> shapes = {
      nasty + ":1:2",           "1:" + nasty + ":2",      "1:2:" + nasty,      nasty + ":1:2:3",
      "host:" + nasty + ":2:3", "host:1:" + nasty + ":3", "host:1:2:" + nasty,
  };
  const std::string id = shapes[static_cast<std::size_t>(field)];
  CAPTURE(id);
  const Scene scene;
  const auto before = tree(scene.dir());
  RunOptions there;
  there.cwd = scene.dir();
  const auto answers = [&](const Words& words, const Words& codes) {
    scene.hold_without_record(id);
    CAPTURE(words);
    const Result result = run(Words{"lock_local"} + words, there);
    CHECK_THAT(codes, Catch::VectorContains(std::to_string(result.code)));
    run({"/bin/rm", "-rf", scene.lock()});
    CHECK(tree(scene.dir()) == before);
  };
  answers({"lock", "lock", own_pid()}, {"0", "1"});
  answers({"owner", "lock"}, {"0"});
  answers({"owner_pid", "lock"}, {"1"});
  answers({"is_stale", "lock"}, {"0", "13"});
  answers({"kill_owner", "lock", "0"}, {"1", "13"});
  answers({"--older-than", "0", "clean", "lock"}, {"0", "1"});
  answers({"--strict", "unlock", "lock", own_pid()}, {"1"});
}
