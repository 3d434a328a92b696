/// Two who share a lock and see different processes: other pid, time, host name and user.
#include <unistd.h>

#include "scene.h"

using namespace holdfast::testing;

namespace {

std::string own_pid() {
  return std::to_string(getpid());
}

const Words kNobody = {"setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};

Words time_namespace(int offset) {
  return {"unshare", "--time", "--boottime", std::to_string(offset), "--fork", "--kill-child"};
}

bool has_time_namespaces() {
  return run(time_namespace(1) + Words{"true"}).code == 0;
}

/// Takes the lock for a child of the script and lives on; says its code and the id.
const std::string kHold = R"sh(
    sleep 1000 & holder=$!
    lock_local lock "$LOCK" "$holder"; code=$?
    say id "$(lock_local owner "$LOCK")"
    say holder "$holder"
    say code "$code"
    wait
    )sh";

}  // namespace

TEST_CASE("a rival in an inner pid namespace never frees a lock held outside", "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const bool is_alive = GENERATE(true, false);
  CAPTURE(is_alive);
  const Scene scene;
  Process holder(kSleeper);
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  const Words owners = scene.owners();
  if (!is_alive) holder.kill_and_wait();

  const Result refused = scene.script("lock_local lock \"$LOCK\" $$", kNewPidNamespace);
  CHECK(refused.code == 1);
  CHECK(refused.err.find("WARNING") != std::string::npos);
  CHECK(scene.script("lock_local is_stale \"$LOCK\"", kNewPidNamespace).code == 13);
  CHECK(scene.script("lock_local owner \"$LOCK\"", kNewPidNamespace).out == owners[0] + "\n");
  CHECK(scene.script("lock_local --older-than 0 clean \"$LOCK\"", kNewPidNamespace).code == 1);
  CHECK(scene.script("lock_local unlock \"$LOCK\" $$", kNewPidNamespace).code == 0);
  CHECK(scene.script("lock_local kill_owner \"$LOCK\" KILL", kNewPidNamespace).code == 13);
  CHECK(scene.owners() == owners);
  CHECK(scene.lock_as(own_pid()) == (is_alive ? 1 : 0));
}

TEST_CASE("a lock passes between pid namespaces by unlock", "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  REQUIRE(scene.lock_as(own_pid()) == 0);
  REQUIRE(scene.lock_local({"--strict", "unlock", scene.lock(), own_pid()}).code == 0);
  const Result inside = scene.script(
      R"sh(lock_local lock "$LOCK" $$ && lock_local is_mine "$LOCK" $$ &&
         lock_local --strict unlock "$LOCK" $$)sh",
      kNewPidNamespace);
  CHECK(inside.code == 0);
  CHECK(scene.lock_as(own_pid()) == 0);
}

TEST_CASE("a rival outside sees a holder in an inner pid namespace while it lives",
          "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  const auto inner = scene.start(kHold, kNewPidNamespace);
  REQUIRE(scene.said("code") == "0");
  const std::string id = scene.said("id");

  CHECK(scene.lock_as(own_pid()) == 1);
  CHECK(scene.lock_local({"is_stale", scene.lock()}).code == 1);
  CHECK(scene.lock_local({"owner", scene.lock()}).out == id + "\n");
  CHECK(scene.lock_local({"--older-than", "0", "clean", scene.lock()}).code == 1);
  CHECK(scene.owners() == Words{id});
}

TEST_CASE("root outside of all containers recovers the lock of a killed container",
          "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  const auto inner = scene.start(kHold, kNewPidNamespace);
  REQUIRE(scene.said("code") == "0");
  const std::string id = scene.said("id");
  inner->kill_and_wait();
  REQUIRE(eventually([&] { return scene.lock_local({"is_stale", scene.lock()}).code != 1; }));
  CHECK(scene.lock_local({"is_stale", scene.lock()}).code == 0);
  CHECK(scene.lock_as(own_pid()) == 0);
  CHECK(scene.owners() == Words{shell_uid(own_pid())});
}

TEST_CASE("whoever cannot see every process says how to free the lock of a killed container",
          "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  if (!has_program("setpriv")) SKIP_TEST("needs setpriv");
  const Scene scene;
  const auto inner = scene.start("umask 0\n" + kHold, kNewPidNamespace);
  REQUIRE(scene.said("code") == "0");
  const std::string id = scene.said("id");
  inner->kill_and_wait();
  REQUIRE(eventually([&] { return scene.lock_local({"is_stale", scene.lock()}).code == 0; }));
  const Words rival =
      GENERATE(Words{}, kNobody, kNewPidNamespace,
               Words{"setpriv", "--bounding-set", "-sys_ptrace", "--inh-caps", "-sys_ptrace"});
  const std::string hide = rival.empty() ? "mount -t proc -o hidepid=2 proc /proc\n" : "";
  CAPTURE(rival);
  const Words within = rival.empty() ? kNewMountNamespace : rival;
  CHECK(scene.script(hide + "lock_local is_stale \"$LOCK\"", within).code == 13);
  const Result refused = scene.script(hide + "lock_local lock \"$LOCK\" $$", within);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Catch::Contains("fast_lock clean_stale_ids " + scene.lock() + " " + id));
  CHECK(scene.owners() == Words{id});
  CHECK(run({"fast_lock", "clean_stale_ids", scene.lock(), id}).code == 0);
  CHECK(scene.lock_as(own_pid()) == 0);
}

