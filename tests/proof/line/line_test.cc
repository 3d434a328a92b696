/// Long lines: their order, and what a waiter costs while it sleeps and when its turn comes.

#include <sys/syscall.h>

#include <algorithm>
#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <deque>
#include <mutex>
#include <thread>

#include "composite/rw_lock.h"
#include "identity/local_id.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::composite;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using lock::Mode;
using lock::Outcome;
using lock::Ticket;
namespace bfs = boost::filesystem;

namespace {

/// All live but those whose ids begin with "dead".
class Judge final : public identity::Checker {
 public:
  identity::Verdict check(const Uid& id, const std::optional<Record>&) const override {
    const bool is_dead = id.str().starts_with("dead");
    return {is_dead ? identity::Life::dead : identity::Life::alive, "so it is called"};
  }
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }
};

/// One of several holders in this process: its record names none, or they would be one and the
/// same.
Holder someone(const std::string& id) {
  std::string why;
  const auto process = Holder::this_process(why);
  if (!process) throw std::runtime_error(why);
  identity::Identity self{uid(id), process->self.record};
  self.record.pid = 0;
  return {self, process->waiter, std::make_shared<const Judge>()};
}

std::string numbered(const std::string& word, int number) {
  const std::string digits = std::to_string(number);
  return word + std::string(5 - digits.size(), '0') + digits;
}

/// A lock that is held from the start, and those who come for it one after the other.
class Scene {
 public:
  Scene() { REQUIRE(lock_.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held); }
  ~Scene() {
    (void)lock_.unlock();  // whoever still waits has its turn
    join();
  }

  /// In a thread of its own: waits, writes itself down, and unlocks. Returns when it is in line.
  void arrive(const std::string& id) {
    disks_.emplace_back();
    threads_.emplace_back([this, id, &disk = disks_.back()] {
      const Holder holder = someone(id);
      RwLock lock(path, holder, Order::fair, disk);
      auto guard = lock.hold(Mode::exclusive, Patience::of(100s));
      const std::scoped_lock one(mutex_);
      granted_.push_back(guard ? id : id + ": " + lock.refusal().why);
    });
    REQUIRE(eventually([&] { return is_in_line(id); }, 100s));
  }

  /// Tickets of `count` ids, behind all others. What they say is what a waiter of here says.
  void add_tickets(const std::string& word, int count) {
    const Holder holder = someone(word);
    const std::string text = to_line(holder.self.record) + holder.waiter.uid.str() + "\n" +
                             to_line(holder.waiter.record);
    const auto tickets = in_line();
    const std::uint64_t last = tickets.empty() ? 0 : tickets.back().number;
    bfs::create_directories(lock::Layout(path).queue().whole());
    for (int i = 1; i <= count; ++i) {
      const Ticket ticket{last + static_cast<std::uint64_t>(i), Mode::exclusive,
                          uid(numbered(word, i))};
      write_file(tickets_.path(ticket).native(), text);
    }
  }

  void hand_over() { REQUIRE(lock_.unlock().outcome == Outcome::released); }
  void join() { threads_.clear(); }

  std::vector<Ticket> in_line() const {
    std::error_code ec;
    return tickets_.list(ec);
  }
  bool is_in_line(const std::string& id) const {
    const auto all = in_line();
    return std::any_of(all.begin(), all.end(), [&](const Ticket& t) { return t.id == uid(id); });
  }
  const std::vector<std::string>& granted() const { return granted_; }

  /// File operations of all who came.
  int calls() const {
    int sum = 0;
    for (const FaultDisk& disk : disks_) sum += disk.calls();
    return sum;
  }

  const TempDir dir;
  const std::string path = dir / "lock";

 private:
  const Holder first_ = someone("first");
  RwLock lock_{path, first_};
  lock::Tickets tickets_{disk::posix(), lock::Layout(path)};
  std::mutex mutex_;
  std::vector<std::string> granted_;
  std::deque<FaultDisk> disks_;
  std::vector<std::jthread> threads_;
};

std::vector<std::string> tickets_of(const Scene& scene) {
  std::vector<std::string> paths;
  const lock::Tickets tickets(disk::posix(), lock::Layout(scene.path));
  for (const Ticket& ticket : scene.in_line()) paths.push_back(tickets.path(ticket).native());
  return paths;
}

