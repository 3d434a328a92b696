/// A fault at every call of every operation of rw locks, fair semaphores and multi locks.

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <functional>
#include <iostream>

#include "composite/fair_semaphore.h"
#include "composite/multi_lock.h"
#include "composite/rw_lock.h"
#include "support/fault_disk.h"
#include "support/lock_dir.h"
#include "unit/policy/oracle.h"

using namespace holdfast;
using namespace holdfast::composite;
using namespace holdfast::testing;
using lock::Answer;
using lock::FastLock;
using lock::Mode;
using lock::Outcome;
namespace bfs = boost::filesystem;
using namespace std::chrono_literals;
using Names = std::vector<std::string>;

namespace {

/// Over when it is first looked at: one attempt, a place in line, one more attempt.
Patience short_patience() {
  return Patience::of(1ns);
}

/// The locks of one scene, and who is dead. "self" does what is walked, "rival" lives.
struct World {
  TempDir dir;
  std::string path = dir / "in/lock";
  std::vector<std::string> several = {dir / "in/a", dir / "in/b", dir / "in/c"};
  std::shared_ptr<Oracle> oracle = std::make_shared<Oracle>();

  World() { bfs::create_directories(dir / "in"); }

  Holder holder(const std::string& id) const {
    const identity::Identity identity{uid(id), some_record()};
    return {identity, identity, oracle};
  }

  Answer acquire(const std::string& id, Mode mode) const {
    const Holder who = holder(id);
    return RwLock(path, who).acquire(mode, Patience::none());
  }
  void must_acquire(const std::string& id, Mode mode) const {
    REQUIRE(acquire(id, mode).outcome == Outcome::held);
  }
  void must_permit(const std::string& id, std::uint32_t permits) const {
    const Holder who = holder(id);
    REQUIRE(FairSemaphore(path, who).acquire(2, permits, Patience::none()).outcome ==
            Outcome::held);
  }
  std::vector<Want> wants() const {
    return {{several[0], Mode::exclusive}, {several[1], Mode::shared}, {several[2]}};
  }

  void stand_in_line(const std::string& id, Mode mode) const {
    const std::string line = to_line(some_record());
    std::error_code ec;
    lock::Tickets tickets(disk::posix(), lock::Layout(path));
    REQUIRE(tickets.take(uid(id), mode, line + id + "\n" + line, ec));
  }

  /// Every lock that is there, slots too.
  Names locks() const {
    Names all = several;
    all.push_back(path);
    for (const char* slot : {"/1", "/2", "/3"}) all.push_back(path + slot);
    return all;
  }

  /// How `id` holds each lock in which it has a leaf.
  std::vector<Mode> holds(const std::string& id) const {
    std::vector<Mode> modes;
    for (const std::string& lock : locks()) {
      if (const auto mode = FastLock(disk::posix(), lock).mode(uid(id))) modes.push_back(*mode);
    }
    return modes;
  }

  /// Places in line and newcomers, of `id`, and its right to upgrade.
  Names traces(const std::string& id) const {
    Names found;
    for (const std::string& name : names()) {
      const bool is_trace = name.find("/.queue/") != std::string::npos ||
                            name.find("/.upgrade/owner/") != std::string::npos;
      if (is_trace && name.ends_with(id)) found.push_back(name);
    }
    return found;
  }

  /// All that is there.
  Names names() const { return tree(dir / "in"); }

