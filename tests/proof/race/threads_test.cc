#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>
#include <vector>

#include "policy/locker.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
using holdfast::Locker;

TEST_CASE("threads of one process exclude each other like processes", "[race][threads]") {
  constexpr int kThreads = 6;
  constexpr int kSections = 1'500;
  const TempDir dir;
  const std::string lock = dir / "lock";
  std::atomic<int> inside{0};
  std::atomic<int> counter{0};  // written back in two steps: only the lock makes it right
  std::atomic<int> started{0};
  std::atomic<int> violations{0};
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  {
    std::vector<std::jthread> threads;
    for (unsigned seed = 0; seed < kThreads; ++seed) {
      threads.emplace_back([&, seed] {
        Locker locker(lock);
        std::minstd_rand random(seed + 1);
        while (started < kSections && std::chrono::steady_clock::now() < end) {
          auto guard = locker.try_lock();
          if (!guard) {
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
            continue;
          }
          ++started;
          if (inside.fetch_add(1) != 0) ++violations;
          const int before = counter;
          std::this_thread::yield();
          counter = before + 1;
          if (inside.fetch_sub(1) != 1) ++violations;
          if (!guard->unlock()) ++violations;
        }
      });
    }
  }
  CHECK(violations == 0);
  CHECK(started >= kSections);
  CHECK(counter == started);
  CHECK(run({"lock_local", "--older-than", "0", "clean", lock}).code == 0);
  CHECK(tree(dir.path()).empty());
}
