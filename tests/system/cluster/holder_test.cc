/// What becomes of a lock when its holder, or the holder's host, is gone or out of reach.
#include <csignal>

#include "system/cluster/lock_scene.h"

using namespace holdfast::testing;

namespace {

const std::string kHost2 = "host2.bed.test";

/// Tries until it has the lock, says so, and keeps it.
const Words kContender = {"/bin/bash", "-c",
                          "until lock_ssh --grace-seconds " + std::to_string(kGrace.count()) +
                              " lock lock $$; do\n"
                              "  [ $? -lt 10 ] || exit 1\n"
                              "  sleep 0.1\n"
                              "done\n"
                              "hostname >> winners\n"
                              "exec sleep 1000"};

}  // namespace

TEST_CASE("the lock of a killed process is recovered by exactly one of the other hosts",
          "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  auto holder = scene.hold("host1");
  const auto second = scene.start("host2", kContender);
  const auto third = scene.start("host3", kContender);
  const auto winners = [&] { return lines_of(read_file(scene.bed.shared("winners"))); };
  // both have asked by now, and were told that it lives
  REQUIRE(
      eventually([&] { return scene.logins("host1.bed.test") >= 2; }, std::chrono::seconds(60)));
  REQUIRE(winners().empty());

  holder->kill();
  REQUIRE(eventually([&] { return !winners().empty(); }, kRecovery));
  const std::string winner = winners().at(0);
  const Guest& owner = winner == "host2" ? *second : *third;
  REQUIRE(scene.owners().size() == 1);
  CHECK_THAT(scene.owners()[0], Catch::StartsWith(winner + ".bed.test:" + owner.pid() + ":"));
  // somebody new: two attempts of one id at once would be in each other's way
  const std::string other = winner == "host2" ? "host3" : "host2";
  const auto onlooker = scene.bed.sleeper(other);
  scene.refused(other, *onlooker);
  CHECK(winners().size() == 1);

  // and so on, from dead to living
  owner.signal(SIGKILL);
  CHECK(eventually([&] { return winners().size() == 2; }, kRecovery));
  CHECK(winners().back() != winner);
}

TEST_CASE("within the grace nobody asks", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  auto holder = scene.hold("host1");
  holder->kill();
  const auto rival = scene.bed.sleeper("host2");
  const Words owners = scene.owners();
  for (int i = 0; i < 3; ++i) {
    CHECK(scene.lock_ssh("host2", {"lock", "lock", rival->pid(), "600"}).code == 1);
  }
  CHECK(scene.logins("host1.bed.test") == 0);
  CHECK(scene.owners() == owners);
  CHECK(scene.gets("host2", *rival));
  CHECK(scene.logins("host1.bed.test") == 1);
}

TEST_CASE("a holder whose host is away is never taken for dead", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  const bool is_cut = GENERATE(true, false);
  CAPTURE(engine, is_cut);
  LockScene scene(engine);
  const auto holder = scene.hold("host1");
  const std::string uid = scene.owners().at(0);
  const auto rival = scene.bed.sleeper("host2");
  is_cut ? scene.bed.cut("host1") : scene.bed.power_off("host1");
  scene.be_impatient();

  scene.refused_until_noted("host2", *rival, 2);
  for (const std::string& note : scene.notes())
    CHECK(note == LockScene::note(kHost2, uid, "SSHDEST Incompatible"));
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 10);
  CHECK(scene.ssh_id("host2", {"is_stale", uid}).code == 10);
  CHECK(scene.notes().back() == LockScene::note_of_id(kHost2, uid, "SSHDEST Incompatible"));

  scene.be_impatient(false);
  if (is_cut) {
    scene.bed.heal("host1");
    CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 1);
    CHECK(scene.lock_ssh("host1", {"unlock", "lock", holder->pid()}).code == 0);
    CHECK(scene.lock_ssh("host2", {"lock", "lock", rival->pid()}).code == 0);
  } else {
    scene.bed.power_on("host1");
    CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 0);
    CHECK(scene.gets("host2", *rival));
  }
}