  bool is_changed_leaf(const std::string& id) const { return bfs::is_regular_file(leaf(id)); }
  std::string leaf(const std::string& id) const { return path + "/owner/" + id; }
};

using Act = std::function<Answer(const World&, const Holder& self, disk::Disk&)>;

enum class Kind { acquire, upgrade, downgrade, release };

struct Walk {
  const char* name;
  Kind kind;
  std::function<void(const World&)> before;
  Act act;
  std::vector<Mode> granted;  ///< how self holds, if it is told yes
  Outcome unharmed;           ///< what it is told without a fault
};

Act acquiring(Mode mode, bool is_patient = false) {
  return [=](const World& w, const Holder& self, disk::Disk& disk) {
    return RwLock(w.path, self, Order::fair, disk)
        .acquire(mode, is_patient ? short_patience() : Patience::none());
  };
}

Act upgrading(bool is_patient) {
  return [=](const World& w, const Holder& self, disk::Disk& disk) {
    return RwLock(w.path, self, Order::fair, disk)
        .upgrade(is_patient ? short_patience() : Patience::none());
  };
}

Act permits(bool is_patient) {
  return [=](const World& w, const Holder& self, disk::Disk& disk) {
    return FairSemaphore(w.path, self, disk)
        .acquire(2, 2, is_patient ? short_patience() : Patience::none());
  };
}

Act all_three(bool is_patient) {
  return [=](const World& w, const Holder& self, disk::Disk& disk) {
    return MultiLock(w.wants(), self, disk)
        .acquire(is_patient ? short_patience() : Patience::none());
  };
}

Answer unlock(const World& w, const Holder& self, disk::Disk& disk) {
  return RwLock(w.path, self, Order::fair, disk).unlock();
}

Answer downgrade(const World& w, const Holder& self, disk::Disk& disk) {
  return RwLock(w.path, self, Order::fair, disk).downgrade();
}

/// A world in which these hold the rw lock.
std::function<void(const World&)> held(Mode mode, const Names& ids) {
  return [=](const World& w) {
    for (const std::string& id : ids) w.must_acquire(id, mode);
  };
}

std::function<void(const World&)> waited_for(const std::string& id, Mode mode) {
  return [=](const World& w) {
    w.stand_in_line(id, mode);
    w.oracle->dead = {"dead"};
  };
}

const std::vector<Walk>& rw_walks() {
  constexpr Mode kShared = Mode::shared;
  constexpr Mode kAlone = Mode::exclusive;
  const auto nothing = [](const World&) {};
  static const std::vector<Walk> all = {
      {"shared, free", Kind::acquire, nothing, acquiring(kShared), {kShared}, Outcome::held},
      {"exclusive, free", Kind::acquire, nothing, acquiring(kAlone), {kAlone}, Outcome::held},
      {"shared beside a sharer",
       Kind::acquire,
       held(kShared, {"rival"}),
       acquiring(kShared),
       {kShared},
       Outcome::held},
      {"exclusive beside a sharer",
       Kind::acquire,
       held(kShared, {"rival"}),
       acquiring(kAlone),
       {kAlone},
       Outcome::contended},
      {"shared, a dead one in line",
       Kind::acquire,
       waited_for("dead", kAlone),
       acquiring(kShared),
       {kShared},
       Outcome::held},
      {"exclusive, a dead one in line",
       Kind::acquire,
       waited_for("dead", kShared),
       acquiring(kAlone),
       {kAlone},
       Outcome::held},
      {"shared, waits for a writer",
       Kind::acquire,
       held(kAlone, {"rival"}),
       acquiring(kShared, true),
       {kShared},
       Outcome::contended},
      {"exclusive, waits for a writer",
       Kind::acquire,
       held(kAlone, {"rival"}),
       acquiring(kAlone, true),
       {kAlone},
       Outcome::contended},
      {"exclusive, waits for a sharer",
       Kind::acquire,
       held(kShared, {"rival"}),
       acquiring(kAlone, true),
       {kAlone},
       Outcome::contended},
      {"exclusive, waits in line behind another",
       Kind::acquire,
       waited_for("rival", kAlone),
       acquiring(kAlone, true),
       {kAlone},
       Outcome::contended},
      {"exclusive, waits for a writer behind a dead one in line",
       Kind::acquire,
       [](const World& w) {
         w.must_acquire("rival", Mode::exclusive);
         w.stand_in_line("dead", Mode::exclusive);
         w.oracle->dead = {"dead"};
       },
       acquiring(kAlone, true),
       {kAlone},
       Outcome::contended},
      {"upgrade alone",
       Kind::upgrade,
       held(kShared, {"self"}),
       upgrading(false),
       {kAlone},
       Outcome::held},
      {"upgrade beside another",
       Kind::upgrade,
       held(kShared, {"self", "rival"}),
       upgrading(false),
       {kAlone},
       Outcome::contended},
      {"upgrade waits for another",
       Kind::upgrade,
       held(kShared, {"self", "rival"}),
       upgrading(true),
       {kAlone},
       Outcome::contended},
      {"upgrade beside a dead one",
       Kind::upgrade,
       [](const World& w) {
         w.must_acquire("self", Mode::shared);
         w.must_acquire("dead", Mode::shared);
         w.oracle->dead = {"dead"};
       },
       upgrading(false),
       {kAlone},
       Outcome::held},
      {"upgrade while another upgrades",
       Kind::upgrade,
       [](const World& w) {
         w.must_acquire("self", Mode::shared);
         w.must_acquire("rival", Mode::shared);
         FastLock right = FastLock(disk::posix(), w.path).right_to_upgrade();
         REQUIRE(right.lock(uid("rival"), some_record()).outcome == Outcome::held);
       },
       upgrading(true),
       {kAlone},
       Outcome::deadlock},
      {"downgrade", Kind::downgrade, held(kAlone, {"self"}), downgrade, {kShared}, Outcome::held},
      {"unlock, shared", Kind::release, held(kShared, {"self"}), unlock, {}, Outcome::released},
      {"unlock, shared, what a killed upgrade left",
       Kind::release,
       [](const World& w) {
         w.must_acquire("self", Mode::shared);
         FastLock right = FastLock(disk::posix(), w.path).right_to_upgrade();
         REQUIRE(right.lock(uid("self"), some_record()).outcome == Outcome::held);
       },
       unlock,
       {},
       Outcome::released},
      {"unlock, exclusive", Kind::release, held(kAlone, {"self"}), unlock, {}, Outcome::released},
      {"unlock beside a sharer",
       Kind::release,
       held(kShared, {"self", "rival"}),
       unlock,
       {},
       Outcome::released},
  };
  return all;
}

const std::vector<Walk>& other_walks() {
  const auto nothing = [](const World&) {};
  const auto half_full = [](const World& w) { w.must_permit("rival", 1); };
  const std::vector<Mode> two(2, Mode::exclusive);
  const std::vector<Mode> three = {Mode::exclusive, Mode::shared, Mode::exclusive};
  const auto one_taken = [](const World& w) {
    const Holder rival = w.holder("rival");
    REQUIRE(RwLock(w.several[2], rival).acquire(Mode::exclusive, Patience::none()).outcome ==
            Outcome::held);
  };
  static const std::vector<Walk> all = {
      {"two permits, free", Kind::acquire, nothing, permits(false), two, Outcome::held},
      {"two permits, one out", Kind::acquire, half_full, permits(false), two, Outcome::contended},
      {"two permits, waits for one", Kind::acquire, half_full, permits(true), two,
       Outcome::contended},
      {"two permits, a dead one in line", Kind::acquire, waited_for("dead", Mode::exclusive),
       permits(true), two, Outcome::held},
      {"release of two permits",
       Kind::release,
       [](const World& w) { w.must_permit("self", 2); },
       [](const World& w, const Holder& self, disk::Disk& disk) {
         return FairSemaphore(w.path, self, disk).release();
       },
       {},
       Outcome::released},
      {"three locks, free", Kind::acquire, nothing, all_three(false), three, Outcome::held},
      {"three locks, one taken", Kind::acquire, one_taken, all_three(false), three,
       Outcome::contended},
      {"three locks, waits for one", Kind::acquire, one_taken, all_three(true), three,
       Outcome::contended},
      {"release of three locks",
       Kind::release,
       [](const World& w) {
         const Holder self = w.holder("self");
         REQUIRE(MultiLock(w.wants(), self).acquire(Patience::none()).outcome == Outcome::held);
       },
       [](const World& w, const Holder& self, disk::Disk& disk) {
         return MultiLock(w.wants(), self, disk).release();
       },
       {},
       Outcome::released},
  };
  return all;
}

bool is_of_semaphore(const Walk& walk) {
  return std::string(walk.name).find("permit") != std::string::npos;
}

/// The dead leave nothing that keeps anybody out, and no name after one clean.
void check_recoverable(const World& w, const Walk& walk, const std::vector<Mode>& rival_had) {
  w.oracle->dead = {"self", "dead"};
  CHECK(w.holds("rival").size() == rival_had.size());
  const Holder next = w.holder("next");
  const Holder rival = w.holder("rival");
  FastLock right = FastLock(disk::posix(), w.path).right_to_upgrade();
  (void)right.unlock(uid("rival"));
  std::error_code ec;
  lock::Tickets line(disk::posix(), lock::Layout(w.path));
  for (const lock::Ticket& ticket : line.list(ec)) {
    if (ticket.id == uid("rival")) line.remove(ticket);
  }
  if (is_of_semaphore(walk)) {
    FairSemaphore semaphore(w.path, next);
    const auto free = static_cast<std::uint32_t>(2 - rival_had.size());
    CHECK(semaphore.acquire(2, free, Patience::none()).outcome == Outcome::held);
    const Holder late = w.holder("late");
    CHECK(FairSemaphore(w.path, late).acquire(2, 1, Patience::none()).outcome ==
          Outcome::contended);
    CHECK(w.holds("rival") == rival_had);
    CHECK(semaphore.release().outcome == Outcome::released);
    if (!rival_had.empty()) {
      CHECK(FairSemaphore(w.path, rival).release().outcome == Outcome::released);
    }
    CHECK(FairSemaphore(w.path, next).clean(0s));
    CHECK(w.names() == Names{});
    return;
  }
  Names locks = w.several;
  locks.push_back(w.path);
  for (const std::string& path : locks) {
    INFO(path);
    RwLock lock(path, next);
    const auto of_rival = lock.fast().mode(uid("rival"));
    const Outcome shared = lock.acquire(Mode::shared, Patience::none()).outcome;
    const bool is_barred = of_rival && rival_had == std::vector{Mode::exclusive};
    CHECK(shared == (is_barred ? Outcome::contended : Outcome::held));
    if (shared == Outcome::held) CHECK(lock.unlock().outcome == Outcome::released);
    if (of_rival) {
      CHECK(lock.fast().mode(uid("rival")) == rival_had.front());
      CHECK(RwLock(path, rival).unlock().outcome == Outcome::released);
    }
    CHECK(lock.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held);
    CHECK(lock.unlock().outcome == Outcome::released);
    CHECK(lock.clean(0s));
  }
  CHECK(w.names() == Names{});
}

void walk_stops(const std::vector<Walk>& walks) {
  int points = 0;
  for (const Walk& walk : walks) {
    int stops = 0;
    for (bool finished = false; !finished; ++stops) {
      REQUIRE(stops < 2000);
      const World w;
      walk.before(w);
      const auto rival_had = w.holds("rival");
      const Holder self = w.holder("self");
      FaultDisk disk;
      disk.stop_after(stops);
      std::optional<Answer> answer;
      try {
        answer = walk.act(w, self, disk);
      } catch (const Crash&) {
      }
      finished = answer.has_value();
      INFO(walk.name << " stopped before: " << disk.last_hit() << ", which left "
                     << Catch::StringMaker<Names>::convert(w.names()));
      if (answer) CHECK(answer->outcome == walk.unharmed);
      if (is_of_semaphore(walk)) CHECK(w.holds("self").size() + rival_had.size() <= 2);
      if (walk.kind == Kind::upgrade || walk.kind == Kind::downgrade) {
        CHECK(w.holds("self").size() == 1);  // the old leaf or the new one
      }
      check_recoverable(w, walk, rival_had);
    }
    INFO(walk.name);
    CHECK(stops > 1);
    points += stops;
  }
  std::cout << "walked " << points << " points: stop" << std::endl;
}

bool is_of_multi_lock(const Walk& walk) {
  return std::string(walk.name).find("three locks") != std::string::npos;
}

Answer release_all(const World& w, const Walk& walk, const Holder& self) {
  if (is_of_semaphore(walk)) return FairSemaphore(w.path, self).release();
  if (is_of_multi_lock(walk)) return MultiLock(w.wants(), self).release();
  return RwLock(w.path, self).unlock();
}

/// Of the right to upgrade: the one look that is believed at once if it finds nothing, since almost
/// always nothing is there. What stays goes with the process.
bool is_misled(const FaultDisk& disk, int error) {
  return error == ENOENT && disk.last_hit().starts_with("status ") &&
         disk.last_hit().ends_with("/.upgrade");
}

/// Held if and only if it is told so; a doubt is told too.
void check_told(const World& w, const Walk& walk, const Answer& answer, bool may_have_traces) {
  const auto holds = w.holds("self");
  const bool says_maybe =
      answer.outcome == Outcome::failed && answer.why.find("may be held") != std::string::npos;
  const bool is_to_repeat = walk.kind == Kind::release && answer.outcome == Outcome::failed;
  if (!is_to_repeat && !may_have_traces) CHECK(w.traces("self") == Names{});
  if (answer.outcome == Outcome::failed) CHECK_FALSE(answer.why.empty());
  if (walk.kind == Kind::release) {
    if (answer.outcome != Outcome::failed) CHECK(answer.outcome == Outcome::released);
    if (answer.outcome == Outcome::released) CHECK(holds.empty());
    return;
  }
  if (answer.outcome == Outcome::held) {
    CHECK(holds == walk.granted);
  } else if (walk.kind != Kind::acquire) {
    REQUIRE(holds.size() == 1);
    if (!says_maybe) CHECK(w.is_changed_leaf("self") == (walk.kind == Kind::downgrade));
  } else if (!says_maybe) {
    CHECK(holds.empty());
  }
}

/// Who was told of a failure tries again, on a disk that works, and gives all back in the end.
void check_second_try(const World& w, const Walk& walk, const Holder& self) {
  const auto had = w.holds("self");
  const Answer again = walk.act(w, self, disk::posix());
  INFO("tried again, told " << static_cast<int>(again.outcome) << " '" << again.why << "'");
  if (walk.kind == Kind::release) {
    const bool is_whole = is_of_multi_lock(walk) ? had.size() == w.several.size() : !had.empty();
    CHECK(again.outcome == (is_whole ? Outcome::released : Outcome::not_mine));
    CHECK(w.holds("self").empty());
  } else if (walk.kind == Kind::acquire && !had.empty()) {
    CHECK(again.outcome == Outcome::already_mine);
  } else {
    CHECK(again.outcome == walk.unharmed);
  }
  if (!w.holds("self").empty()) {
    CHECK(release_all(w, walk, self).outcome == Outcome::released);
  }
  Names left = w.names();
  std::erase_if(left, [](const std::string& name) { return !name.ends_with("self"); });
  CHECK(left == Names{});
}

void walk_faults(const std::vector<Walk>& walks, bool is_lost, int error) {
  int points = 0;
  for (const Walk& walk : walks) {
    bool was_hit = true;
    for (int call = 0; was_hit; ++call, ++points) {
      REQUIRE(call < 2000);
      const World w;
      walk.before(w);
      const auto rival_had = w.holds("rival");
      const Holder self = w.holder("self");
      FaultDisk disk;
      is_lost ? disk.lose_reply(call, error) : disk.fail(call, error);
      const Answer answer = walk.act(w, self, disk);
      was_hit = disk.was_hit();
      INFO(walk.name << ", " << (is_lost ? "lost " : "failed ") << error << " at call " << call
                     << ", " << disk.last_hit() << ", told " << static_cast<int>(answer.outcome)
                     << " '" << answer.why << "', left "
                     << Catch::StringMaker<Names>::convert(w.names()));
      CHECK(w.holds("rival") == rival_had);
      check_told(w, walk, answer, is_misled(disk, error));
      if (answer.outcome != walk.unharmed) check_second_try(w, walk, self);
      check_recoverable(w, walk, rival_had);
    }
  }
  std::cout << "walked " << points << " points: " << (is_lost ? "lost " : "failed ") << error
            << std::endl;
}

}  // namespace

