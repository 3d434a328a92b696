/// Those who wait in line for one lock: that each gets its turn, and what they do while they sleep.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <mutex>
#include <thread>

#include "composite/fair_semaphore.h"
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

namespace {

/// Knows who is dead, and counts how often it is asked.
class Judge final : public identity::Checker {
 public:
  identity::Verdict check(const Uid& id, const std::optional<Record>&) const override {
    ++asked;
    const bool is_dead = id.str().starts_with("dead");
    return {is_dead ? identity::Life::dead : identity::Life::alive, "so it is called"};
  }
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }

  mutable std::atomic<int> asked = 0;
};

identity::Identity identity_of(const Process& process) {
  std::string why;
  auto identity = identity::LocalId(disk::posix()).identify(process.pid_text(), why);
  if (!identity) throw std::runtime_error(why);
  return *identity;
}

/// A lock that is held from the start, and those who come for it.
class Crowd {
 public:
  Crowd() { REQUIRE(lock_.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held); }
  ~Crowd() {
    (void)lock_.unlock();
    join();
  }

  /// An id of this process: its record names none, or all would be one and the same.
  Holder holder(const std::string& id) const {
    std::string why;
    const auto process = Holder::this_process(why);
    if (!process) throw std::runtime_error(why);
    identity::Identity self{uid(id), process->self.record};
    self.record.pid = 0;
    return {self, process->waiter, judge};
  }

  /// In a thread of its own: waits, writes itself down, and unlocks. Returns when it is in line.
  void arrive(const std::string& id, Mode mode, Order order) {
    threads_.emplace_back([this, id, mode, order] {
      const Holder self = holder(id);
      RwLock lock(path, self, order);
      const auto guard = lock.hold(mode, Patience::of(10s));
      const std::scoped_lock one(mutex_);
      granted_ += guard ? id : "-";
    });
    REQUIRE(eventually([&] { return is_in_line(id); }));
  }

  bool is_in_line(const std::string& id) const {
    std::error_code ec;
    const auto all = lock::Tickets(disk::posix(), lock::Layout(path)).list(ec);
    return std::any_of(all.begin(), all.end(), [&](const Ticket& t) { return t.id == uid(id); });
  }

  /// The first ticket, of one that is to hold and for whom this process waits.
  std::string add_ticket(const identity::Identity& other) const {
    const lock::Tickets tickets(disk::posix(), lock::Layout(path));
    const std::string name = tickets.path({1, Mode::exclusive, other.uid}).native();
    boost::filesystem::create_directories(lock::Layout(path).queue().whole());
    write_file(name, to_line(other.record) + first_.waiter.uid.str() + "\n" +
                         to_line(first_.waiter.record));
    return name;
  }
  std::string add_dead() const { return add_ticket(holder("dead").self); }

  void hand_over() { REQUIRE(lock_.unlock().outcome == Outcome::released); }
  void join() { threads_.clear(); }
  const std::string& granted() const { return granted_; }

  const TempDir dir;
  const std::string path = dir / "lock";
  const std::shared_ptr<Judge> judge = std::make_shared<Judge>();

 private:
  const Holder first_ = holder("first");
  RwLock lock_{path, first_};
  std::mutex mutex_;
  std::string granted_;
  std::vector<std::jthread> threads_;
};

}  // namespace

TEST_CASE("some prefer writers and some do not: everybody has its turn", "[composite][line]") {
  // R reads, W writes; small letters prefer writers
  const std::string came = GENERATE("rW", "rwW", "rWw", "rRW", "RrWr", "WrWRwr");
  CAPTURE(came);
  Crowd crowd;
  std::string all;
  for (const char c : came) {
    const bool prefers = c == 'r' || c == 'w';
    const char id = static_cast<char>('a' + all.size());
    all += id;
    crowd.arrive({id}, c == 'r' || c == 'R' ? Mode::shared : Mode::exclusive,
                 prefers ? Order::prefer_writers : Order::fair);
  }
  crowd.hand_over();
  crowd.join();
  const std::string granted = crowd.granted();
  CAPTURE(granted);
  CHECK(std::is_permutation(granted.begin(), granted.end(), all.begin(), all.end()));
  for (std::size_t r = 0; r < came.size(); ++r) {
    for (std::size_t w = 0; w < came.size() && came[r] == 'r'; ++w) {
      if (came[w] == 'W' || came[w] == 'w') CHECK(granted.find(all[w]) < granted.find(all[r]));
    }
  }
}

