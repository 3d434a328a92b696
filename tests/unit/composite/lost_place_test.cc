/// Waiters that nobody can judge: who loses its place in the queue, who keeps it, and who renews
/// it.

#include <algorithm>
#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <mutex>
#include <thread>

#include "composite/fair_semaphore.h"
#include "composite/rw_lock.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::composite;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using identity::Life;
using lock::Mode;
using lock::Outcome;
using lock::Ticket;
namespace bfs = boost::filesystem;

namespace {

/// Judges by the name, and counts how often it is asked.
class Judge final : public identity::Checker {
 public:
  identity::Verdict check(const Uid& id, const std::optional<Record>&) const override {
    ++asked;
    const bool is_dead = id.str().starts_with("dead");
    const bool is_unseen = id.str().starts_with("unseen");
    return {is_dead ? Life::dead : is_unseen ? Life::unknown : Life::alive, "so it is called"};
  }
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }

  mutable std::atomic<int> asked = 0;
};

/// A free lock, and a queue for it.
class Scene {
 public:
  Holder holder(const std::string& id) const {
    std::string why;
    const auto process = Holder::this_process(why);
    if (!process) throw std::runtime_error(why);
    identity::Identity self{uid(id), process->self.record};
    self.record.pid = 0;  // or all would be one process
    return {self, process->waiter, judge};
  }

  /// The ticket of one that waits on another host, renewed `age` ago.
  Ticket add_ticket(const std::string& id, std::chrono::seconds age) const {
    const Ticket ticket{1, Mode::exclusive, uid(id)};
    Record elsewhere = some_record();
    elsewhere.boot = "another boot";
    elsewhere.pid = 4242;
    bfs::create_directories(lock::Layout(path).queue().whole());
    write_file(file(ticket), to_line(elsewhere) + id + "\n" + to_line(elsewhere));
    set_age(ticket, age);
    return ticket;
  }

  void set_age(const Ticket& ticket, std::chrono::seconds age) const {
    bfs::last_write_time(
        file(ticket), std::chrono::system_clock::to_time_t(std::chrono::system_clock::now() - age));
  }
  std::chrono::seconds age(const Ticket& ticket) const {
    return std::chrono::seconds(std::time(nullptr) - bfs::last_write_time(file(ticket)));
  }

  std::string file(const Ticket& ticket) const { return tickets().path(ticket).native(); }
  bool is_there(const Ticket& ticket) const { return bfs::exists(file(ticket)); }

  lock::Tickets tickets() const {
    return lock::Tickets(disk::posix(), lock::Layout(disk::SafePath(path)));
  }
  std::vector<Ticket> in_line() const {
    std::error_code ec;
    return tickets().list(ec);
  }
  std::optional<Ticket> ticket_of(const std::string& id) const {
    const auto all = in_line();
    const auto found =
        std::find_if(all.begin(), all.end(), [&](const Ticket& t) { return t.id == uid(id); });
    return found == all.end() ? std::nullopt : std::optional(*found);
  }

  const TempDir dir;
  const std::string path = dir / "lock";
  const std::shared_ptr<Judge> judge = std::make_shared<Judge>();
};

/// Keeps a part and never gets all. Notes what stands in the queue when it has to give back.
class HalfGoal final : public Goal {
 public:
  explicit HalfGoal(const Scene& scene) : scene_(scene) {}

  lock::Answer try_once() override {
    has_part_ = true;
    return {Outcome::contended, {}};
  }
  void watch(disk::Watch&) override {}
  bool has_part() const override { return has_part_; }
  void yield() override {
    if (std::exchange(has_part_, false)) had_ticket.push_back(scene_.ticket_of("self").has_value());
  }

  std::vector<bool> had_ticket;  ///< at each time

 private:
  const Scene& scene_;
  bool has_part_ = false;
};

}  // namespace

TEST_CASE("a dead waiter that nobody can judge blocks a free lock for two minutes at most",
          "[composite][line]") {
  const auto [age, is_removed] = GENERATE(table<std::chrono::seconds, bool>(
      {{0s, false}, {60s, false}, {115s, false}, {121s, true}, {24h, true}, {-1h, true}}));
  const bool waits = GENERATE(false, true);
  const auto grace = GENERATE(std::optional<std::chrono::seconds>(), std::optional(10s),
                              std::optional(std::chrono::seconds(1h)));
  CAPTURE(age.count(), waits, grace.value_or(0s).count());
  const Scene scene;
  const Ticket unseen = scene.add_ticket("unseen", age);
  Holder self = scene.holder("self");
  self.grace = grace;
  RwLock lock(scene.path, self);
  const auto patience = waits ? Patience::of(is_removed ? 10s : 50ms) : Patience::none();
  const auto answer = lock.acquire(Mode::exclusive, patience);
  CHECK(answer.outcome == (is_removed ? Outcome::held : Outcome::contended));
  CHECK(scene.is_there(unseen) == !is_removed);
  if (is_removed) {
    CHECK(lock.unlock().outcome == Outcome::released);
    CHECK_FALSE(bfs::exists(scene.path));
  }
}

