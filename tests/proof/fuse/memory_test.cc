/// Two hosts on one folder, of which one believes for long what it once saw; and calls that are
/// late.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "holder.h"
#include "support/fault_mount.h"

using namespace holdfast::testing;

namespace {

constexpr int kMinute = 60;  ///< longer than the test: what is not asked for again stays as it was

LockerTool each_tool() {
  return GENERATE(from_range(locker_tools()));
}

}  // namespace

TEST_CASE("a host that believes in a missing lock never gets it beside its holder", "[fuse]") {
  const TempDir folder;
  const FaultMount here(folder.path(), kMinute);
  const FaultMount there(folder.path());
  if (!here.why().empty()) SKIP_TEST(here.why());
  const LockerTool locker = each_tool();
  INFO(locker.name);
  const Holder self(locker, "self");
  const Holder other(locker, "other");
  const auto code = [&](const std::string& action, const FaultMount& mount, const Holder& holder) {
    return run(locker.words(action, mount.path() + "/lock", holder.word)).code;
  };
  CHECK(run(locker.words("owner", here.path() + "/lock")).out == "");
  CHECK(code("lock", there, other) == 0);
  CHECK(code("lock", here, self) == 1);
  CHECK(tree(folder / "lock/owner") == Words{other.leaf});
  CHECK(code("unlock", there, other) == 0);
  CHECK(code("lock", here, self) == 0);
  CHECK(tree(folder / "lock/owner") == Words{self.leaf});
  CHECK(code("lock", there, other) == 1);
  CHECK(code("unlock", here, self) == 0);
  CHECK(code("lock", there, other) == 0);
  CHECK(code("unlock", there, other) == 0);
  CHECK(eventually([&] { return tree(folder / "lock") == Words{}; }));
}

TEST_CASE("while any one call of a lock is late another may come and one of the two gets it",
          "[fuse]") {
  const TempDir folder;
  const FaultMount mount(folder.path());
  if (!mount.why().empty()) SKIP_TEST(mount.why());
  constexpr int kLate = 100;  // milliseconds: an attempt takes less than ten
  const LockerTool locker = each_tool();
  const std::string call = GENERATE("mkdir", "create", "write", "close", "rename", "rmdir", "open");
  const Holder self(locker, "self");
  const Holder rival(locker, "rival");
  bool was_hit = true;
  for (int nth = 1; was_hit && nth < 20; ++nth) {
    INFO(locker.name << ", number " << nth << " of " << call);
    const std::string name = "lock." + call + std::to_string(nth);
    const std::string lock = mount.path() + "/" + name;
    mount.set({call, "delay", kLate}, nth);
    std::atomic<int> code = -1;
    std::thread late([&] { code = run(locker.words("lock", lock, self.word)).code; });
    eventually([&] { return (was_hit = mount.was_hit()) || code >= 0; });
    const int rivals = run(locker.words("lock", lock, rival.word)).code;
    late.join();
    mount.clear();
    CHECK(code <= 2);
    CHECK(rivals <= 2);
    CHECK((code == 0) + (rivals == 0) == 1);
    CHECK(tree(folder / name + "/owner") == Words{code == 0 ? self.leaf : rival.leaf});
    CHECK(run(locker.words("unlock", lock, code == 0 ? self.word : rival.word)).code == 0);
    CHECK(eventually([&] {
      return run(locker.words("clean", lock)).code == 0 && tree(folder / name) == Words{};
    }));
  }
  CHECK_FALSE(was_hit);
}