TEST_CASE("an id that is too long for a ticket is refused, and leaves nothing",
          "[composite][line]") {
  const std::size_t length = GENERATE(243, 251, 255);  // fits new.<id>, just fits, not even that
  Crowd crowd;
  const auto before = tree(crowd.path);
  const Holder self = crowd.holder(std::string(length, 'x'));
  RwLock lock(crowd.path, self);
  const lock::Answer answer = lock.acquire(Mode::exclusive, Patience::of(5s));
  CHECK(answer.outcome == Outcome::failed);
  CHECK(answer.why == "cannot get in line in " + crowd.path + "/.queue: File name too long");
  CHECK(tree(crowd.path) == before);
}

TEST_CASE("a ticket whose rename was not done is none, whatever a look at it says",
          "[composite][line]") {
  Crowd crowd;
  FaultDisk disk;
  disk.refuse("0000000001.w.self", EIO);
  lock::Tickets tickets(disk, lock::Layout(crowd.path));
  std::error_code ec;
  CHECK_FALSE(tickets.take(uid("self"), Mode::exclusive, "", ec));
  CHECK(disk.was_hit());
  CHECK(ec == std::errc::io_error);
  CHECK_FALSE(boost::filesystem::exists(lock::Layout(crowd.path).queue().whole()));
}

TEST_CASE("the ticket of a dead one that cannot be read is judged by its name",
          "[composite][line]") {
  const int error = GENERATE(EACCES, EIO);
  Crowd crowd;
  const std::string dead = crowd.add_dead();
  crowd.hand_over();
  FaultDisk disk;
  disk.refuse("open_file " + dead, error);
  const Holder self = crowd.holder("self");
  RwLock lock(crowd.path, self, Order::fair, disk);
  CHECK(lock.acquire(Mode::exclusive, Patience::of(5s)).outcome == Outcome::held);
  CHECK(disk.was_hit());
  CHECK(lock.unlock().outcome == Outcome::released);
}

TEST_CASE("one that waits and cannot be watched is looked at from time to time",
          "[composite][line]") {
  Crowd crowd;
  crowd.arrive("before", Mode::exclusive, Order::fair);
  FaultDisk disk;
  disk.refuse("open_file " + lock::Layout(crowd.path).queue().native(), EACCES);
  const auto judge = std::make_shared<Judge>();
  Holder self = crowd.holder("self");
  self.checker = judge;
  RwLock lock(crowd.path, self, Order::fair, disk);
  CHECK(lock.acquire(Mode::exclusive, Patience::of(500ms)).outcome == Outcome::contended);
  CHECK(judge->asked > 3);
  CHECK(judge->asked < 50);
}

TEST_CASE("with a grace of 0 those who wait do not ask without a pause", "[composite][line]") {
  const Mode mode = GENERATE(Mode::exclusive, Mode::shared);  // several watch one ticket
  Crowd crowd;
  crowd.arrive("before", Mode::exclusive, Order::fair);
  const auto judge = std::make_shared<Judge>();
  std::vector<std::jthread> threads;
  for (const char* id : {"one", "two"}) {
    threads.emplace_back([&, id] {
      Holder self = crowd.holder(id);
      self.checker = judge;
      self.grace = 0s;
      (void)RwLock(crowd.path, self).acquire(mode, Patience::of(500ms));
    });
  }
  threads.clear();
  CHECK(judge->asked > 2);
  CHECK(judge->asked < 100);
}

