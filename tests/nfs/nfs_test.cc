/// Boots a machine for each kind of NFS and lets nfs_promises run in it.
#include <catch2/catch.hpp>

#include "support/process.h"

using namespace holdfast::testing;

namespace {

constexpr int kNoMachine = 125;

/// The figures take half a minute of waiting: they are collected beside the rest, but for what
/// takes the caches away from under them.
constexpr const char* kAll = R"sh(
"$0" '[facts]' > /run/facts 2>&1 & facts=$!
"$0" '~[facts]~[caches]' --durations yes; code=$?
wait $facts || code=1
"$0" '[caches]' --durations yes || code=1
cat /run/facts
exit $code
)sh";

void check_promises(const std::string& version, const std::string& filesystem) {
  if (!is_root()) SKIP_TEST("NFS is tried by root only");
  RunOptions options;
  options.limit = std::chrono::seconds(500);
  const Result result = run({source_dir() + "/tests/nfs/vm", "--vers", version, "--fs", filesystem,
                             "--limit", "400", "bash", "-c", kAll, helper("nfs_promises")},
                            options);
  std::cout << result.out << std::flush;
  if (result.code == kNoMachine) {
    std::cout << result.err;
    SKIP_TEST("no machine with NFS comes up here");
  }
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

}  // namespace

TEST_CASE("every promise is kept on NFS 3 over ext4", "[nfs]") {
  check_promises("3", "ext4");
}
TEST_CASE("every promise is kept on NFS 3 over xfs", "[nfs]") {
  check_promises("3", "xfs");
}
TEST_CASE("every promise is kept on NFS 4.2 over ext4", "[nfs]") {
  check_promises("4.2", "ext4");
}
TEST_CASE("every promise is kept on NFS 4.2 over xfs", "[nfs]") {
  check_promises("4.2", "xfs");
}
