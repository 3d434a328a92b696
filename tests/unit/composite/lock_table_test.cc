#include "composite/lock_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <random>
#include <stdexcept>
#include <thread>

using namespace holdfast::composite;
using namespace std::chrono_literals;
using Guard = LockTable::Guard;
using Answer = LockTable::Answer;

namespace {

using Ids = std::vector<std::int64_t>;
using Calls = std::vector<std::string>;

constexpr Mode kShared = Mode::shared;
constexpr Mode kExclusive = Mode::exclusive;

/// Something a storage may throw that no catch of std::exception sees.
struct Oddity {};

bool wait_for(const std::function<bool()>& happened) {
  const auto end = std::chrono::steady_clock::now() + 60s;
  while (!happened()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Where a thread inside the storage is kept until the test has seen enough.
class Gate {
 public:
  void pass() {
    ++arrived_;
    wait_for([this] { return open_.load(); });
  }
  bool wait_for_arrival() {
    return wait_for([this] { return arrived_ > 0; });
  }
  int arrived() const { return arrived_; }
  void open() { open_ = true; }

 private:
  std::atomic<int> arrived_{0};
  std::atomic<bool> open_{false};
};

/// Writes down what it is asked, and answers as the test wants.
class FakeStorage final : public LockStorage {
 public:
  std::function<Opened(std::int64_t)> on_open;  ///< none: a hold
  std::function<std::optional<Failure>(std::int64_t)> on_close = [](auto) { return std::nullopt; };

  Opened open(std::int64_t dataset, Mode mode) override {
    note("open " + std::to_string(dataset) + ' ' + std::string(to_word(mode)));
    if (on_open) return on_open(dataset);
    return hold(dataset);
  }

  std::unique_ptr<StorageHold> hold(std::int64_t dataset) {
    struct Hold final : StorageHold {
      Hold(FakeStorage& of, std::int64_t id) : storage(of), dataset(id) { ++storage.holds_; }
      ~Hold() override { --storage.holds_; }
      std::optional<Failure> close() override {
        storage.note("close " + std::to_string(dataset));
        return storage.on_close(dataset);
      }
      FakeStorage& storage;
      std::int64_t dataset;
    };
    return std::make_unique<Hold>(*this, dataset);
  }

  /// Since the last look.
  Calls calls() {
    const std::lock_guard lock(mutex_);
    return std::exchange(calls_, {});
  }
  int holds() const { return holds_; }

 private:
  void note(std::string call) {
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
  }

  std::mutex mutex_;
  Calls calls_;
  std::atomic<int> holds_{0};
};

Guard held(Answer answer) {
  REQUIRE(std::holds_alternative<Guard>(answer));
  return std::move(std::get<Guard>(answer));
}

bool is_held(const Answer& answer) {
  return std::holds_alternative<Guard>(answer);
}

std::string text(const Answer& answer) {
  if (const auto* busy = std::get_if<AlreadyLocked>(&answer)) return describe(*busy);
  if (const auto* failed = std::get_if<StorageFailed>(&answer)) return describe(*failed);
  return "held";
}

HeldHere holder_here(const Answer& answer) {
  REQUIRE(std::holds_alternative<AlreadyLocked>(answer));
  const auto& holder = std::get<AlreadyLocked>(answer).holder;
  REQUIRE(std::holds_alternative<HeldHere>(holder));
  return std::get<HeldHere>(holder);
}

/// How many ask for a dataset that is being opened; nothing if it is not.
std::optional<std::size_t> askers(LockTable& table, std::int64_t dataset) {
  const Answer answer = table.lock(dataset, kExclusive);
  const auto* busy = std::get_if<AlreadyLocked>(&answer);
  const auto* here = busy ? std::get_if<HeldHere>(&busy->holder) : nullptr;
  return here && here->is_opening ? std::optional(here->count) : std::nullopt;
}

std::string ids_json(const LockTable& table) {
  return to_ids_json(table.status());
}

const std::string kIdle = to_ids_json({});

std::string failures_json(const std::string& ids) {
  return R"({"opsQueue":[],"lockCount":0,"locks":[],"failures":[)" + ids + "]}";
}

}  // namespace

// The table of answers.

TEST_CASE("shared holds count up on one storage hold, which the last one closes", "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  Guard first = held(table.lock(7, kShared));
  Guard second = held(table.lock(7, kShared));
  Guard third = held(table.lock(7, kShared));
  CHECK(storage.calls() == Calls{"open 7 SHARED"});
  CHECK(
      ids_json(table) ==
      R"({"opsQueue":[],"lockCount":1,"locks":[{"id":7,"type":"SHARED","count":3}],"failures":[]})");
  first.release();
  third.release();
  CHECK(storage.calls().empty());
  CHECK(second.release());
  CHECK(storage.calls() == Calls{"close 7"});
  CHECK(storage.holds() == 0);
  CHECK(ids_json(table) == kIdle);
}

TEST_CASE("only shared beside shared is granted, and a refusal names mode and count",
          "[composite]") {
  const auto [first, second, is_granted] = GENERATE(table<Mode, Mode, bool>({
      {kShared, kShared, true},
      {kShared, kExclusive, false},
      {kExclusive, kShared, false},
      {kExclusive, kExclusive, false},
  }));
  FakeStorage storage;
  LockTable table(storage);
  Guard guard = held(table.lock(7, first));
  {
    const Answer answer = table.lock(7, second);
    CHECK(is_held(answer) == is_granted);
    if (!is_granted) {
      const HeldHere holder = holder_here(answer);
      CHECK(holder.mode == first);
      CHECK(holder.count == 1);
      CHECK_FALSE(holder.is_opening);
      CHECK(text(answer) ==
            "dataset 7 is locked " + std::string(to_word(first)) + " by this program, 1 hold");
    }
    CHECK(storage.calls().size() == 1);
  }
  guard.release();
  CHECK(is_held(table.lock(7, kExclusive)));
}

TEST_CASE("the type of a hold is fixed by the first one until the last one goes", "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  Guard first = held(table.lock(7, kShared));
  Guard second = held(table.lock(7, kShared));
  first.release();
  CHECK(holder_here(table.lock(7, kExclusive)).count == 1);
  second.release();
  const Guard writer = held(table.lock(7, kExclusive));
  CHECK(table.status().locks.at(0).mode == kExclusive);
}

TEST_CASE("one dataset does not hinder another", "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  const Guard low = held(table.lock(INT64_MIN, kExclusive));
  const Guard high = held(table.lock(INT64_MAX, kExclusive));
  const Guard zero = held(table.lock(0, kShared));
  CHECK(ids_json(table) == R"({"opsQueue":[],"lockCount":3,"locks":[)"
                           R"({"id":-9223372036854775808,"type":"EXCLUSIVE","count":1},)"
                           R"({"id":0,"type":"SHARED","count":1},)"
                           R"({"id":9223372036854775807,"type":"EXCLUSIVE","count":1}],)"
                           R"("failures":[]})");
}

TEST_CASE("a storage without locking leaves the table to decide alone", "[composite]") {
  FakeStorage storage;
  storage.on_open = [](auto) { return Opened(); };
  LockTable table(storage);
  Guard guard = held(table.lock(7, kShared));
  CHECK_FALSE(is_held(table.lock(7, kExclusive)));
  CHECK(guard.release());
  CHECK(is_held(table.lock(7, kExclusive)));
  CHECK(storage.calls() == Calls{"open 7 SHARED", "open 7 EXCLUSIVE"});
  CHECK(ids_json(table) == kIdle);
}

TEST_CASE("held outside is AlreadyLocked with the storage's word for the holder", "[composite]") {
  FakeStorage storage;
  storage.on_open = [](auto) { return Opened(HeldOutside{"pid 42 (make) of anna on build7"}); };
  LockTable table(storage);
  const Answer answer = table.lock(7, kShared);
  REQUIRE(std::holds_alternative<AlreadyLocked>(answer));
  CHECK(std::get<AlreadyLocked>(answer).dataset == 7);
  CHECK(text(answer) == "dataset 7 is locked by pid 42 (make) of anna on build7");
  CHECK(ids_json(table) == kIdle);
  storage.on_open = nullptr;
  CHECK(is_held(table.lock(7, kExclusive)));
}

TEST_CASE("a storage that fails is another answer, with its reason", "[composite]") {
  FakeStorage storage;
  storage.on_open = [](auto) {
    return Opened(Failure{std::make_error_code(std::errc::io_error), ""});
  };
  LockTable table(storage);
  const Answer answer = table.lock(7, kExclusive);
  REQUIRE(std::holds_alternative<StorageFailed>(answer));
  CHECK(std::get<StorageFailed>(answer).failure.code == std::errc::io_error);
  CHECK(text(answer) == "dataset 7 could not be locked: Input/output error");
  CHECK(ids_json(table) == kIdle);
  storage.on_open = nullptr;
  CHECK(is_held(table.lock(7, kExclusive)));
}

// Guards.

TEST_CASE("adversarial 11: a second release does nothing, also when another holds by then",
          "[composite][adversarial-11]") {
  FakeStorage storage;
  LockTable table(storage);
  Guard first = held(table.lock(7, kShared));
  Guard second = held(table.lock(7, kShared));
  first.release();
  first.release();
  CHECK(first.release());
  CHECK(table.status().locks.at(0).count == 1);
  second.release();
  const Guard writer = held(table.lock(7, kExclusive));
  second.release();
  first.release();
  CHECK(table.status().locks.size() == 1);
  CHECK(storage.calls() == Calls{"open 7 SHARED", "close 7", "open 7 EXCLUSIVE"});
}

TEST_CASE("a guard that is moved takes its hold along and releases what it held before",
          "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  {
    Guard first = held(table.lock(7, kExclusive));
    Guard moved = std::move(first);
    first.release();  // NOLINT(bugprone-use-after-move): a moved-from guard holds nothing
    CHECK(table.status().locks.size() == 1);
    CHECK(moved.datasets() == Ids{7});
    moved = held(table.lock(8, kExclusive));
    CHECK(storage.calls() == Calls{"open 7 EXCLUSIVE", "open 8 EXCLUSIVE", "close 7"});
    Guard& itself = moved;
    moved = std::move(itself);
    CHECK(moved.datasets() == Ids{8});
  }
  CHECK(storage.calls() == Calls{"close 8"});
  CHECK(ids_json(table) == kIdle);
}

// Collections.

TEST_CASE("adversarial 11: a collection is taken as given and released in reverse order",
          "[composite][adversarial-11]") {
  FakeStorage storage;
  LockTable table(storage);
  Guard guard = held(table.lock(Ids{5, 3, 9}, kExclusive));
  CHECK(guard.datasets() == Ids{5, 3, 9});
  CHECK(storage.calls() == Calls{"open 5 EXCLUSIVE", "open 3 EXCLUSIVE", "open 9 EXCLUSIVE"});
  CHECK(guard.release());
  CHECK(guard.datasets().empty());
  CHECK(storage.calls() == Calls{"close 9", "close 3", "close 5"});
}

TEST_CASE("an empty collection is granted and holds nothing", "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  Guard guard = held(table.lock(Ids{}, kExclusive));
  CHECK(guard.release());
  CHECK(storage.calls().empty());
}

TEST_CASE("a dataset twice in a collection refuses itself if exclusive and counts two if shared",
          "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  const HeldHere itself = holder_here(table.lock(Ids{5, 7, 7}, kExclusive));
  CHECK(itself.mode == kExclusive);
  CHECK(itself.count == 1);
  CHECK(ids_json(table) == kIdle);
  CHECK(storage.calls() == Calls{"open 5 EXCLUSIVE", "open 7 EXCLUSIVE", "close 7", "close 5"});
  Guard guard = held(table.lock(Ids{7, 5, 7}, kShared));
  CHECK(table.status().locks.at(1).count == 2);
  CHECK(storage.calls() == Calls{"open 7 SHARED", "open 5 SHARED"});
  guard.release();
  CHECK(storage.calls() == Calls{"close 5", "close 7"});
  CHECK(ids_json(table) == kIdle);
}

TEST_CASE(
    "adversarial 11: a collection that the storage stops at any place is given back in reverse "
    "order",
    "[composite][adversarial-11]") {
  const Ids datasets{4, 1, 3, 2};
  const std::size_t k = GENERATE(0u, 1u, 2u, 3u);
  const std::string how = GENERATE("held outside", "failed", "exception", "no std::exception");
  const Mode mode = GENERATE(kShared, kExclusive);
  CAPTURE(k, how, mode);
  FakeStorage storage;
  LockTable table(storage);
  std::string seen_inside;
  storage.on_open = [&](std::int64_t dataset) -> Opened {
    if (dataset != datasets[k]) return storage.hold(dataset);
    seen_inside = ids_json(table);
    if (how == "held outside") return HeldOutside{"somebody"};
    if (how == "failed") return Failure{{}, "no space"};
    if (how == "exception") throw std::logic_error("a bug in the storage");
    throw Oddity();
  };
  if (how == "exception") {
    CHECK_THROWS_WITH(table.lock(datasets, mode), "a bug in the storage");
  } else if (how == "no std::exception") {
    CHECK_THROWS_AS(table.lock(datasets, mode), Oddity);
  } else {
    CHECK(text(table.lock(datasets, mode)) ==
          "dataset " + std::to_string(datasets[k]) +
              (how == "failed" ? " could not be locked: no space" : " is locked by somebody"));
  }

  Calls expected;
  for (std::size_t i = 0; i <= k; ++i)
    expected.push_back("open " + std::to_string(datasets[i]) + ' ' + std::string(to_word(mode)));
  for (std::size_t i = k; i-- > 0;) expected.push_back("close " + std::to_string(datasets[i]));
  CHECK(storage.calls() == expected);
  CHECK(storage.holds() == 0);
  CHECK(ids_json(table) == kIdle);
  Status before;
  for (std::size_t i = 0; i < k; ++i)
    before.locks.push_back({std::to_string(datasets[i]), mode, 1});
  std::sort(before.locks.begin(), before.locks.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  CHECK(seen_inside == to_ids_json(before));

  storage.on_open = nullptr;
  CHECK(is_held(table.lock(datasets, kExclusive)));
}

TEST_CASE("a collection refused by the table keeps the hold that refused it", "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  const Guard reader = held(table.lock(2, kShared));
  CHECK_FALSE(is_held(table.lock(Ids{1, 2, 3}, kExclusive)));
  CHECK(storage.calls() == Calls{"open 2 SHARED", "open 1 EXCLUSIVE", "close 1"});
  const Guard more = held(table.lock(Ids{1, 2, 3}, kShared));
  CHECK(table.status().locks.at(1).count == 2);
}

TEST_CASE(
    "adversarial 11: a rollback whose close fails still goes on, and keeps that dataset in "
    "failures",
    "[composite][adversarial-11]") {
  FakeStorage storage;
  LockTable table(storage);
  storage.on_open = [&](std::int64_t dataset) -> Opened {
    if (dataset == 3) throw Oddity();
    return storage.hold(dataset);
  };
  storage.on_close = [](std::int64_t dataset) -> std::optional<Failure> {
    if (dataset == 2) throw std::runtime_error("close threw");
    return std::nullopt;
  };
  CHECK_THROWS_AS(table.lock(Ids{1, 2, 3}, kExclusive), Oddity);
  CHECK(storage.calls() ==
        Calls{"open 1 EXCLUSIVE", "open 2 EXCLUSIVE", "open 3 EXCLUSIVE", "close 2", "close 1"});
  CHECK(ids_json(table) == failures_json("2"));
  storage.on_close = [](auto) { return std::nullopt; };
}

// Closing.

TEST_CASE("adversarial 11: a close that fails or throws ends the hold, and reap tries it again",
          "[composite][adversarial-11]") {
  const std::string how = GENERATE("failed", "system_error", "exception", "no std::exception");
  CAPTURE(how);
  FakeStorage storage;
  LockTable table(storage);
  storage.on_close = [&](auto) -> std::optional<Failure> {
    if (how == "failed") return Failure{std::make_error_code(std::errc::io_error), "why"};
    if (how == "system_error")
      throw std::system_error(std::make_error_code(std::errc::io_error), "why");
    if (how == "exception") throw std::runtime_error("why");
    throw Oddity();
  };
  Guard guard = held(table.lock(7, kShared));
  CHECK_FALSE(guard.release());
  CHECK(guard.release());
  CHECK(ids_json(table) == failures_json("7"));
  if (how != "no std::exception")
    CHECK_THAT(table.status().failures.at(0).why, Catch::StartsWith("why"));
  CHECK(table.reap() == 1);
  CHECK(ids_json(table) == failures_json("7"));
  CHECK(storage.calls() == Calls{"open 7 SHARED", "close 7", "close 7"});

  storage.on_close = [](auto) { return std::nullopt; };
  CHECK(table.reap() == 0);
  CHECK(ids_json(table) == kIdle);
  CHECK(storage.holds() == 0);
  CHECK(table.reap() == 0);
  CHECK(storage.calls() == Calls{"close 7"});
}

TEST_CASE("the next lock of a dataset that was not closed closes it first", "[composite]") {
  FakeStorage storage;
  LockTable table(storage);
  storage.on_close = [](auto) { return Failure{{}, "the mount is gone"}; };
  held(table.lock(7, kExclusive)).release();
  (void)storage.calls();

  const Answer failed = table.lock(7, kShared);
  CHECK(text(failed) == "dataset 7 could not be locked: the mount is gone");
  CHECK(std::holds_alternative<StorageFailed>(failed));
  CHECK(storage.calls() == Calls{"close 7"});
  CHECK(ids_json(table) == failures_json("7"));
  CHECK(is_held(table.lock(8, kShared)));
  (void)storage.calls();

  storage.on_close = [](auto) { return std::nullopt; };
  const Guard guard = held(table.lock(7, kShared));
  CHECK(storage.calls() == Calls{"close 7", "open 7 SHARED"});
  CHECK(table.status().failures.size() == 1);  // of 8
}

TEST_CASE("the end of a table tries what was not closed a last time", "[composite]") {
  FakeStorage storage;
  {
    LockTable table(storage);
    storage.on_close = [](auto) { return Failure{{}, "busy"}; };
    held(table.lock(Ids{7, 8}, kShared)).release();
    (void)storage.calls();
  }
  CHECK(storage.calls() == Calls{"close 7", "close 8"});
  CHECK(storage.holds() == 0);
}

// Threads: the storage is called outside the mutex.

TEST_CASE("a slow storage call stops nobody who wants another dataset", "[composite][threads]") {
  FakeStorage storage;
  Gate opening;
  Gate closing;
  storage.on_open = [&](std::int64_t dataset) -> Opened {
    if (dataset == 7) opening.pass();
    return storage.hold(dataset);
  };
  storage.on_close = [&](std::int64_t dataset) -> std::optional<Failure> {
    if (dataset == 7) closing.pass();
    return std::nullopt;
  };
  LockTable table(storage);
  std::jthread slow([&] { (void)table.lock(7, kExclusive); });
  for (Gate* gate : {&opening, &closing}) {
    REQUIRE(gate->wait_for_arrival());
    CHECK(ids_json(table) == kIdle);
    Guard other = held(table.lock(Ids{8, 9}, kExclusive));
    CHECK(table.status().locks.size() == 2);
    CHECK(other.release());
    CHECK(table.reap() == 0);
    gate->open();
  }
  slow.join();
  CHECK(ids_json(table) == kIdle);
}

TEST_CASE(
    "adversarial 11: while a dataset is being opened, shared callers share that call and exclusive "
    "ones go",
    "[composite][threads][adversarial-11]") {
  using Row = std::tuple<std::string, std::string>;
  const auto [how, told] = GENERATE(table<std::string, std::string>({
      Row{"held", "held"},
      Row{"outside", "dataset 7 is locked by somebody"},
      Row{"failed", "dataset 7 could not be locked: no space"},
      Row{"threw",
          "dataset 7 could not be locked: the storage threw an exception at another caller"},
  }));
  CAPTURE(how);
  FakeStorage storage;
  Gate gate;
  storage.on_open = [&, how = how](std::int64_t dataset) -> Opened {
    gate.pass();
    if (how == "outside") return HeldOutside{"somebody"};
    if (how == "failed") return Failure{{}, "no space"};
    if (how == "threw") throw Oddity();
    return storage.hold(dataset);
  };
  LockTable table(storage);
  constexpr std::size_t kWaiters = 3;
  std::array<std::string, kWaiters> answers;
  bool has_thrown = false;
  Gate done;  // who holds goes on holding until all are counted
  std::size_t refused_with = 0;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      try {
        (void)table.lock(7, kShared);  // and released at once: the waiters' holds must not suffer
      } catch (const Oddity&) {
        has_thrown = true;
      }
    });
    REQUIRE(gate.wait_for_arrival());
    for (std::size_t i = 0; i < kWaiters; ++i) {
      threads.emplace_back([&, i] {
        const Answer answer = table.lock(7, kShared);
        answers[i] = text(answer);
        done.pass();
      });
    }
    const bool all_wait = wait_for([&] { return askers(table, 7) == kWaiters + 1; });
    refused_with = askers(table, 7).value_or(0);
    CHECK(all_wait);
    CHECK(text(table.lock(7, kExclusive)) ==
          "dataset 7 is just being locked SHARED by this program");
    CHECK(ids_json(table) == kIdle);
    gate.open();
    CHECK(wait_for([&] { return done.arrived() == kWaiters; }));
    if (how == "held") {
      CHECK(wait_for([&] { return table.status().locks.at(0).count == kWaiters; }));
    }
    done.open();
  }
  CHECK(refused_with == kWaiters + 1);
  CHECK(has_thrown == (how == "threw"));
  for (const std::string& answer : answers) CHECK(answer == told);
  CHECK(storage.calls() ==
        (how == "held" ? Calls{"open 7 SHARED", "close 7"} : Calls{"open 7 SHARED"}));
  CHECK(ids_json(table) == kIdle);
}

