/// Processes on the other host that look like the holder, or cannot be seen by who is asked there.
#include <algorithm>
#include <csignal>

#include "system/cluster/lock_scene.h"

using namespace holdfast::testing;

namespace {

const std::string kHost1 = "host1.bed.test";

/// A new process with a number of one's choice.
const std::string kTakePid = R"sh(
    for attempt in $(seq 500); do
        echo $((PID - 1)) > /proc/sys/kernel/ns_last_pid
        sleep 1000 &
        [ $! != "$PID" ] || break
        kill $!
    done
    echo $! > taken
    wait
    )sh";

/// A container: it has the host's name and boot id, and processes of its own.
const std::string kContained = R"sh(
    mount --bind "$BOOT_ID" /proc/sys/kernel/random/boot_id
    sleep 1000 &
    lock_ssh lock lock $!
    echo $? > locked
    wait
    )sh";

}  // namespace

TEST_CASE("a process that got the number of a dead holder is not the holder", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  const bool has_record = GENERATE(true, false);
  CAPTURE(engine, has_record);
  const LockScene scene(engine);
  auto holder = scene.hold("host1");
  if (!has_record) scene.forget_record();
  const std::string pid = holder->pid();
  holder->kill();
  const auto other = scene.bed.start("host1", {"/bin/bash", "-c", "PID=" + pid + kTakePid});
  REQUIRE(eventually([&] { return read_file(scene.bed.shared("taken")) == pid + "\n"; }));
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 0);
  CHECK(scene.lock_ssh("host2", {"kill_owner", "lock", "KILL"}).code == 1);
  CHECK(scene.bed.run("host1", {"test", "-d", "/proc/" + pid}).code == 0);
  const auto rival = scene.bed.sleeper("host2");
  CHECK(scene.gets("host2", *rival));
}

TEST_CASE("a holder in a container of the other host is never taken for dead", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const std::string boot_id = scene.bed.own(kHost1, "boot_id");
  const auto container =
      scene.bed.start("host1", {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                                "/bin/bash", "-c", "BOOT_ID=" + boot_id + kContained});
  REQUIRE(eventually([&] { return read_file(scene.bed.shared("locked")) == "0\n"; }));
  const std::string uid = scene.owners().at(0);
  const auto rival = scene.bed.sleeper("host2");
  scene.refused("host2", *rival, 2);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 13);
  for (const char* word : {"--info", "--debug", "-di", "--ssh-insecure"}) {
    INFO("ssh_id " << word);
    CHECK(scene.lock_ssh("host2", {"--idhelper", word, "is_stale", "lock"}).code == 13);
    CHECK(scene.lock_ssh("host2", {"--idhelper", word, "lock_check", "lock", rival->pid()}).code ==
          1);
    CHECK(scene
              .run("host2", {"grace_lock", "ssh_id", "-s", word, "-s", "is_stale", "lock_check",
                             "lock", "rival"})
              .code == 1);
    CHECK(scene.owners() == Words{uid});
  }
  for (const std::string& note : scene.notes())
    CHECK(note == LockScene::note("host2.bed.test", uid, "Unknown"));
  CHECK(scene.lock_ssh("host2", {"kill_owner", "lock", "KILL"}).code >= 10);
}

TEST_CASE("many ids are judged together over one connection to each host", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const auto uid = [&](const std::string& host, const Guest& guest) {
    const std::string out = scene.bed.run(host, {"ssh_id", "uid", guest.pid()}).out;
    return out.substr(0, out.find('\n'));
  };
  const auto logins = [&](const std::string& host) {
    const Words lines = lines_of(read_file(scene.bed.own(host, "sshd.log")));
    return std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
      return line.starts_with("Accepted publickey");
    });
  };
  const auto one = scene.bed.sleeper("host1");
  const auto other = scene.bed.sleeper("host1");
  const auto third = scene.bed.sleeper("host3");
  const Words uids = {uid("host1", *one), uid("host3", *third), uid("host1", *other)};
  other->kill();
  const auto before1 = logins("host1.bed.test");
  const auto before3 = logins("host3.bed.test");
  RunOptions options;
  for (const std::string& line : uids) options.input += line + "\n";
  if (engine == "ssh") options.env["HOLDFAST_SSH"] = "command";
  const Result told = scene.bed.run("host2", {"ssh_id", "are_stale"}, options);
  INFO(told.out << told.err);
  CHECK(told.out == uids[0] + " alive running\n" + uids[1] + " alive running\n" + uids[2] +
                        " dead no such process\n");
  CHECK(logins("host1.bed.test") == before1 + 1);
  CHECK(logins("host3.bed.test") == before3 + 1);

  CHECK(scene.ssh_id("host2", {"kill", uids[0]}).code == 0);
  CHECK(one->wait() == 128 + SIGTERM);
  CHECK(scene.ssh_id("host2", {"kill", uids[0]}).code == 1);
}

TEST_CASE("a host whose logins see other processes is not compatible with itself",
          "[cluster][H11]") {
  NEEDS_BED();
  const Bed bed(1);
  const Words ask = {"ssh_id", "is_host_compatible", "host1.bed.test"};
  CHECK(bed.run("host1", ask).code == 0);
  const Result inside =
      bed.run("host1", Words{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"} + ask);
  INFO(inside);
  CHECK(inside.code == 11);
}

TEST_CASE("a holder that hides from the user who asks is not dead", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const auto holder = scene.hold("host1");
  const std::string uid = scene.owners().at(0);
  const std::string config = scene.bed.own("host2.bed.test", "home/.ssh/config");
  write_file(config, "User user\n");
  boost::filesystem::permissions(config, boost::filesystem::owner_read);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 1);
  REQUIRE(scene.bed.run("host1", {"mount", "-o", "remount,hidepid=2", "/proc"}).code == 0);
  REQUIRE(scene.bed.script("host1", "ssh user@host1.bed.test ls -d /proc/" + holder->pid()).code ==
          2);

  const auto rival = scene.bed.sleeper("host2");
  scene.refused("host2", *rival, 2);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code != 0);
  CHECK(scene.ssh_id("host2", {"is_stale", uid}).code != 0);
  CHECK(scene.ssh_id("host2", {"ssh_uid", "host1.bed.test", holder->pid()}).code == 13);
  scene.forget_record();
  scene.refused("host2", *rival, 1);
}
