#include <unistd.h>

#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "proof/race/mounts.h"
#include "support/process.h"
#include "support/race_length.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

/// Of the original lockers, if there is a checkout.
std::string shell_locker() {
  const char* source = std::getenv("LOCKERS_SRC");
  return source ? std::string(source) + "/lock_local.sh"
                : source_dir() + "/tests/system/compat/shell_peer";
}

struct Crowd {
  explicit Crowd(const std::string& folder) : lock(folder + "/lock"), work(folder + "/work") {
    bfs::create_directories(work + "/shared");
    bfs::create_directories(work + "/alone");
  }
  /// As rw_holder has them, or s: a shell script.
  std::unique_ptr<Process> begin(char role, const std::string& turns) const {
    if (role == 's') {
      return std::make_unique<Process>(std::vector<std::string>{
          source_dir() + "/tests/proof/race/shell_writer", shell_locker(), lock, work, turns});
    }
    return std::make_unique<Process>(
        std::vector<std::string>{helper("rw_holder"), lock, std::string(1, role), work, turns});
  }
  bool is_broken() const { return bfs::exists(work + "/violations"); }

  std::string lock;
  std::string work;
};

/// Everybody gets all turns, whatever those before left, and nothing stays.
void get_on(const Crowd& crowd, const std::string& roles, const std::string& turns = "20") {
  std::vector<std::unique_ptr<Process>> users;
  for (const char role : roles) users.push_back(crowd.begin(role, turns));
  for (auto& user : users) CHECK(user->wait() == 0);
  CHECK(read_file(crowd.work + "/violations") == "");
  const bool is_clean = run({"rw_lock", "--older-than", "0", "clean", crowd.lock}).code == 0;
  INFO("left: " << Catch::Detail::stringify(tree(crowd.lock)));
  CHECK(is_clean);
  CHECK_FALSE(bfs::exists(crowd.lock));
}

}  // namespace

TEST_CASE(
    "adversarial 9: nobody is beside one who is alone while holders and waiters are killed and "
    "stopped",
    "[composite][race][adversarial-9]") {
  const std::string roles = "rrrwwuups";
  const TempDir dir;
  const Crowd crowd(dir.path());
  std::mt19937 random(std::random_device{}());
  std::vector<std::unique_ptr<Process>> users;
  for (const char role : roles) users.push_back(crowd.begin(role, "1000000"));
  const auto end = std::chrono::steady_clock::now() + race_length();
  int kills = 0;
  while (std::chrono::steady_clock::now() < end && !crowd.is_broken()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + random() % 60));
    const std::size_t at = random() % users.size();
    if (random() % 3 == 0) {  // paused is not dead
      users[at]->signal(SIGSTOP);
      std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
      users[at]->signal(SIGCONT);
      continue;
    }
    users[at]->kill_and_wait();
    users[at] = crowd.begin(roles[at], "1000000");
    ++kills;
  }
  users.clear();
  CHECK(read_file(crowd.work + "/violations") == "");
  CHECK(kills > 50);
  get_on(crowd, roles);
}

TEST_CASE(
    "adversarial 3: nobody is beside one who is alone while somebody removes all folders that are "
    "empty",
    "[composite][race][adversarial-3]") {
  const std::string roles = "rrwwuups";
  const TempDir dir;
  const Crowd crowd(dir.path());
  std::atomic<long> removed = 0;
  const std::jthread broom([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      for (const char* folder :
           {"/owner", "/build", "/.queue", "/.upgrade/owner", "/.upgrade/build", "/.upgrade", ""}) {
        removed += rmdir((crowd.lock + folder).c_str()) == 0;
      }
    }
  });
  get_on(crowd, roles, "60");
  CHECK(removed > 0);
}

TEST_CASE(
    "adversarial 5: of many that upgrade at once none is alone beside another, on any filesystem",
    "[composite][race][adversarial-5]") {
  const std::string kind = GENERATE("ext4", "btrfs", "xfs", "overlay");
  CAPTURE(kind);
  const Mounted mounted(kind);
  if (!mounted.why().empty()) SKIP_TEST(mounted.why());
  const Crowd crowd(mounted.path());
  const std::string roles = "uuuur";
  std::vector<std::unique_ptr<Process>> users;
  for (const char role : roles) users.push_back(crowd.begin(role, "1000000"));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(6);
  while (std::chrono::steady_clock::now() < end && !crowd.is_broken()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  users.clear();
  CHECK(read_file(crowd.work + "/violations") == "");
  get_on(crowd, roles);
}