TEST_CASE("a dataset that is being closed can be locked again, once its close is over",
          "[composite][threads]") {
  const Mode before = GENERATE(kShared, kExclusive);
  const Mode after = GENERATE(kShared, kExclusive);
  const bool fails_once = GENERATE(false, true);
  CAPTURE(before, after, fails_once);
  FakeStorage storage;
  Gate gate;
  storage.on_close = [&](auto) -> std::optional<Failure> {
    const bool is_first = gate.arrived() == 0;
    gate.pass();
    return is_first && fails_once ? std::optional(Failure{{}, "busy"}) : std::nullopt;
  };
  LockTable table(storage);
  Guard guard = held(table.lock(7, before));
  bool was_closed = false;
  std::mutex mutex;
  std::vector<std::string> refusals;
  std::vector<Mode> grants;
  const auto refused = [&] {
    const std::lock_guard lock(mutex);
    return refusals;
  };
  {
    std::jthread closer([&] { was_closed = guard.release(); });
    REQUIRE(gate.wait_for_arrival());
    CHECK(ids_json(table) == kIdle);
    // Two that exclude each other: the one that comes second meets the first one, not the close.
    std::vector<std::jthread> rivals;
    for (const Mode mode : {after, kExclusive}) {
      rivals.emplace_back([&, mode] {
        const Answer answer = table.lock(7, mode);
        const std::lock_guard lock(mutex);
        if (is_held(answer)) {
          grants.push_back(mode);
        } else {
          refusals.push_back(text(answer));
        }
      });
    }
    CHECK(wait_for([&] { return refused().size() == 1; }));
    CHECK(storage.calls() == Calls{"open 7 " + std::string(to_word(before)), "close 7"});
    gate.open();
  }
  CHECK(was_closed != fails_once);
  REQUIRE(grants.size() == 1);
  const std::string granted(to_word(grants[0]));
  CHECK(refused() == Calls{"dataset 7 is just being locked " + granted + " by this program"});
  CHECK(storage.calls() == (fails_once ? Calls{"close 7", "open 7 " + granted, "close 7"}
                                       : Calls{"open 7 " + granted, "close 7"}));
  CHECK(ids_json(table) == kIdle);
}

