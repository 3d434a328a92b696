/// Many workers on three hosts, killed at random: see worker.cc for what they leave. For a minute,
/// or for $HOLDFAST_STORM_SECONDS.
#include <cstdlib>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "system/cluster/lock_scene.h"

using namespace holdfast::testing;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

constexpr int kWorkers = 12;
constexpr int kHosts = 3;

seconds length_of_storm() {
  const char* asked = std::getenv("HOLDFAST_STORM_SECONDS");
  return seconds(asked ? std::atol(asked) : 60);
}

class Storm {
 public:
  /// The tool of each host, with its options.
  explicit Storm(std::vector<Words> tools) : tools_(std::move(tools)) {
    boost::filesystem::create_directory(scene_.bed.shared("work"));
    for (int worker = 0; worker < kWorkers; ++worker) start(worker);
  }

  void rage(seconds length) {
    const auto end = steady_clock::now() + length;
    const auto half_time = steady_clock::now() + length / 2;
    bool was_restarted = false;
    while (steady_clock::now() < end && violations().empty()) {
      pause();
      strike();
      look_for_recovery();
      if (!was_restarted && steady_clock::now() > half_time) {
        restart_host(2);
        was_restarted = true;
      }
    }
  }

  /// Whoever held it last: somebody new must get it, and find nothing broken.
  void settle() {
    for (int worker = 0; worker < kWorkers; ++worker) kill(worker);
    const auto heir = scene_.bed.sleeper("host1");
    CHECK(scene_.gets("host1", *heir, seconds(60)));  // others died on their way as well
    look_for_recovery();
    CHECK(dead_holders_.empty());
    CHECK(scene_.lock_ssh("host1", {"unlock", "lock", heir->pid()}).code == 0);
    CHECK(eventually([&] {
      return scene_.lock_ssh("host1", {"--older-than", "0", "clean", "lock"}).code == 0;
    }));
    // whoever cleaned behind the unlock may still be at it
    CHECK(eventually([&] { return tree(scene_.bed.shared("lock")).empty(); }));
  }

  std::string violations() const { return read_file(scene_.bed.shared("work/violations")); }

  void judge() const {
    std::set<std::string> numbers;
    const Words log = lines_of(read_file(scene_.bed.shared("work/log")));
    for (const std::string& line : log) numbers.insert(line.substr(0, line.find(' ')));
    std::cout << log.size() << " sections, " << killed_ << " killed, " << recovered_
              << " of them as holders and recovered, the slowest after "
              << std::chrono::duration_cast<seconds>(slowest_).count() << " s\n";
    CHECK(violations() == "");
    CHECK(numbers.size() == log.size());  // no section overwrote another's number
    CHECK(log.size() > 20);
    CHECK(recovered_ > 2);
  }

 private:
  static std::string host_of(int worker) { return "host" + std::to_string(worker % kHosts + 1); }

  void start(int worker) {
    const std::string name = std::to_string(worker);
    const std::string seed = std::to_string(random_());
    workers_[worker] = scene_.bed.start(
        host_of(worker), Words{helper("worker"), scene_.bed.shared("work"), name, seed, "lock"} +
                             tools_.at(static_cast<std::size_t>(worker % kHosts)));
  }

  void kill(int worker) {
    const std::string process = host_of(worker) + ".bed.test:" + workers_[worker]->pid() + ":";
    workers_[worker]->kill();
    ++killed_;
    for (const std::string& owner : scene_.owners())
      if (owner.starts_with(process)) dead_holders_.emplace(owner, steady_clock::now());
  }

  /// Every second time at whoever was inside last, who often still is.
  void strike() {
    const std::string holder = read_file(scene_.bed.shared("work/holder"));
    const bool is_aimed = random_() % 2 == 0 && !holder.empty();
    const int worker = is_aimed ? std::stoi(holder) : static_cast<int>(random_() % kWorkers);
    kill(worker);
    start(worker);
  }

  void restart_host(int number) {
    const std::string host = "host" + std::to_string(number);
    scene_.bed.power_off(host);
    for (int worker = 0; worker < kWorkers; ++worker)
      if (host_of(worker) == host) kill(worker);
    scene_.bed.power_on(host);
    for (int worker = 0; worker < kWorkers; ++worker)
      if (host_of(worker) == host) start(worker);
  }

  void look_for_recovery() {
    const Words owners = scene_.owners();
    for (auto dead = dead_holders_.begin(); dead != dead_holders_.end();) {
      const auto took = steady_clock::now() - dead->second;
      const bool is_owner = std::find(owners.begin(), owners.end(), dead->first) != owners.end();
      CHECK(took < seconds(120));
      slowest_ = std::max(slowest_, took);
      if (!is_owner) ++recovered_;
      dead = is_owner ? std::next(dead) : dead_holders_.erase(dead);
    }
  }

  void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(100 + random_() % 700)); }

  LockScene scene_;
  std::vector<Words> tools_;
  std::map<int, std::unique_ptr<Guest>> workers_;
  std::mt19937 random_{std::random_device{}()};
  std::map<std::string, steady_clock::time_point> dead_holders_;
  long killed_ = 0;
  long recovered_ = 0;
  steady_clock::duration slowest_{0};
};

const Words kOurs = {"lock_ssh", "--grace-seconds", "1"};

}  // namespace

TEST_CASE("twelve workers on three hosts never meet and every dead holder is recovered",
          "[cluster][race]") {
  NEEDS_BED();
  Storm storm({kOurs, kOurs, kOurs});
  storm.rage(length_of_storm());
  storm.settle();
  storm.judge();
}

TEST_CASE("workers who only believe that they have a lock are found out", "[cluster][race]") {
  NEEDS_BED();
  const Words yes_man = {"/bin/true"};
  Storm storm({yes_man, yes_man, yes_man});
  storm.rage(seconds(60));
  CHECK_THAT(storm.violations(), Catch::Contains("somebody else is inside"));
}

TEST_CASE("workers with the original lock_ssh.sh on one host and ours on two never meet",
          "[cluster][race][compat]") {
  NEEDS_BED();
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  const Words theirs = {std::string(source) + "/lock_ssh.sh", "--grace-seconds", "2"};
  Storm storm({kOurs, theirs, kOurs});
  storm.rage(length_of_storm());
  storm.settle();
  storm.judge();
}
