/// The original lockers' own tests, with our tools in the place of theirs.
#pragma once

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>

#include "support/process.h"

namespace holdfast::testing {

/// A package laid out as theirs in `source`, with our tools where their scripts were.
inline void lay_out(const std::string& package, const std::string& source) {
  namespace bfs = boost::filesystem;
  bfs::create_directories(package + "/test");
  bfs::create_directories(package + "/lib/test");
  for (const char* name : {"lock_local.sh", "lock_ssh.sh", "local_id.sh", "ssh_id.sh",
                           "semaphore.sh", "semaphore_ssh.sh", "lib/fast_lock.sh",
                           "lib/check_lock.sh", "lib/grace_lock.sh", "lib/hostpid_lock.sh"})
    bfs::create_symlink(build_dir() + "/libexec/holdfast/lockers/" + name, package + "/" + name);
  for (const char* name :
       {"lib/test/fast_lock.sh", "lib/test/check_lock.sh", "lib/test/grace_lock.sh",
        "lib/test/lib.sh", "lib/test/results.sh", "test/local_id.sh", "test/lock_local.sh",
        "test/ssh_id.sh", "test/lock_ssh.sh", "test/lib_semaphore.sh", "test/semaphore.sh",
        "test/semaphore_ssh.sh"})
    bfs::copy_file(source + "/" + name, package + "/" + name);
}

/// In a process group that ends with the test: its sleepers would outlive it by ten seconds.
inline const std::string kRunOriginal =
    "bash \"$TEST\" > ../out 2> ../err; echo $? > ../code; kill -KILL -- -$$";

/// Each line says PASSED, but for those that say what is waited for, and there are as many as
/// theirs print on their own tools.
inline void check_all_passed(const std::string& out, int expected) {
  int passed = 0;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("Waiting ")) continue;
    CAPTURE(line);
    CHECK(line.starts_with("PASSED"));
    ++passed;
  }
  CHECK(passed == expected);
}

}  // namespace holdfast::testing