TEST_CASE("adversarial 4: a user of an rw lock killed at any change leaves what others recover",
          "[composite][rw][crash][adversarial-4]") {
  walk_stops(rw_walks());
}

TEST_CASE("a user of a fair semaphore or of several locks killed at any change does as well",
          "[composite][crash]") {
  walk_stops(other_walks());
}

TEST_CASE("what an rw lock tells is so, whatever reply was lost", "[composite][rw][fault]") {
  walk_faults(rw_walks(), true, GENERATE(ENOENT, EEXIST, EIO, ESTALE));
}

TEST_CASE("what an rw lock tells is so, whatever call failed", "[composite][rw][fault]") {
  walk_faults(rw_walks(), false, GENERATE(ENOSPC, EACCES, EIO));
}

TEST_CASE("what a fair semaphore or a multi lock tells is so, whatever reply was lost",
          "[composite][fault]") {
  walk_faults(other_walks(), true, GENERATE(ENOENT, EEXIST, EIO, ESTALE));
}

TEST_CASE("what a fair semaphore or a multi lock tells is so, whatever call failed",
          "[composite][fault]") {
  walk_faults(other_walks(), false, GENERATE(ENOSPC, EACCES, EIO));
}

TEST_CASE("a guard of a shared hold takes the right to upgrade with it", "[composite][rw]") {
  const World w;
  const Holder self = w.holder("self");
  auto guard = RwLock(w.path, self).hold(Mode::shared, Patience::none());
  FastLock right = FastLock(disk::posix(), w.path).right_to_upgrade();
  REQUIRE(right.lock(uid("self"), some_record()).outcome == Outcome::held);
  CHECK(guard->release());
  CHECK(w.names() == Names{});
}