/// Throws when its turn has come.
class ThrowingGoal final : public Goal {
 public:
  explicit ThrowingGoal(bool is_at_watch) : is_at_watch_(is_at_watch) {}

  lock::Answer try_once() override {
    if (was_in_line) throw std::runtime_error("attempt");
    return {Outcome::contended, {}};
  }
  void watch(disk::Watch&) override {
    was_in_line = true;
    if (is_at_watch_) throw std::runtime_error("watch");
  }
  void yield() override { has_yielded = true; }

  bool was_in_line = false;
  bool has_yielded = false;

 private:
  bool is_at_watch_;
};

/// File operations of five waiters from the first unlock to the last, with that many in line.
double calls_per_hand_over(int in_line) {
  constexpr int kReal = 5;
  Scene scene;
  for (int i = 0; i < kReal; ++i) scene.arrive(numbered("w", i));
  scene.add_tickets("x", in_line - kReal);
  const int before = scene.calls();
  scene.hand_over();
  scene.join();
  REQUIRE(scene.granted().size() == kReal);
  CHECK(scene.in_line().size() == static_cast<std::size_t>(in_line - kReal));
  return static_cast<double>(scene.calls() - before) / kReal;
}

}  // namespace

TEST_CASE("adversarial 8: fifty who come one after the other are served in that order",
          "[composite][line][adversarial-8]") {
  Scene scene;
  std::vector<std::string> came;
  for (int i = 0; i < 50; ++i) {
    came.push_back(numbered("w", (i * 37) % 50));  // not in the order of their names
    scene.arrive(came.back());
  }
  scene.hand_over();
  scene.join();
  CHECK(scene.granted() == came);
  CHECK_FALSE(bfs::exists(scene.path));
}

