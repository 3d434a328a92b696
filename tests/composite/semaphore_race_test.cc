#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <deque>
#include <random>
#include <thread>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
namespace bfs = boost::filesystem;

TEST_CASE("never more than max inside while holders are killed at random", "[composite][race]") {
  constexpr int kUsers = 9;
  const std::string max = GENERATE("1", "3", "8");
  const TempDir dir;
  const std::string work = dir / "work";
  bfs::create_directories(work + "/inside");
  const auto begin = [&](const std::string& turns) {
    return std::make_unique<Process>(
        std::vector<std::string>{helper("permit_holder"), dir / "sem", max, work, turns});
  };
  std::mt19937 random(std::random_device{}());
  std::deque<std::unique_ptr<Process>> users;
  for (int i = 0; i < kUsers; ++i) users.push_back(begin("1000000"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(8);
  int kills = 0;
  while (std::chrono::steady_clock::now() < end && !bfs::exists(work + "/violations")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5 + random() % 30));
    auto& victim = users[random() % users.size()];
    victim->kill_and_wait();
    victim = begin("1000000");
    ++kills;
  }
  users.clear();
  CHECK(read_file(work + "/violations") == "");
  CHECK(kills > 50);

  // whatever the killed left, those who come later get all their turns, and nothing stays
  for (int i = 0; i < kUsers; ++i) users.push_back(begin("20"));
  for (auto& user : users) CHECK(user->wait() == 0);
  CHECK(read_file(work + "/violations") == "");
  const Result cleaned = run({"semaphore", "-l", "--older-than", "0", "clean", dir / "sem"});
  CHECK(cleaned.code == 0);
  CHECK(tree(dir / "sem") == std::vector<std::string>{});
  CHECK_FALSE(bfs::exists(dir / "sem"));
}