TEST_CASE("a ticket is asked about when it was left in peace for a grace, or is of the future",
          "[composite][line]") {
  const auto [age, is_due] = GENERATE(
      table<std::chrono::seconds, bool>({{0s, false}, {30s, false}, {100s, true}, {-1000s, true}}));
  CAPTURE(age.count());
  Crowd crowd;
  const std::string dead = crowd.add_dead();
  crowd.hand_over();
  boost::filesystem::last_write_time(
      dead, std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() - age));
  Holder self = crowd.holder("self");
  self.grace = 60s;
  RwLock lock(crowd.path, self);
  const Outcome outcome = lock.acquire(Mode::exclusive, Patience::of(100ms)).outcome;
  CHECK(outcome == (is_due ? Outcome::held : Outcome::contended));
  CHECK((crowd.judge->asked > 0) == is_due);
}

TEST_CASE("one that was asked about is left in peace for a grace", "[composite][line]") {
  Crowd crowd;
  crowd.arrive("before", Mode::exclusive, Order::fair);
  const std::string before = (lock::Layout(crowd.path).queue() / "0000000001.w.before").native();
  boost::filesystem::last_write_time(before, 1);
  const auto judge = std::make_shared<Judge>();
  FaultDisk disk;
  Holder self = crowd.holder("self");
  self.checker = judge;
  self.grace = 60s;
  RwLock lock(crowd.path, self, Order::fair, disk);
  CHECK(lock.acquire(Mode::exclusive, Patience::of(300ms)).outcome == Outcome::contended);
  CHECK(judge->asked == 1);
}

TEST_CASE("a process that ended and is not reaped keeps nobody awake through its grace",
          "[composite][line]") {
  const bool is_holder = GENERATE(true, false);  // or one in line
  CAPTURE(is_holder);
  Crowd crowd;
  const Process child(kSleeper);
  const auto other = identity_of(child);
  if (is_holder) {
    crowd.hand_over();
    lock::FastLock lock(disk::posix(), crowd.path);
    REQUIRE(lock.lock(other.uid, other.record).outcome == Outcome::held);
  } else {
    crowd.add_ticket(other);
  }
  child.signal(SIGKILL);
  FaultDisk disk;
  Holder self = crowd.holder("self");
  self.grace = 60s;
  RwLock lock(crowd.path, self, Order::fair, disk);
  CHECK(lock.acquire(Mode::exclusive, Patience::of(500ms)).outcome == Outcome::contended);
  CHECK(disk.calls() < 1000);
}

TEST_CASE("a slot that comes while somebody gets ready to sleep wakes it when it is free again",
          "[composite][line]") {
  const Process one(kSleeper), other(kSleeper), third(kSleeper);
  const auto judge = std::make_shared<Judge>();
  const Holder keeper{identity_of(one), identity_of(one), judge};
  const Holder barger{identity_of(other), identity_of(other), judge};
  const Holder self{identity_of(third), identity_of(third), judge};
  for (int n = 0;; ++n) {
    const TempDir dir;
    const std::string path = dir / "semaphore";
    FairSemaphore kept(path, keeper);
    FairSemaphore barged(path, barger);
    REQUIRE(kept.acquire(2, 1, Patience::none()).outcome == Outcome::held);
    Taken taken = barged.slots().acquire(2, Semaphore::Again::allowed);
    REQUIRE(taken.is_held());
    std::mutex mutex;
    bool is_asleep = false;
    bool was_between = false;
    FaultDisk inner;
    inner.before(n, [&] {  // it goes, the waiter makes one call, and it comes
      const std::scoped_lock one(mutex);
      if (is_asleep) return;
      was_between = true;
      (void)barged.slots().release(taken.slot);
    });
    FaultDisk outer(static_cast<disk::Disk&>(inner));
    outer.before(n + 1, [&] {
      const std::scoped_lock one(mutex);
      if (!is_asleep) taken = barged.slots().acquire(2, Semaphore::Again::allowed);
    });
    lock::Answer answer{Outcome::failed, {}};
    const auto begin = std::chrono::steady_clock::now();
    {
      const std::jthread thread(
          [&] { answer = FairSemaphore(path, self, outer).acquire(2, 1, Patience::of(25s)); });
      int calls = 0;
      int same = 0;
      REQUIRE(eventually([&] {
        same = std::exchange(calls, outer.calls()) == calls && calls > 0 ? same + 1 : 0;
        return same == 4;
      }));
      const std::scoped_lock one(mutex);
      is_asleep = true;
      if (taken.is_held()) (void)barged.slots().release(taken.slot);
    }
    INFO("before " << inner.last_hit() << " and " << outer.last_hit());
    CHECK(answer.outcome == Outcome::held);
    CHECK(std::chrono::steady_clock::now() - begin < 20s);  // its last look is when patience ends
    if (!was_between) break;
  }
}

