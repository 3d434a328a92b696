/// The tests of the original shell lockers, run on our tools. $LOCKERS_SRC names a checkout.
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <sstream>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

/// A package laid out as theirs, with our tools where their scripts were.
void lay_out(const std::string& package, const std::string& source) {
  bfs::create_directories(package + "/test");
  bfs::create_directories(package + "/lib/test");
  for (const char* name : {"lock_local.sh", "local_id.sh", "lib/fast_lock.sh", "lib/check_lock.sh",
                           "lib/grace_lock.sh"})
    bfs::create_symlink(build_dir() + "/libexec/holdfast/lockers/" + name, package + "/" + name);
  for (const char* name :
       {"lib/test/fast_lock.sh", "lib/test/check_lock.sh", "lib/test/grace_lock.sh",
        "lib/test/lib.sh", "lib/test/results.sh", "test/local_id.sh", "test/lock_local.sh"})
    bfs::copy_file(source + "/" + name, package + "/" + name);
}

}  // namespace

TEST_CASE("our tools pass the tests of the original lockers", "[compat]") {
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  const auto [test, expected] = GENERATE(table<std::string, int>({
      {"lib/test/fast_lock.sh", 10},
      {"lib/test/check_lock.sh", 10},
      {"lib/test/grace_lock.sh", 11},
      {"test/local_id.sh", 6},
      {"test/lock_local.sh", 11},
  }));
  const TempDir dir;
  lay_out(dir / "package", source);
  // In a process group that ends with the test: its sleepers would outlive it by ten seconds.
  RunOptions there;
  there.cwd = dir / "package";
  there.env["TEST"] = test;
  Process group({"setsid", "/bin/bash", "-c",
                 "bash \"$TEST\" > ../out 2> ../err; echo $? > ../code; kill -KILL -- -$$"},
                there);
  CHECK(group.wait() == 137);

  const std::string out = read_file(dir / "out");
  CAPTURE(test, out, read_file(dir / "err"));
  CHECK(read_file(dir / "code") == "0\n");
  int passed = 0;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.starts_with("PASSED"));
    ++passed;
  }
  CHECK(passed == expected);
}