TEST_CASE("a container of a machine that was resumed from the same image is not called dead",
          "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  const auto inner = scene.start(kHold, kNewPidNamespace);
  REQUIRE(scene.said("code") == "0");
  const std::string id = scene.said("id");
  inner->kill_and_wait();
  REQUIRE(eventually([&] { return scene.lock_local({"is_stale", scene.lock()}).code == 0; }));
  // its clock was set when it was resumed, so its boot time is another one
  const std::size_t colon = id.rfind(':') + 1;
  const std::string other = id.substr(0, colon) + std::to_string(std::stol(id.substr(colon)) + 5);
  boost::filesystem::rename(scene.lock() + "/owner/" + id, scene.lock() + "/owner/" + other);
  CHECK(scene.lock_local({"is_stale", scene.lock()}).code == 13);
  CHECK(scene.lock_as(own_pid()) == 1);
}

TEST_CASE("the next one in its own pid namespace recovers a dead holder", "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  const Result result = scene.script(R"sh(
      sleep 1000 & holder=$!
      lock_local lock "$LOCK" "$holder" || exit 91
      lock_local lock "$LOCK" $$; [ $? = 1 ] || exit 92
      kill -KILL "$holder"; wait "$holder"
      lock_local lock "$LOCK" $$
      )sh",
                                     kNewPidNamespace);
  CHECK(result.code == 0);
}

TEST_CASE("a pid is not mistaken for the same number in another pid namespace", "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  const Process bystander({helper("named_process"), "bystander"});
  REQUIRE(eventually([&] { return is_named(bystander, "bystander"); }));
  const std::string pid = bystander.pid_text();
  // Later than the bystander by a tick at least: else they would even have the same id.
  const auto inner = scene.start("bystander=" + pid + " start=" + true_start(pid) + R"sh(
      until read -ra stat < <(cat /proc/self/stat) && [ "${stat[21]}" -gt "$start" ]; do :; done
      echo $((bystander - 1)) > /proc/sys/kernel/ns_last_pid
      )sh" + kHold,
                                 kNewPidNamespace);
  REQUIRE(scene.said("code") == "0");
  REQUIRE(scene.said("holder") == pid);
  const Words owners = scene.owners();

  SECTION("by a lock") {
    const Result refused = scene.lock_local({"--info", "lock", scene.lock(), pid});
    CHECK(refused.code == 1);
    CHECK(refused.err.find("named_process") == std::string::npos);
  }
  SECTION("by a look") {
    CHECK(scene.lock_local({"is_mine", scene.lock(), pid}).code == 1);
  }
  SECTION("by an unlock") {
    CHECK(scene.lock_local({"--strict", "unlock", scene.lock(), pid}).code == 1);
  }
  SECTION("by a kill") {
    const int code = scene.lock_local({"kill_owner", scene.lock(), "KILL"}).code;
    CHECK((code == 0 || code == 13));
  }
  CHECK(scene.owners() == owners);
  CHECK(state_of(pid) == 'S');
}

TEST_CASE("without a procfs of its pid namespace nobody is called stale", "[identity][H11]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  Process holder(kSleeper);
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  SECTION("a live holder") {}
  SECTION("a live holder without a record") {
    scene.forget_records();
  }
  SECTION("a dead holder") {
    holder.kill_and_wait();
  }
  SECTION("a dead holder without a record") {
    scene.forget_records();
    holder.kill_and_wait();
  }
  const Words owners = scene.owners();
  const auto inside = [&](const std::string& script) {
    return scene.script(script, kPidNamespaceWithoutProcfs);
  };
  CHECK(inside("lock_local is_stale \"$LOCK\"").code == 13);
  CHECK(inside("local_id is_stale " + owners.at(0)).code == 13);
  CHECK(inside("lock_local owner \"$LOCK\"").out == owners[0] + "\n");
  CHECK(inside("lock_local --older-than 0 clean \"$LOCK\"").code == 1);
  const Result refused = inside("lock_local lock \"$LOCK\" $$");
  CHECK(refused.code == 20);
  CHECK(refused.err.find("obtaining UID for ID(1)") != std::string::npos);
  CHECK(refused.err.find("another pid namespace") != std::string::npos);
  CHECK(inside("local_id uid $$").code == 1);
  CHECK(scene.owners() == owners);
}