TEST_CASE("the lock of a host that was restarted is recovered whatever is known of it",
          "[cluster]") {
  NEEDS_BED();
  const auto [recoverer, has_record] =
      GENERATE(table<std::string, bool>({{"host3", true}, {"host2", true}, {"host2", false}}));
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine, has_record, recoverer);
  const LockScene scene(engine);
  const auto holder = scene.hold("host1");
  if (!has_record) scene.forget_record();
  scene.bed.power_off("host1");
  scene.bed.power_on("host1");
  const auto rival = scene.bed.sleeper(recoverer);
  CHECK(scene.gets(recoverer, *rival));
  CHECK(scene.notes().empty());
}

TEST_CASE("a restarted host in a container leaves it to others to tell that it was restarted",
          "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const auto holder = scene.hold("host1");
  scene.bed.power_off("host1");
  scene.bed.power_on("host1");
  const auto itself = scene.bed.sleeper("host1");
  const auto rival = scene.bed.sleeper("host2");
  scene.refused("host1", *itself);
  CHECK(scene.lock_ssh("host1", {"is_stale", "lock"}).code == 13);
  CHECK(scene.gets("host2", *rival));
}

TEST_CASE("a host whose clock was stepped was not restarted", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const auto holder = scene.hold("host1");

  REQUIRE(scene.bed
              .script("host1",
                      "awk '$1 == \"btime\" {$2 += 3600} {print}' /proc/stat > ~/stat && mount "
                      "--bind ~/stat /proc/stat")
              .code == 0);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 1);
  REQUIRE(scene.bed.script("host1", "umount /proc/stat").code == 0);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 1);
}

TEST_CASE("a stopped holder is alive", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const auto holder = scene.hold("host1");
  const auto rival = scene.bed.sleeper("host2");
  holder->signal(SIGSTOP);
  scene.refused("host2", *rival);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 1);
  CHECK(scene.notes().empty());
}

TEST_CASE("a frozen host is waited for no longer than the time set and its holder stays",
          "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  LockScene scene(engine);
  const auto holder = scene.hold("host1");
  const auto rival = scene.bed.sleeper("host2");
  scene.bed.pause("host1");
  scene.be_impatient();
  scene.refused_until_noted("host2", *rival, 1);
  CHECK(scene.notes().at(0) ==
        LockScene::note(kHost2, scene.owners().at(0), "SSHDEST Incompatible"));
  const auto begin = std::chrono::steady_clock::now();
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 10);
  CHECK(std::chrono::steady_clock::now() - begin < kLongestCheck);
  scene.bed.resume("host1");
  scene.be_impatient(false);
  CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 1);
}

TEST_CASE("hostpid_lock goes by an id helper of the user's own on every host", "[cluster]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  LockScene scene(engine);
  const std::string helper = scene.bed.shared("my_id");
  write_file(helper, "#!/bin/sh\nexec ssh_id \"$@\"\n");
  boost::filesystem::permissions(helper, boost::filesystem::all_all);
  const auto lock = [&](const std::string& host, const Guest& guest) {
    return scene
        .run(host, {"hostpid_lock", "--idhelper", helper, "--grace-seconds", "1", "--on-check-fail",
                    scene.notifier(), "lock", "lock", guest.pid()})
        .code;
  };
  const auto holder = scene.bed.sleeper("host1");
  const auto rival = scene.bed.sleeper("host2");
  REQUIRE(lock("host1", *holder) == 0);
  const std::string uid = scene.owners().at(0);
  CHECK_THAT(uid, Catch::StartsWith("host1.bed.test:" + holder->pid() + ":"));
  scene.age_markers();
  CHECK(lock("host2", *rival) == 1);
  CHECK(scene.notes().empty());

  scene.bed.cut("host1");
  scene.be_impatient();
  scene.age_markers();
  CHECK(lock("host2", *rival) == 1);
  CHECK(scene.notes() == Words{LockScene::note(kHost2, uid, "SSHDEST Incompatible")});
  scene.bed.heal("host1");
  scene.be_impatient(false);
  holder->kill();
  CHECK(eventually([&] { return lock("host2", *rival) == 0; }, kRecovery));
}
