#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "mounts.h"
#include "race.h"
#include "support/process.h"

using namespace holdfast::testing;

namespace {

constexpr long kShort = 3'000;

/// A folder in memory, also for those who may not mount.
std::string memory_dir() {
  struct statfs fs {};
  const bool is_memory = statfs("/dev/shm", &fs) == 0 && fs.f_type == TMPFS_MAGIC;
  return is_memory && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "";
}

}  // namespace

TEST_CASE("never two holders among many that are killed at random", "[race]") {
  const TempDir dir;
  race_and_check("scratch folder", dir.path(), {});
}

TEST_CASE("never two holders on tmpfs", "[race]") {
  if (memory_dir().empty()) SKIP_TEST("no tmpfs on /dev/shm");
  std::string name = memory_dir() + "/holdfast-race.XXXXXX";
  REQUIRE(mkdtemp(name.data()));
  race_and_check("tmpfs", name, {});
  CHECK(run({"rm", "-r", name}).code == 0);
}

TEST_CASE("never two holders on overlay", "[race]") {
  const Mounted mounted("overlay");
  if (!mounted.why().empty()) SKIP_TEST(mounted.why());
  race_and_check("overlay", mounted.path(), {.sections = kShort, .tool_sections = 60});
}

TEST_CASE("never two holders on xfs", "[race]") {
  const Mounted mounted("xfs");
  if (!mounted.why().empty()) SKIP_TEST(mounted.why());
  race_and_check("xfs", mounted.path(), {.sections = kShort, .tool_sections = 60});
}

TEST_CASE("never two holders on btrfs", "[race]") {
  const Mounted mounted("btrfs");
  if (!mounted.why().empty()) SKIP_TEST(mounted.why());
  race_and_check("btrfs", mounted.path(), {.sections = kShort, .tool_sections = 60});
}

TEST_CASE("never two holders on ext4", "[race]") {
  const Mounted mounted("ext4");
  if (!mounted.why().empty()) SKIP_TEST(mounted.why());
  race_and_check("ext4", mounted.path(), {});
}