TEST_CASE("a procfs is not believed because a pid happens to be the same in two namespaces",
          "[identity]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const Scene scene;
  // The holder and the rival share a pid namespace; the rival looks at the procfs of an outer one,
  // in which it has, by chance, the number that it has inside.
  const Result result = scene.script(R"sh(
      sleep 1000 & holder=$!
      unshare --mount --propagation private bash -c '
        mount -t proc proc /proc && lock_local lock "$LOCK" "$1"' - "$holder" || exit 91
      for _ in $(seq 500); do
        echo "$(readlink /proc/self)" > /proc/sys/kernel/ns_last_pid
        ( read -r outer _ < /proc/self/stat
          [ "$outer" = "$BASHPID" ] && exec lock_local is_stale "$LOCK"
          exit 99 )
        code=$?
        [ $code = 99 ] || exit $code
      done
      exit 99
      )sh",
                                     kPidNamespaceWithoutProcfs);
  if (result.code == 99) SKIP_TEST("the pids never met");
  INFO(result.err);
  CHECK(result.code == 13);
}

TEST_CASE("a rival in another time namespace never frees a lock", "[identity]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  if (!has_time_namespaces()) SKIP_TEST("needs time namespaces");
  const int offset = GENERATE(1, 100000);
  const bool has_record = GENERATE(true, false);
  CAPTURE(offset, has_record);
  const Scene scene;
  const Process holder(kSleeper);
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  if (!has_record) scene.forget_records();
  const Words owners = scene.owners();

  const Result moved = scene.script("local_id uid " + holder.pid_text(), time_namespace(offset));
  REQUIRE(moved.out != owners.at(0) + "\n");
  CHECK(scene.script("lock_local lock \"$LOCK\" $$", time_namespace(offset)).code == 1);
  CHECK(scene.script("lock_local is_stale \"$LOCK\"", time_namespace(offset)).code == 13);
  CHECK(scene.owners() == owners);
}

TEST_CASE("a holder in another time namespace keeps its lock", "[identity]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  if (!has_time_namespaces()) SKIP_TEST("needs time namespaces");
  const int offset = GENERATE(1, 100000);
  const bool has_record = GENERATE(true, false);
  CAPTURE(offset, has_record);
  const Scene scene;
  const auto inner = scene.start("lock_local lock \"$LOCK\" $$; say code $?; exec sleep 1000",
                                 time_namespace(offset));
  REQUIRE(scene.said("code") == "0");
  if (!has_record) scene.forget_records();
  const Words owners = scene.owners();

  CHECK(scene.lock_as(own_pid()) == 1);
  CHECK(scene.lock_local({"is_stale", scene.lock()}).code == 13);
  CHECK(scene.lock_local({"--older-than", "0", "clean", scene.lock()}).code == 1);
  CHECK(scene.owners() == owners);
}

TEST_CASE("a holder that hides from other users keeps its lock", "[identity][H10]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  if (!has_program("setpriv")) SKIP_TEST("needs setpriv");
  const std::string hide = GENERATE("hidepid=1", "hidepid=2", "hidepid=4");
  const bool has_record = GENERATE(true, false);
  CAPTURE(hide, has_record);
  const Scene scene;
  std::string nobody;
  for (const std::string& word : kNobody) nobody += word + " ";
  const Result result = scene.script(
      "mount -t proc -o " + hide + " proc /proc || exit 90\nnobody='" + nobody + "'\n" +
          (has_record ? "" : "forget=yes\n") + R"sh(
      umask 0
      sleep 1000 & holder=$!
      lock_local lock "$LOCK" "$holder" || exit 91
      id=$(lock_local owner "$LOCK")
      [ -z "$forget" ] || : > "$LOCK/owner/$id"
      $nobody cat "/proc/$holder/stat" 2> /dev/null; echo $?   # it does hide, but from hidepid=1
      $nobody bash -c 'lock_local lock "$LOCK" $$'; echo $?
      $nobody lock_local is_stale "$LOCK"; echo $?
      $nobody lock_local owner "$LOCK" > /dev/null; echo $?
      $nobody lock_local --older-than 0 clean "$LOCK"; echo $?
      lock_local is_mine "$LOCK" "$holder"; echo $?
      kill -KILL "$holder"; wait "$holder"
      $nobody bash -c 'lock_local lock "$LOCK" $$'; echo $?
      )sh",
      {"unshare", "--pid", "--mount", "--propagation", "private", "--fork", "--kill-child"});
  INFO(result.err);
  CHECK(result.code == 0);
  CHECK(result.out == "1\n1\n1\n0\n1\n0\n0\n");
}

TEST_CASE("a restart is told from another host by a telling host name", "[identity]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const auto [host, code] = GENERATE(table<std::string, int>({
      {"build7", 0},
      {"localhosts", 0},
      {"localhost", 1},
      {"localhost.localdomain", 1},
      {"(none)", 1},
  }));
  CAPTURE(host);
  const Scene scene;
  const std::string uts = "echo '" + host + "' > /proc/sys/kernel/hostname || exit 90; ";
  const Words within = {"unshare", "--uts", "--mount", "--propagation", "private"};
  const std::string take = "lock_local lock \"$LOCK\" $$";
  REQUIRE(scene
              .script(uts + "echo earlier-boot > $DIR/boot; " +
                          "mount --bind $DIR/boot /proc/sys/kernel/random/boot_id; " + take,
                      within)
              .code == 0);
  CHECK(scene.script("echo build8 > /proc/sys/kernel/hostname; " + take, within).code == 1);
  CHECK(scene.script(uts + take, within).code == code);
}