TEST_CASE("a waiter that is known to be alive keeps its place, however old its ticket is",
          "[composite][line]") {
  const auto grace = GENERATE(std::optional<std::chrono::seconds>(), std::optional(10s));
  const Scene scene;
  const Ticket alive = scene.add_ticket("alive", 24h);
  Holder self = scene.holder("self");
  self.grace = grace;
  RwLock lock(scene.path, self);
  CHECK(lock.acquire(Mode::exclusive, Patience::of(50ms)).outcome == Outcome::contended);
  CHECK(scene.judge->asked > 0);
  CHECK_FALSE(lock.clean(0s, 0s));
  CHECK(scene.is_there(alive));
}

TEST_CASE("clean takes the ticket of a waiter that nobody can judge as soon as it is told to",
          "[composite][line]") {
  const auto [age, limit, is_removed] = GENERATE(table<std::chrono::seconds,
                                                       std::optional<std::chrono::seconds>, bool>(
      {{30s, 20s, true}, {30s, 60s, false}, {0s, 0s, true}, {30s, {}, false}, {121s, {}, true}}));
  CAPTURE(age.count(), limit.value_or(-1s).count());
  const Scene scene;
  const Ticket unseen = scene.add_ticket("unseen", age);
  const Holder self = scene.holder("self");
  CHECK(RwLock(scene.path, self).clean(5s, limit) == is_removed);
  CHECK(scene.is_there(unseen) == !is_removed);
}

TEST_CASE("only the clock of the filesystem tells how old a ticket is", "[composite][line]") {
  const Scene scene;
  const Ticket unseen = scene.add_ticket("unseen", 24h);
  FaultDisk disk;
  disk.refuse("touch " + lock::Layout(disk::SafePath(scene.path)).queue().native(), EACCES);
  const Holder self = scene.holder("self");
  RwLock lock(scene.path, self, Order::fair, disk);
  CHECK(lock.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::contended);
  CHECK(disk.was_hit());
  CHECK(scene.is_there(unseen));
}

TEST_CASE("whoever has a waiter checked does not renew its ticket, and others see the check",
          "[composite][line]") {
  const Scene scene;
  const Ticket alive = scene.add_ticket("alive", 1h);
  for (const char* id : {"one", "two"}) {
    Holder self = scene.holder(id);
    self.grace = 60s;
    RwLock lock(scene.path, self);
    CHECK(lock.acquire(Mode::exclusive, Patience::of(100ms)).outcome == Outcome::contended);
  }
  CHECK(scene.judge->asked == 2);  // the one that waits and the one that is to hold, once
  CHECK(scene.age(alive) >= 1h);
  lock::Tickets tickets = scene.tickets();
  CHECK(tickets.remove(alive));
  CHECK_FALSE(bfs::exists(scene.path));  // the mark of the check is gone too
}

TEST_CASE("what a waiter left that was killed on arrival is swept on the way",
          "[composite][line]") {
  const auto [id, age, is_swept] = GENERATE(table<std::string, std::chrono::seconds, bool>({
      {"dead", 0s, true},
      {"unseen", 0s, false},
      {"unseen", 121s, true},
      {"alive", 24h, false},
  }));
  const bool has_text = GENERATE(true, false);  // or it was killed before it wrote
  const std::string way = GENERATE("try", "wait", "unlock");
  const auto grace = GENERATE(std::optional<std::chrono::seconds>(), std::optional(10s));
  const bool is_asked = !grace || age >= 10s;  // a slow check is not made at once
  CAPTURE(id, age.count(), has_text, way, grace.has_value());
  const Scene scene;
  const Holder first = scene.holder("first");
  RwLock held(scene.path, first);
  REQUIRE(held.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held);
  const Ticket ticket = scene.add_ticket(id, age);
  const std::string left =
      (lock::Layout(disk::SafePath(scene.path)).queue() / ("new." + id)).native();
  if (!has_text) bfs::resize_file(scene.file(ticket), 0);
  scene.set_age(ticket, age);
  bfs::rename(scene.file(ticket), left);
  Holder self = scene.holder("self");
  self.grace = grace;
  if (way == "unlock") {
    CHECK(held.unlock().outcome == Outcome::released);
  } else {
    const auto patience = way == "try" ? Patience::none() : Patience::of(50ms);
    CHECK(RwLock(scene.path, self).acquire(Mode::exclusive, patience).outcome ==
          Outcome::contended);
  }
  const bool has_grace = grace && way != "unlock";
  CHECK(bfs::exists(left) == !(is_swept && (!has_grace || is_asked)));
}