TEST_CASE(
    "adversarial 11: a failure is told while its close is tried again, and reap leaves that one "
    "alone",
    "[composite][threads][adversarial-11]") {
  FakeStorage storage;
  LockTable table(storage);
  storage.on_close = [](auto) { return Failure{{}, "busy"}; };
  held(table.lock(7, kExclusive)).release();
  (void)storage.calls();
  Gate gate;
  storage.on_close = [&](auto) {
    gate.pass();
    return std::nullopt;
  };
  {
    std::jthread reaper([&] { table.reap(); });
    REQUIRE(gate.wait_for_arrival());
    CHECK(ids_json(table) == failures_json("7"));
    CHECK(table.reap() == 0);
    CHECK(storage.calls() == Calls{"close 7"});
    gate.open();
  }
  CHECK(ids_json(table) == kIdle);
}

namespace {

/// What several programs share: grants as a reader/writer lock does, and knows each program by one
/// name, so a hold that is closed late would take away a later one of the same program.
class SharedDisk {
 public:
  enum class Took { yes, busy, twice };

  Took take(int program, std::int64_t dataset, Mode mode) {
    const std::lock_guard lock(mutex_);
    auto& holders = holders_[dataset];
    if (holders.contains(program)) return Took::twice;
    for (const auto& [other, held] : holders) {
      if (mode == kExclusive || held == kExclusive) return Took::busy;
    }
    holders.emplace(program, mode);
    return Took::yes;
  }
  void give_back(int program, std::int64_t dataset) {
    const std::lock_guard lock(mutex_);
    holders_[dataset].erase(program);
  }
  std::size_t holders() {
    const std::lock_guard lock(mutex_);
    std::size_t count = 0;
    for (const auto& [dataset, holders] : holders_) count += holders.size();
    return count;
  }