TEST_CASE("a hand-over costs no more file operations in a long line than in a short one",
          "[composite][line]") {
  const auto least = [](int in_line) {  // who looks between two steps of another looks twice
    double calls = calls_per_hand_over(in_line);
    for (int i = 0; i < 2; ++i) calls = std::min(calls, calls_per_hand_over(in_line));
    return calls;
  };
  const double few = least(10);
  const double many = least(10'000);
  std::cout << "file operations per hand-over: " << few << " of 10 in line, " << many
            << " of 10000\n";
  CHECK(many <= 1.5 * few);
}

TEST_CASE("adversarial 7: a waiter that is killed at any write holds up nobody",
          "[composite][line][crash][adversarial-7]") {
  const bool is_behind = GENERATE(false, true);  // somebody else, who lives
  for (int survive = 0;; ++survive) {
    Scene scene;
    if (is_behind) scene.arrive("before");
    FaultDisk disk;
    disk.stop_after(survive);
    const Holder victim = someone("dead");
    bool was_killed = false;
    try {
      RwLock(scene.path, victim, Order::fair, disk).acquire(Mode::exclusive, Patience::of(30ms));
    } catch (const Crash&) {
      was_killed = true;
    }
    if (!was_killed) {
      CHECK(survive > 0);
      break;
    }
    INFO("killed before: " << disk.last_hit());
    scene.arrive("after");
    scene.hand_over();
    scene.join();
    CHECK(scene.granted() == (is_behind ? std::vector<std::string>{"before", "after"}
                                        : std::vector<std::string>{"after"}));
  }
}

TEST_CASE("adversarial 7: who is killed when its turn comes holds up nobody",
          "[composite][line][crash][adversarial-7]") {
  for (int survive = 0;; ++survive) {
    Scene scene;
    FaultDisk disk;
    disk.stop_after(survive);
    const Holder victim = someone("dead");
    std::atomic<bool> was_killed = false;
    {
      std::jthread thread([&] {
        try {
          RwLock(scene.path, victim, Order::fair, disk).acquire(Mode::exclusive, Patience::of(60s));
        } catch (const Crash&) {
          was_killed = true;
        }
      });
      (void)eventually([&] { return was_killed || scene.is_in_line("dead"); });
      scene.hand_over();
    }
    if (!was_killed) {
      CHECK(survive > 0);
      break;
    }
    INFO("killed before: " << disk.last_hit());
    const Holder next = someone("next");
    RwLock lock(scene.path, next);
    CHECK(lock.acquire(Mode::exclusive, Patience::of(20s)).outcome == Outcome::held);
    CHECK(lock.unlock().outcome == Outcome::released);
  }
}

TEST_CASE("adversarial 7: ten thousand tickets of the dead hold up nobody for long",
          "[composite][line][adversarial-7]") {
  constexpr int kDead = 10'000;
  Scene scene;
  const bool is_behind = GENERATE(false, true);  // of one who lives, before them
  if (is_behind) scene.arrive("before");
  scene.add_tickets("dead", kDead);
  const int before = scene.calls();
  scene.arrive("after");
  REQUIRE(eventually([&] { return scene.in_line().size() <= 2; }, 90s));
  std::cout << "file operations per dead ticket: "
            << static_cast<double>(scene.calls() - before) / kDead << "\n";
  CHECK(scene.calls() - before <= 12 * kDead);
  scene.hand_over();
  scene.join();
  CHECK(scene.granted().back() == "after");
}

TEST_CASE("who cannot take a dead one out of the line sleeps between two attempts",
          "[composite][line]") {
  Scene scene;
  scene.add_tickets("dead", 1);
  FaultDisk disk;
  disk.refuse("unlink " + tickets_of(scene).front(), EACCES);
  const Holder holder = someone("after");
  RwLock lock(scene.path, holder, Order::fair, disk);
  CHECK(lock.acquire(Mode::exclusive, Patience::of(500ms)).outcome == Outcome::contended);
  CHECK(disk.was_hit());
  CHECK(disk.calls() < 2000);
  CHECK(tickets_of(scene).size() == 1);
}

TEST_CASE("whatever comes out of a goal, no ticket is left and all is given back",
          "[composite][line]") {
  const bool is_at_watch = GENERATE(false, true);
  const TempDir dir;
  const Holder holder = someone("self");
  ThrowingGoal goal(is_at_watch);
  Line line(disk::posix(), dir / "lock", holder, Order::fair);
  CHECK_THROWS_AS(line.stand(Mode::exclusive, Patience::of(10s), goal), std::runtime_error);
  CHECK(goal.was_in_line);
  CHECK(goal.has_yielded);
  CHECK_FALSE(bfs::exists(dir / "lock"));
}

namespace {

/// Whether the process is in the call that waiters sleep in.
bool is_polling(const std::string& pid) {
  return read_file("/proc/" + pid + "/syscall").starts_with(std::to_string(SYS_ppoll) + " ");
}

}  // namespace

TEST_CASE("a waiter that sleeps makes at most one system call a second", "[composite][line]") {
  if (kIsSanitized) SKIP_TEST("a sanitizer makes calls of its own");
  if (!has_program("strace")) SKIP_TEST("no strace");
  constexpr int kSeconds = 12;
  const TempDir dir;
  const std::string path = dir / "lock";
  const Process holder(kSleeper), one(kSleeper), two(kSleeper);
  REQUIRE(run({"fair_lock", "lock", path, holder.pid_text()}).code == 0);
  const auto wait_as = [&](const Process& process) {
    return std::vector<std::string>{tool("fair_lock"), "--wait", "100", "lock", path,
                                    process.pid_text()};
  };
  const auto are_in_line = [&](std::size_t count) {
    std::error_code ec;
    return lock::Tickets(disk::posix(), lock::Layout(path)).list(ec).size() == count;
  };
  const Process first(wait_as(one));
  REQUIRE(eventually([&] { return are_in_line(1); }));
  const Process second(wait_as(two));
  REQUIRE(eventually([&] { return are_in_line(2); }));
  for (const Process* waiter : {&first, &second}) {
    REQUIRE(eventually([&] { return is_polling(waiter->pid_text()); }));
    const std::string trace = dir / ("trace." + waiter->pid_text());
    const auto traced = run({"timeout", "--signal=INT", std::to_string(kSeconds), "strace", "-f",
                             "-o", trace, "-p", waiter->pid_text()});
    INFO(traced.err);
    REQUIRE(traced.err.find("attached") != std::string::npos);
    const std::string calls = read_file(trace);
    INFO(calls);
    const auto count = std::count(calls.begin(), calls.end(), '\n');
    CHECK(count >= 1);  // the sleep itself
    CHECK(count <= kSeconds);
  }
}
