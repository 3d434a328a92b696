/// The original lock_ssh.sh and ours, on different hosts and on one lock. $LOCKERS_SRC names a
/// checkout.
#include <cstdlib>

#include "system/cluster/lock_scene.h"
#include "system/compat/originals.h"

using namespace holdfast::testing;

TEST_CASE("the original lock_ssh.sh and ours share a lock across hosts", "[cluster][compat]") {
  NEEDS_BED();
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  const std::string theirs = std::string(source) + "/lock_ssh.sh";
  const auto [holders, rivals] =
      GENERATE_COPY(table<std::string, std::string>({{theirs, "lock_ssh"}, {"lock_ssh", theirs}}));
  CAPTURE(holders, rivals);
  const LockScene scene;
  const auto call = [&](const std::string& host, const std::string& tool, const Words& words) {
    return scene.run(host, Words{tool, "--grace-seconds", "2"} + words);
  };
  auto holder = scene.bed.sleeper("host1");
  const auto rival = scene.bed.sleeper("host2");
  REQUIRE(call("host1", holders, {"lock", "lock", holder->pid()}).code == 0);
  CHECK(call("host2", rivals, {"owner", "lock"}).out ==
        call("host1", holders, {"owner", "lock"}).out);
  CHECK(call("host2", rivals, {"owner_hostid", "lock"}).out == "host1.bed.test\n");
  for (int i = 0; i < 3; ++i) {
    scene.age_markers();
    CHECK(call("host2", rivals, {"lock", "lock", rival->pid()}).code == 1);
  }
  CHECK(call("host1", holders, {"is_mine", "lock", holder->pid()}).code == 0);

  holder->kill();
  const auto gets = [&] { return call("host2", rivals, {"lock", "lock", rival->pid()}).code == 0; };
  CHECK(eventually(gets, std::chrono::seconds(60)));
  CHECK(call("host2", rivals, {"is_mine", "lock", rival->pid()}).code == 0);
  call("host2", rivals, {"unlock", "lock", rival->pid()});
  CHECK(eventually([&] { return !boost::filesystem::exists(scene.bed.shared("lock")); }));
}

TEST_CASE("on a host our tools pass the tests of the original cluster lockers",
          "[cluster][compat]") {
  NEEDS_BED();
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  const auto [test, expected] = GENERATE(table<std::string, int>(
      {{"test/ssh_id.sh", 17}, {"test/lock_ssh.sh", 13}, {"test/semaphore_ssh.sh", 26}}));
  const Bed bed(1);
  lay_out(bed.shared("package"), source);
  bed.start("host1",
            {"/bin/sh", "-c",
             "cd package && TEST=" + test + " exec setsid -w /bin/bash -c '" + kRunOriginal + "'"})
      ->wait();
  const std::string out = read_file(bed.shared("out"));
  CAPTURE(test, out, read_file(bed.shared("err")));
  CHECK(read_file(bed.shared("code")) == "0\n");
  check_all_passed(out, expected);
}