 private:
  std::mutex mutex_;
  std::map<std::int64_t, std::map<int, Mode>> holders_;
};

/// One program's way to it, with everything going wrong now and then. Counts what a table must not
/// do to a storage.
class WildStorage final : public LockStorage {
 public:
  WildStorage(SharedDisk& disk, int program) : disk_(disk), program_(program) {}

  std::atomic<bool> is_wild{true};
  std::atomic<int> violations{0};

  Opened open(std::int64_t dataset, Mode mode) override {
    const Inside inside(*this, dataset);
    switch (is_wild ? dice() % 16 : 15) {
      case 0:
        throw Oddity();
      case 1:
        throw std::runtime_error("wild");
      case 2:
        return Failure{{}, "wild"};
      default:
        break;
    }
    const SharedDisk::Took took = disk_.take(program_, dataset, mode);
    if (took == SharedDisk::Took::twice) ++violations;
    if (took != SharedDisk::Took::yes) return HeldOutside{"another program"};
    return std::make_unique<Hold>(*this, dataset);
  }

 private:
  /// A call for one dataset is never made while another for it is under way.
  struct Inside {
    Inside(WildStorage& of, std::int64_t dataset) : busy(of.busy_.at(dataset)) {
      if (busy.exchange(true)) ++of.violations;
      if (dice() % 4 == 0) std::this_thread::yield();
    }
    ~Inside() { busy = false; }
    std::atomic<bool>& busy;
  };

