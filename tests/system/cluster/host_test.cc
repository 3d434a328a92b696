/// Hosts that are not who they should be, or do not say what they should: nobody is dead for that.
#include "system/cluster/lock_scene.h"

using namespace holdfast::testing;

namespace {

const std::string kHost1 = "host1.bed.test";
const std::string kHost2 = "host2.bed.test";

/// A scene in which the holder on host1 is dead, and host2 might find out.
struct DeadHolder {
  explicit DeadHolder(const std::string& engine) : scene(engine) {
    scene.hold("host1")->kill();
    uid = scene.owners().at(0);
  }
  Result is_stale(const Words& options = {}) const {
    return scene.run("host2", Words{"ssh_id"} + options + Words{"is_stale", uid});
  }
  std::string system_file() const { return scene.bed.own(kHost2, "etc/ssh/ssh_known_hosts"); }
  std::string user_file() const { return scene.bed.own(kHost2, "home/.ssh/known_hosts"); }
  /// Of our own, wherever it is: all that the home of host2 has besides .ssh.
  Words remembered() const {
    Words files;
    for (const std::string& name : tree(scene.bed.own(kHost2, "home")))
      if (!name.starts_with(".ssh/") && !name.starts_with("user/") && !name.ends_with('/'))
        files.push_back(scene.bed.own(kHost2, "home/" + name));
    return files;
  }

  LockScene scene;
  std::string uid;
};

}  // namespace

TEST_CASE("a host of the same first name does not answer for another", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene({"host1.one.test", "host1.two.test", "host2.one.test"}, engine);
  const auto holder = scene.hold("host1.one.test");
  const auto rival = scene.bed.sleeper("host2");
  const std::string uid = scene.owners().at(0);
  CHECK(scene.ssh_id("host2", {"is_stale", uid}).code == 1);
  CHECK(scene.ssh_id("host2", {"is_host_compatible", "host1.one.test"}).code == 0);

  // a name server leads host2 astray, to a host whose key it does not know
  write_file(scene.bed.own("host2.one.test", "etc/hosts"),
             "127.0.0.1 localhost\n10.77.0.3 host2.one.test host2\n10.77.0.2 host1.one.test\n");
  write_file(scene.bed.own("host2.one.test", "etc/ssh/ssh_known_hosts"), "");
  boost::filesystem::remove_all(scene.bed.own("host2.one.test", "home/.local"));
  scene.refused("host2", *rival, 1);
  REQUIRE(scene.notes().size() == 1);
  CHECK(scene.notes()[0] == LockScene::note("host2.one.test", uid, "HOSTID Missmatch"));
  CHECK(scene.ssh_id("host2", {"is_stale", uid}).code == 11);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 11);
  CHECK(scene.ssh_id("host2", {"is_host_compatible", "host1.one.test"}).code == 11);
  CHECK(scene.ssh_id("host2", {"ssh_uid", "host1.one.test", "1"}).code == 11);
}

TEST_CASE(
    "an unknown host key is accepted once and remembered and the user's files stay as they are",
    "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const DeadHolder dead(engine);
  write_file(dead.system_file(), "");
  CHECK(dead.remembered().empty());
  CHECK(dead.is_stale().code == 0);
  REQUIRE(dead.remembered().size() == 1);
  const std::string kept = read_file(dead.remembered()[0]);
  CHECK_THAT(kept, Catch::Contains("ed25519"));
  CHECK(read_file(dead.user_file()).empty());
  CHECK(read_file(dead.system_file()).empty());
  CHECK(dead.is_stale({"--ssh-strict"}).code == 0);
  CHECK(read_file(dead.remembered()[0]) == kept);
}

TEST_CASE("a host key that has changed is refused with the name of the file that knows the old one",
          "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  const std::string known_to = GENERATE("system", "user", "us");
  CAPTURE(engine, known_to);
  const DeadHolder dead(engine);
  std::string file = "/etc/ssh/ssh_known_hosts";
  if (known_to == "user") {
    file = dead.user_file();
    boost::filesystem::copy_file(dead.system_file(), file);
  }
  if (known_to != "system") write_file(dead.system_file(), "");
  CHECK(dead.is_stale().code == 0);
  if (known_to == "us") file = dead.remembered().at(0);

  dead.scene.bed.rekey("host1");
  for (const Words& options : {Words{}, Words{"--ssh-strict"}}) {
    const Result refused = dead.is_stale(options);
    INFO(refused);
    CHECK(refused.code == 10);
    CHECK_THAT(refused.err, Catch::Contains(file));
  }
  const auto rival = dead.scene.bed.sleeper("host2");
  dead.scene.refused("host2", *rival, 1);
  CHECK(dead.scene.notes() == Words{LockScene::note(kHost2, dead.uid, "SSHDEST Incompatible")});
  CHECK(dead.is_stale({"--ssh-insecure"}).code == 0);
}

