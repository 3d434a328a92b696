/// The original semaphore.sh and our tools fight for the slots of one semaphore.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
using Words = std::vector<std::string>;

TEST_CASE("the original semaphore and ours never let in more than max together", "[compat][race]") {
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  const Words original{std::string(source) + "/semaphore.sh", "-l"};
  constexpr int kOfEach = 2;
  const TempDir dir;
  write_file(
      dir / "contend",
      "turns=$1; shift\n"
      "while [ $turns -gt 0 ]; do\n"
      "  \"$@\" acquire sem 2 $$ || { [ $? -lt 10 ] && continue; echo \"$* $?\" >> bad; exit; }\n"
      "  mkdir inside/$$\n"
      "  now=$(ls inside | wc -l)\n"
      "  [ $now -le 2 ] || echo \"$now inside\" >> bad\n"
      "  rmdir inside/$$\n"
      "  \"$@\" release sem $$ || echo \"$* release $?\" >> bad\n"
      "  turns=$((turns - 1))\n"
      "done\n");
  RunOptions there;
  there.cwd = dir.path();
  REQUIRE(run({"/bin/mkdir", "inside"}, there).code == 0);
  std::vector<std::unique_ptr<Process>> users;
  const auto begin = [&](const std::string& turns, const Words& lead) {
    Words words{"/bin/bash", "contend", turns};
    words.insert(words.end(), lead.begin(), lead.end());
    users.push_back(std::make_unique<Process>(words, there));
  };
  for (int i = 0; i < kOfEach; ++i) {
    begin("6", original);
    begin("60", {tool("semaphore"), "-l"});
    begin("60", {tool("fair_semaphore")});
  }
  for (const auto& user : users) CHECK(user->wait() == 0);
  CHECK(read_file(dir / "bad") == "");
  CHECK(tree(dir / "sem").empty());
}