  struct Hold final : StorageHold {
    Hold(WildStorage& of, std::int64_t id) : storage(of), dataset(id) {}
    std::optional<Failure> close() override {
      const Inside inside(storage, dataset);
      const unsigned fate = storage.is_wild ? dice() % 16 : 15;
      if (fate == 0) throw Oddity();
      if (fate == 1) return Failure{{}, "not given back"};
      storage.disk_.give_back(storage.program_, dataset);
      if (fate == 2) throw std::runtime_error("given back, but the reply was lost");
      return std::nullopt;
    }
    WildStorage& storage;
    std::int64_t dataset;
  };

  static unsigned dice() {
    static std::atomic<unsigned> seed{1};
    thread_local std::minstd_rand random(seed++);
    return static_cast<unsigned>(random() >> 8);
  }

  SharedDisk& disk_;
  int program_;
  std::array<std::atomic<bool>, 8> busy_{};
};

/// Counts those inside a dataset, and those who should not be there.
struct Section {
  std::atomic<int> readers{0};
  std::atomic<int> writers{0};
  std::atomic<int> violations{0};

  void enter(Mode mode) {
    ++(mode == kShared ? readers : writers);
    if (writers > (mode == kShared ? 0 : 1) || (mode == kExclusive && readers > 0)) ++violations;
  }
  void leave(Mode mode) { --(mode == kShared ? readers : writers); }
};

}  // namespace

