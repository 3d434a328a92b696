/// How late a host sees what another one did, by each way of looking: the figures of
/// holdfast-layout(5).
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <optional>
#include <thread>

#include "host.h"
#include "lock/fast_lock.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

constexpr double kBlind = 35;  ///< seconds: longer than any cache of a client lasts unless told so

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_listed(const std::string& folder, const std::string& name) {
  DIR* dir = opendir(folder.c_str());
  if (!dir) return false;
  bool is_there = false;
  while (const dirent* entry = readdir(dir)) is_there = is_there || entry->d_name == name;
  closedir(dir);
  return is_there;
}

bool can_open(const std::string& path, int flags = 0) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

bool can_stat(const std::string& path) {
  struct stat st {};
  return stat(path.c_str(), &st) == 0;
}

/// Whether "holder" seems to hold `lock`, by one way of looking.
struct Way {
  std::string name;
  bool has_owner_folder;  ///< an empty one, at the first look
  std::function<bool(const std::string& lock)> look;
};

const std::vector<Way> kWays = {
    {"stat of the leaf", false,
     [](const std::string& lock) { return can_stat(lock + "/owner/holder"); }},
    {"open of the leaf", false,
     [](const std::string& lock) { return can_open(lock + "/owner/holder"); }},
    {"open of the leaf, owner/ was there", true,
     [](const std::string& lock) { return can_open(lock + "/owner/holder"); }},
    {"listing of owner/", false,
     [](const std::string& lock) { return is_listed(lock + "/owner", "holder"); }},
    {"listing of owner/, it was there", true,
     [](const std::string& lock) { return is_listed(lock + "/owner", "holder"); }},
    {"open of the folder above, then stat", false,
     [](const std::string& lock) {
       can_open(lock, O_DIRECTORY);
       return can_stat(lock + "/owner/holder");
     }},
    {"what owner tells", false,
     [](const std::string& lock) { return !lock::FastLock(disk::posix(), lock).owner().empty(); }},
};

using Moments = std::array<std::atomic<double>, 16>;  ///< by way; 0: not yet

struct Times {
  Moments looked{};  ///< in vain, so that the client has an opinion
  Moments locked{};
  Moments seen{};
  Moments unlocked{};
  Moments gone{};
};

std::string lock_of(std::size_t way) {
  return on_hosts("facts/" + std::to_string(way));
}

/// In a child: looks until the holder is seen, and then until it is gone.
int watch(std::size_t way, Times& times) {
  const auto wait_for = [&](bool is_there, std::atomic<double>& when) {
    while (kWays[way].look(lock_of(way)) != is_there) {
      times.looked[way] = now();
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    when = now();
  };
  wait_for(true, times.seen[way]);
  wait_for(false, times.gone[way]);
  return 0;
}

using Took = std::optional<double>;  ///< seconds; nothing: longer than kBlind

std::string in_ms(const Took& took) {
  return took ? std::to_string(static_cast<int>(1000 * *took)) + " ms"
              : "not in " + std::to_string(static_cast<int>(kBlind)) + " s";
}

/// Watchers on the second host, each with a lock of its own; what happens happens on the first.
class Watchers {
 public:
  Watchers() {
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      children_.push_back(hosts()[1].start([this, way] { return watch(way, *times_); }));
    }
  }
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;
  ~Watchers() {
    for (const pid_t child : children_) kill(child, SIGKILL);
    for (const pid_t child : children_) waitpid(child, nullptr, 0);
  }

  Times& times() { return *times_; }

  /// By each way, from what was done there until it was seen.
  std::vector<Took> wait(const Moments& done, const Moments& seen) const {
    const auto is_seen = [](const std::atomic<double>& when) { return when > 0; };
    eventually([&] { return std::all_of(seen.begin(), seen.begin() + kWays.size(), is_seen); },
               std::chrono::seconds(static_cast<int>(kBlind)));
    std::vector<Took> took;
    for (std::size_t way = 0; way < kWays.size(); ++way) {
      took.push_back(is_seen(seen[way]) ? Took(std::max(0.0, seen[way] - done[way])) : Took());
    }
    return took;
  }

 private:
  Shared<Times> times_;
  std::vector<pid_t> children_;
};

