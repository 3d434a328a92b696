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

/// `options` are those of the machine, `command` runs in it.
void check_in_machine(const std::vector<std::string>& options,
                      const std::vector<std::string>& command) {
  if (!is_root()) SKIP_TEST("NFS is tried by root only");
  std::vector<std::string> words = {source_dir() + "/tests/proof/nfs/vm", "--limit", "400"};
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), command.begin(), command.end());
  RunOptions how;
  how.limit = std::chrono::seconds(500);
  const Result result = run(words, how);
  std::cout << result.out << std::flush;
  if (result.code == kNoMachine) {
    std::cout << result.err;
    SKIP_TEST("no machine with NFS comes up here");
  }
  INFO(result.out << result.err);
  CHECK(result.code == 0);
}

void check_promises(const std::string& version, const std::string& filesystem) {
  check_in_machine({"--vers", version, "--fs", filesystem},
                   {"bash", "-c", kAll, helper("nfs_promises")});
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

// Number 10 of the tests of rw_lock.
TEST_CASE("hosts share and exclude each other while one believes for long what it saw", "[nfs]") {
  const std::string version = GENERATE("3", "4.2");
  check_in_machine({"--vers", version, "--first", "actimeo=600"},
                   {helper("nfs_promises"), "[race]", "--durations", "yes"});
}