TEST_CASE(
    "adversarial 11: threads of two programs keep every promise while the storage fails and throws",
    "[composite][threads][adversarial-11]") {
  constexpr int kThreads = 3;
  constexpr int kRounds = 4'000;
  constexpr std::int64_t kDatasets = 4;
  SharedDisk disk;
  WildStorage storages[] = {{disk, 0}, {disk, 1}};
  LockTable tables[] = {LockTable(storages[0]), LockTable(storages[1])};
  Section sections[kDatasets];
  std::atomic<int> grants[2] = {};
  std::atomic<int> thrown{0};
  std::atomic<int> bad_status{0};
  std::atomic<bool> is_over{false};
  {
    std::jthread watcher([&] {
      while (!is_over) {
        for (LockTable& table : tables) {
          for (const LockStatus& lock : table.status().locks) {
            const bool fits = lock.mode == kShared ? lock.count <= 2 * kThreads : lock.count == 1;
            if (!fits || lock.count == 0) ++bad_status;
          }
          table.reap();
        }
        std::this_thread::yield();
      }
    });
    std::vector<std::jthread> workers;
    for (int worker = 0; worker < 2 * kThreads; ++worker) {
      workers.emplace_back([&, worker] {
        LockTable& table = tables[worker % 2];
        std::minstd_rand random(static_cast<unsigned>(worker) + 1);
        const auto roll = [&](unsigned sides) { return (random() >> 8) % sides; };
        for (int round = 0; round < kRounds; ++round) {
          const Mode mode = roll(3) == 0 ? kExclusive : kShared;
          Ids datasets;
          for (std::int64_t id = 0; id < kDatasets; ++id) {
            if (roll(kDatasets) == 0) datasets.push_back(id);
          }
          std::shuffle(datasets.begin(), datasets.end(), random);
          try {
            Answer answer = table.lock(datasets, mode);
            auto* guard = std::get_if<Guard>(&answer);
            if (!guard) continue;
            ++grants[static_cast<int>(mode)];
            for (const std::int64_t id : datasets) sections[id].enter(mode);
            if (roll(2) == 0) std::this_thread::yield();
            for (const std::int64_t id : datasets) sections[id].leave(mode);
            guard->release();
          } catch (const Oddity&) {
            ++thrown;
          } catch (const std::runtime_error&) {
            ++thrown;
          }
        }
      });
    }
    workers.clear();
    is_over = true;
  }
  for (const Section& section : sections) CHECK(section.violations == 0);
  for (WildStorage& storage : storages) {
    CHECK(storage.violations == 0);
    storage.is_wild = false;
  }
  CHECK(bad_status == 0);
  CHECK(grants[0] > 0);
  CHECK(grants[1] > 0);
  CHECK(thrown > 0);
  for (LockTable& table : tables) {
    CHECK(table.reap() == 0);
    CHECK(ids_json(table) == kIdle);
  }
  CHECK(disk.holders() == 0);
}