TEST_CASE("a strict user asks no host whose key is unknown", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const DeadHolder dead(engine);
  CHECK(dead.is_stale({"--ssh-strict"}).code == 0);
  write_file(dead.system_file(), "");
  boost::filesystem::remove_all(dead.scene.bed.own(kHost2, "home/.local"));
  const Result refused = dead.is_stale({"--ssh-strict"});
  INFO(refused);
  CHECK(refused.code == 10);
  CHECK_THAT(refused.err, Catch::Contains(kHost1));
  CHECK(dead.remembered().empty());
  // also where ssh_id has further words
  CHECK(dead.scene.lock_ssh("host2", {"--ssh-strict", "--idhelper", "--info", "is_stale", "lock"})
            .code == 10);
  CHECK(dead.remembered().empty());
  const auto rival = dead.scene.bed.sleeper("host2");
  CHECK(dead.scene.lock_ssh("host2", {"--ssh-strict", "lock_check", "lock", rival->pid()}).code ==
        1);
  CHECK(dead.scene.owners() == Words{dead.uid});
}

TEST_CASE("a host whose key cannot be kept is not believed", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const DeadHolder dead(engine);
  write_file(dead.system_file(), "");
  const std::string state = dead.scene.bed.own(kHost2, "home/.local/state/holdfast");
  boost::filesystem::create_directories(state);
  const Result full =
      dead.scene.bed.script("host2", "mount -t tmpfs -o size=4k none " + state + " && touch " +
                                         state + "/known_hosts && dd if=/dev/zero of=" + state +
                                         "/all bs=1k; test -s " + state + "/all");
  INFO(full);
  REQUIRE(full.code == 0);
  const Result refused = dead.is_stale();
  INFO(refused);
  CHECK(refused.code >= 10);
}

TEST_CASE("an answer that is cut short tells nothing", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const DeadHolder dead(engine);
  const std::string length = dead.scene.bed.shared("length");
  dead.scene.bed.sshd("host1",
                      {"ForceCommand sh -c \"$SSH_ORIGINAL_COMMAND\" | tee " +
                       dead.scene.bed.shared("answer") + " | head -c $(cat " + length + ")"});
  write_file(length, "100000");
  REQUIRE(dead.is_stale().code == 0);
  const std::string answer = read_file(dead.scene.bed.shared("answer"));
  const std::size_t name = answer.find(kHost1);
  REQUIRE(name != std::string::npos);

  for (std::size_t at : {std::size_t{0}, std::size_t{5}, name + 3, name + kHost1.size() + 3,
                         answer.size() / 2, answer.size() - 1}) {
    CAPTURE(answer, answer.substr(0, at));
    write_file(length, std::to_string(at));
    CHECK(dead.is_stale().code == 13);
  }
  const auto rival = dead.scene.bed.sleeper("host2");
  dead.scene.refused("host2", *rival, 1);
  CHECK(dead.scene.notes() == Words{LockScene::note(kHost2, dead.uid, "Unknown")});
}

TEST_CASE("a host that lets us in and then says nothing is given up", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  DeadHolder dead(engine);
  dead.scene.bed.sshd("host1", {"ForceCommand sleep 1000"});
  dead.scene.be_impatient();
  const Result given_up = dead.is_stale();
  INFO(given_up);
  CHECK(given_up.code == 10);
  dead.scene.bed.sshd("host1", {});
  dead.scene.be_impatient(false);
  CHECK(dead.is_stale().code == 0);
}

TEST_CASE("a login that is refused tells nothing", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const DeadHolder dead(engine);
  const std::string keys = dead.scene.bed.own(kHost1, "etc/ssh/authorized_keys");
  const std::string all = read_file(keys);
  write_file(keys, "");
  CHECK(dead.is_stale().code == 10);
  write_file(keys, all);
  CHECK(dead.is_stale().code == 0);
  dead.scene.bed.run("host1", {"pkill", "-x", "sshd"});
  CHECK(dead.is_stale().code == 10);
}