namespace {

/// Goes on by 10 ms each time somebody looks at it.
class TickingClock final : public Clock {
 public:
  std::chrono::system_clock::time_point wall() const override { return real_clock().wall(); }
  std::chrono::nanoseconds boot() const override { return now_ += 10ms; }

 private:
  mutable std::chrono::nanoseconds now_{0};
};

int calls_for_permits(std::uint32_t permits) {
  const TempDir dir;
  std::string why;
  const auto self = Holder::this_process(why);
  FaultDisk disk;
  FairSemaphore semaphore(dir / "semaphore", *self, disk);
  CHECK(semaphore.acquire(permits, permits, Patience::none()).outcome == Outcome::held);
  CHECK(semaphore.slots().slots_held().size() == permits);
  CHECK(semaphore.release().outcome == Outcome::released);
  return disk.calls();
}

}  // namespace

TEST_CASE("many permits cost file operations in proportion to their number", "[composite][line]") {
  const int few = calls_for_permits(20);
  const int many = calls_for_permits(400);
  CAPTURE(few, many);
  CHECK(many <= 21 * few);
}

TEST_CASE("whoever takes many permits looks at its patience and at signals meanwhile",
          "[composite][line]") {
  const bool is_stopped = GENERATE(false, true);  // or patience is over
  const bool waits = GENERATE(true, false);
  if (!is_stopped && !waits) return;
  CAPTURE(is_stopped, waits);
  constexpr std::uint32_t kPermits = 5000;
  const TempDir dir;
  std::string why;
  const auto self = Holder::this_process(why);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const disk::Handle stop(pipe[0]), other(pipe[1]);
  if (is_stopped) REQUIRE(write(other.fd(), "!", 1) == 1);
  const TickingClock ticking;
  const auto patience = is_stopped ? Patience::of(waits ? 100s : 0s, stop.fd())
                                   : Patience::of(300ms, stop.fd(), ticking);
  FairSemaphore semaphore(dir / "semaphore", *self);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(semaphore.acquire(kPermits, kPermits, patience).outcome == Outcome::contended);
  CHECK(semaphore.was_stopped() == is_stopped);
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  CHECK_FALSE(boost::filesystem::exists(dir / "semaphore"));
}

TEST_CASE("an old listing with a ticket that is gone does not keep anybody from giving up",
          "[composite][line]") {
  const bool is_stopped = GENERATE(false, true);  // or patience is over
  Crowd crowd;
  const std::string gone = crowd.add_ticket(crowd.holder("gone").self);
  FaultDisk disk;
  disk.refuse("status " + gone, ENOENT);
  std::array<int, 2> pipe{};
  REQUIRE(::pipe(pipe.data()) == 0);
  const disk::Handle stop(pipe[0]);
  {
    const disk::Handle other(pipe[1]);
    if (is_stopped) REQUIRE(write(other.fd(), "!", 1) == 1);
    const Holder self = crowd.holder("self");
    RwLock lock(crowd.path, self, Order::fair, disk);
    const auto patience = Patience::of(is_stopped ? 100s : 200ms, stop.fd());
    CHECK(lock.acquire(Mode::exclusive, patience).outcome == Outcome::contended);
    CHECK(lock.was_stopped() == is_stopped);
  }
  CHECK(disk.was_hit());
  CHECK(disk.calls() < 500);
}