/// Of a rename onto a folder that is not empty.
std::string errno_of_full() {
  const std::string folder = on_hosts("facts");
  return hosts()[0].ask([&]() -> std::string {
    for (const char* name : {"/new", "/full", "/full/holder"}) mkdir((folder + name).c_str(), 0777);
    const int done = rename((folder + "/new").c_str(), (folder + "/full").c_str());
    return done == 0 ? "no error" : strerrorname_np(errno);
  });
}

constexpr int kAdditions = 30;  ///< by each host

/// Two hosts add one to a number in a file, each time under the lock. How many additions were lost,
/// because they began with an old number.
int lost_additions() {
  constexpr int kBegin = 1000;  // as long as the end: a size that changes would give it away
  write_file(on_server("facts/number"), std::to_string(kBegin));
  const auto add = [](const std::string& id) {
    const std::string number = on_hosts("facts/number");
    lock::FastLock lock(disk::posix(), number + ".lock");
    for (int i = 0; i < kAdditions; ++i) {
      while (lock.lock(uid(id), some_record()).outcome != lock::Outcome::held) usleep(1000);
      write_file(number, std::to_string(std::stoi(read_file(number)) + 1));
      lock.unlock(uid(id));
    }
    return 0;
  };
  std::vector<pid_t> adders;
  for (const Host* host : {&hosts()[0], &hosts()[1]}) {
    adders.push_back(host->start([&] { return add(host->name()); }));
  }
  for (const pid_t adder : adders) {
    int status = 0;
    waitpid(adder, &status, 0);
    CHECK(status == 0);
  }
  return kBegin + 2 * kAdditions - std::stoi(read_file(on_server("facts/number")));
}

}  // namespace

TEST_CASE("figures of what a host sees of another", "[nfs][facts]") {
  const bool has_change_counter = std::getenv("NFS_VERSION") != std::string("3");
  for (std::size_t way = 0; way < kWays.size(); ++way) {
    const std::string folder = kWays[way].has_owner_folder ? "/owner" : "";
    REQUIRE(run({"mkdir", "-p", on_server("facts/" + std::to_string(way)) + folder}).code == 0);
  }
  Watchers watchers;
  for (std::size_t way = 0; way < kWays.size(); ++way) {
    REQUIRE(eventually([&] { return watchers.times().looked[way] > 0; }));
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a tick of the server's clock
  Times& times = watchers.times();
  const auto on_all = [&](Moments& done, const std::function<void(lock::FastLock&)>& act) {
    hosts()[0].ask([&] {
      for (std::size_t way = 0; way < kWays.size(); ++way) {
        lock::FastLock lock(disk::posix(), lock_of(way));
        act(lock);
        done[way] = now();
      }
      return std::string();
    });
  };
  on_all(times.locked, [](lock::FastLock& lock) { lock.lock(uid("holder"), some_record()); });
  const std::vector<Took> seen = watchers.wait(times.locked, times.seen);
  std::this_thread::sleep_for(std::chrono::seconds(2));  // caches are no longer new
  on_all(times.unlocked, [](lock::FastLock& lock) { lock.unlock(uid("holder")); });
  const std::vector<Took> gone = watchers.wait(times.unlocked, times.gone);

  std::cout << std::left;
  for (std::size_t way = 0; way < kWays.size(); ++way) {
    std::cout << std::setw(38) << kWays[way].name << "sees a new holder after " << std::setw(12)
              << in_ms(seen[way]) << "its release after " << in_ms(gone[way]) << "\n";
  }
  if (has_change_counter) {
    CHECK(seen.back());
    CHECK(gone.back());
  }
  std::cout << "a rename onto a full folder gives " << errno_of_full() << "\n";
  const int lost = lost_additions();
  std::cout << lost << " of " << 2 * kAdditions << " additions under a lock began with old data"
            << std::endl;
  if (has_change_counter) CHECK(lost == 0);
}
