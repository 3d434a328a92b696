#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <random>
#include <thread>
#include <vector>

#include "support/process.h"
#include "support/race_length.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

constexpr std::size_t kUsers = 9;

}  // namespace

TEST_CASE("never more than max inside while holders are killed and stopped at random",
          "[composite][race]") {
  const int max = GENERATE(1, 3, 8);
  const TempDir dir;
  const std::string work = dir / "work";
  bfs::create_directories(work + "/inside/1");
  bfs::create_directories(work + "/inside/2");
  /// The wants of nine: some know no line, some want two.
  const auto begin = [&](std::size_t user, const std::string& turns) {
    const int permits = std::min(max, static_cast<int>(user % 3));
    return std::make_unique<Process>(
        std::vector<std::string>{helper("permit_holder"), dir / "sem", std::to_string(max),
                                 std::to_string(permits), work, turns});
  };
  std::mt19937 random(std::random_device{}());
  std::vector<std::unique_ptr<Process>> users;
  for (std::size_t i = 0; i < kUsers; ++i) users.push_back(begin(i, "1000000"));
  const auto end = std::chrono::steady_clock::now() + race_length() / 3;
  int kills = 0;
  while (std::chrono::steady_clock::now() < end && !bfs::exists(work + "/violations")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 30));
    const std::size_t user = random() % users.size();
    if (random() % 2 == 0) {
      users[user]->signal(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
      users[user]->signal(SIGCONT);
      continue;
    }
    users[user]->kill_and_wait();
    users[user] = begin(user, "1000000");
    ++kills;
  }
  users.clear();
  CHECK(read_file(work + "/violations") == "");
  CHECK(kills > 20);

  // whatever the killed left, those who come later get all their turns, and nothing stays
  for (std::size_t i = 0; i < kUsers; ++i) users.push_back(begin(i, "20"));
  for (auto& user : users) CHECK(user->wait() == 0);
  CHECK(read_file(work + "/violations") == "");
  const Result cleaned = run({"fair_semaphore", "--older-than", "0", "clean", dir / "sem"});
  CHECK(cleaned.code == 0);
  CHECK(tree(dir / "sem") == std::vector<std::string>{});
  CHECK_FALSE(bfs::exists(dir / "sem"));
}