TEST_CASE("one lock that cannot be looked at does not keep the others", "[composite][fault]") {
  const World w;
  const Holder self = w.holder("self");
  FaultDisk disk;
  auto guard = MultiLock(w.wants(), self, disk).hold(Patience::none());
  REQUIRE(guard);
  disk.refuse("in/c/owner", EIO);
  const bool is_by_guard = GENERATE(false, true);
  if (is_by_guard) {
    CHECK_FALSE(guard->release());
  } else {
    MultiLock locks(w.wants(), self, disk);
    CHECK(locks.release().outcome == Outcome::failed);
    CHECK(locks.at() == w.several[2]);
  }
  CHECK(w.holds("self") == std::vector{Mode::exclusive});
  disk.refuse("", 0);
  (void)guard->release();
  CHECK(w.names() == Names{});
}

TEST_CASE("who cannot give back what it had so far is told so", "[composite][fault]") {
  const World w;
  const Holder self = w.holder("self");
  const Holder rival = w.holder("rival");
  FaultDisk disk;
  Answer answer{Outcome::held, {}};
  disk.refuse("unlink self", EIO);
  if (GENERATE(false, true)) {
    w.must_permit("rival", 1);
    answer = FairSemaphore(w.path, self, disk).acquire(2, 2, Patience::none());
  } else {
    RwLock last(w.several[2], rival);
    REQUIRE(last.acquire(Mode::exclusive, Patience::none()).outcome == Outcome::held);
    answer = MultiLock(w.wants(), self, disk).acquire(Patience::none());
  }
  CHECK(answer.outcome == Outcome::failed);
  CHECK_THAT(answer.why, Catch::Contains("may be held by self"));
  CHECK_FALSE(w.holds("self").empty());
}
