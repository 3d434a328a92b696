/// The tests of the original shell lockers, run on our tools. $LOCKERS_SRC names a checkout.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "support/process.h"
#include "support/temp_dir.h"
#include "system/compat/originals.h"

using namespace holdfast::testing;

TEST_CASE("our tools pass the tests of the original lockers", "[compat]") {
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  const auto [test, expected] = GENERATE(table<std::string, int>({
      {"lib/test/fast_lock.sh", 10},
      {"lib/test/check_lock.sh", 10},
      {"lib/test/grace_lock.sh", 11},
      {"test/local_id.sh", 6},
      {"test/lock_local.sh", 11},
      {"test/semaphore.sh", 27},
  }));
  const TempDir dir;
  lay_out(dir / "package", source);
  RunOptions there;
  there.cwd = dir / "package";
  there.env["TEST"] = test;
  Process group({"setsid", "/bin/bash", "-c", kRunOriginal}, there);
  CHECK(group.wait() == 137);

  const std::string out = read_file(dir / "out");
  CAPTURE(test, out, read_file(dir / "err"));
  CHECK(read_file(dir / "code") == "0\n");
  check_all_passed(out, expected);
}