TEST_CASE("a waiter that is stopped on arrival queues although its file was swept",
          "[composite][line]") {
  const Scene scene;
  const Holder first = scene.holder("first");
  RwLock held(scene.path, first);
  REQUIRE(held.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held);
  for (int n = 0;; ++n) {
    const std::string left =
        (lock::Layout(disk::SafePath(scene.path)).queue() / "new.self").native();
    FaultDisk disk;
    bool was_swept = false;
    disk.before(n, [&] { was_swept = bfs::remove(left); });
    lock::Tickets tickets(disk, lock::Layout(disk::SafePath(scene.path)));
    std::error_code ec;
    const auto own = tickets.take(uid("self"), Mode::exclusive, "text", ec);
    INFO("swept before " << disk.last_hit());
    REQUIRE(own);
    CHECK(read_file(scene.file(*own)) == "text");
    CHECK(tickets.remove(*own));
    if (disk.calls() <= n) break;
  }
}

TEST_CASE("a waiter renews its own ticket while it sleeps", "[composite][line]") {
  const bool is_first = GENERATE(true, false);
  const Scene scene;
  const Holder first = scene.holder("first");
  RwLock held(scene.path, first);
  REQUIRE(held.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held);
  if (!is_first) (void)scene.add_ticket("before", 0s);
  std::jthread waiter([&] {
    Holder self = scene.holder("self");
    self.ticket_times.renewal = 20ms;
    RwLock lock(scene.path, self);
    (void)lock.hold(Mode::exclusive, Patience::of(20s));
  });
  REQUIRE(eventually([&] { return scene.ticket_of("self").has_value(); }));
  const Ticket own = *scene.ticket_of("self");
  scene.set_age(own, 1h);
  CHECK(eventually([&] { return scene.age(own) < 1h - 1min; }));
  if (!is_first) CHECK(scene.tickets().remove(*scene.ticket_of("before")));
  CHECK(held.unlock().outcome == Outcome::released);
}

TEST_CASE("a waiter that lost its ticket queues again at the end", "[composite][line]") {
  const Scene scene;
  const Holder first = scene.holder("first");
  RwLock held(scene.path, first);
  REQUIRE(held.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held);
  std::mutex mutex;
  std::vector<std::string> granted;
  std::vector<std::jthread> waiters;
  for (const char* id : {"a", "b", "c"}) {
    waiters.emplace_back([&, id] {
      Holder self = scene.holder(id);
      self.ticket_times.renewal = 20ms;
      RwLock lock(scene.path, self);
      const auto guard = lock.hold(Mode::exclusive, Patience::of(20s));
      const std::scoped_lock one(mutex);
      granted.push_back(guard ? id : "-");
    });
    REQUIRE(eventually([&] { return scene.ticket_of(id).has_value(); }));
  }
  CHECK(scene.tickets().remove(*scene.ticket_of("a")));
  CHECK(eventually([&] {
    const auto all = scene.in_line();
    return all.size() == 3 && all.back().id == uid("a");
  }));
  CHECK(held.unlock().outcome == Outcome::released);
  waiters.clear();
  CHECK(granted == std::vector<std::string>{"b", "c", "a"});
}

TEST_CASE("a waiter that lost its ticket gives its part back before it queues again",
          "[composite][line]") {
  const Scene scene;
  Holder self = scene.holder("self");
  self.ticket_times.renewal = 20ms;
  HalfGoal goal(scene);
  std::jthread waiter([&] {
    Line line(disk::posix(), scene.path, self, Order::fair);
    (void)line.stand(Mode::exclusive, Patience::of(2s), goal);
  });
  REQUIRE(eventually([&] { return scene.ticket_of("self").has_value(); }));
  CHECK(scene.tickets().remove(*scene.ticket_of("self")));
  CHECK(eventually([&] { return scene.ticket_of("self").has_value(); }));
  waiter.join();
  CHECK(goal.had_ticket == std::vector<bool>{false, true});  // and when its patience was over
}
