/// What could not be read, or not in time, proves nobody dead.
#include <unistd.h>

#include "disk/disk.h"
#include "identity/local_id.h"
#include "lock/fast_lock.h"
#include "policy/check_policy.h"
#include "scene.h"
#include "support/fault_disk.h"

using namespace holdfast;
using namespace holdfast::testing;
using identity::Identity;
using identity::LocalId;

namespace {

Identity self() {
  std::string why;
  const auto identity = LocalId(disk::posix()).identify(std::to_string(getpid()), why);
  INFO(why);
  REQUIRE(identity);
  return *identity;
}

/// Alive in a pid namespace that nobody here can look into; here there is no process of its number.
Identity out_of_sight() {
  Identity identity = self();
  identity.record.pid = 2147483000;
  identity.record.pidns = "pid:[1]";
  identity.uid = Uid::found("2147483000:1:1700000000");
  return identity;
}

void put(const std::string& folder, const Identity& identity) {
  boost::filesystem::create_directories(folder);
  write_file(folder + "/" + identity.uid.str(), to_line(identity.record));
}

}  // namespace

TEST_CASE("a leaf that cannot be read is not judged without its record", "[identity]") {
  const int error = GENERATE(ENOENT, EACCES, EIO, EMFILE, ESTALE);
  CAPTURE(error);
  bool was_hit = true;
  for (int call = 0; was_hit; ++call) {
    REQUIRE(call < 500);
    const TempDir dir;
    const Identity holder = out_of_sight();
    put(dir / "lock/owner", holder);
    FaultDisk disk;
    disk.fail(call, error);
    const LocalId ids(disk);
    lock::FastLock lock(disk, dir / "lock");
    const Identity me = self();
    const auto answer = policy::CheckPolicy(lock, ids).lock(me.uid, me.record);
    was_hit = disk.was_hit();
    CAPTURE(call, disk.last_hit());
    CHECK(answer.outcome != lock::Outcome::held);
    CHECK(tree(dir / "lock/owner") == std::vector<std::string>{holder.uid.str()});
  }
}

TEST_CASE("a proposer who gets the lock while a cleaner judges it keeps the lock", "[identity]") {
  const bool is_unlock = GENERATE(true, false);
  CAPTURE(is_unlock);
  bool was_hit = true;
  int wins = 0;
  for (int call = 0; was_hit; ++call) {
    REQUIRE(call < 500);
    const TempDir dir;
    const Identity me = self();
    const Identity proposer = out_of_sight();
    const std::string proposal = dir / "lock/build/" + proposer.uid.str() + "/owner";
    put(proposal, proposer);
    if (is_unlock) put(dir / "lock/owner", me);
    FaultDisk disk;
    bool has_won = false;
    disk.before(call,
                [&] { has_won = ::rename(proposal.c_str(), (dir / "lock/owner").c_str()) == 0; });
    const LocalId ids(disk);
    lock::FastLock lock(disk, dir / "lock");
    policy::CheckPolicy policy(lock, ids);
    if (is_unlock) {
      policy.unlock(me.uid);
    } else {
      policy.clean(std::chrono::seconds(3600));
    }
    was_hit = disk.was_hit();
    if (!has_won) continue;
    ++wins;
    CAPTURE(call, disk.last_hit());
    CHECK(tree(dir / "lock/owner") == std::vector<std::string>{proposer.uid.str()});
  }
  CHECK(wins > 0);
}

TEST_CASE("who cannot see the boot id does not free the lock of a live holder", "[identity]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const std::string hide = GENERATE("mount -t tmpfs none /proc/sys",
                                    "mount --bind /dev/null /proc/sys/kernel/random/boot_id",
                                    "mount -t proc -o subset=pid proc /proc");
  const bool has_record = GENERATE(true, false);
  const std::string action = GENERATE("lock \"$LOCK\" $$", "owner \"$LOCK\"", "is_stale \"$LOCK\"",
                                      "unlock \"$LOCK\" $$", "--older-than 0 clean \"$LOCK\"");
  const Scene scene;
  const Process holder(kSleeper);
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  if (!has_record) scene.forget_records();
  const Words owners = scene.owners();

  const Result result =
      scene.script(hide + " || exit 90; lock_local " + action, kNewMountNamespace);
  if (result.code == 90) SKIP_TEST("cannot " + hide);
  CAPTURE(hide, has_record, action, result.err);
  CHECK(scene.owners() == owners);
  CHECK((action.find("is_stale") == std::string::npos || result.code != 0));
}
