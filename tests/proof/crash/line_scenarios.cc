#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "identity/local_id.h"
#include "line_walk.h"
#include "lock/tickets.h"

namespace holdfast::testing {

namespace bfs = boost::filesystem;

namespace {

using lock::Mode;
using Prepare = std::function<void(Scene&, const Process&)>;
using Command = std::function<Words(const Scene&, const Process&)>;

// --- the commands

Command rw(const Words& options, const std::string& action) {
  return [=](const Scene& s, const Process& who) {
    Words words{"rw_lock"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {action, s.lock, who.pid_text()});
    return words;
  };
}

Command fair(const Words& options, const std::string& action) {
  return [command = rw(options, action)](const Scene& s, const Process& who) {
    Words words = command(s, who);
    words[0] = "fair_lock";
    return words;
  };
}

Command acquire(const Words& options, int permits) {
  return [=](const Scene& s, const Process& who) {
    Words words{"fair_semaphore", "--permits", std::to_string(permits)};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"acquire", s.dir.path(), "2", who.pid_text()});
    return words;
  };
}

Command release(const Words& options) {
  return [=](const Scene& s, const Process& who) {
    Words words{"fair_semaphore"};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"release", s.dir.path(), who.pid_text()});
    return words;
  };
}

/// x:1 s:2, named in the order in which they are not taken.
Command several(const Words& options, const std::string& action) {
  return [=](const Scene& s, const Process& who) {
    Words words{"multi_lock", "--id", who.pid_text()};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {action, "s:" + (s.dir / "2"), "x:" + (s.dir / "1")});
    return words;
  };
}

Words clean_lock(const Scene& s, const Process&) {
  return {"rw_lock", "--older-than", "0", "clean", s.lock};
}
Words clean_semaphore(const Scene& s, const Process&) {
  return {"fair_semaphore", "--older-than", "0", "clean", s.dir.path()};
}

// --- the states

/// `who` did this before.
Prepare done(const Command& command) {
  return [=](Scene& s, const Process& who) { expect(0, command(s, who)); };
}

/// One who lives did this.
Prepare holder(const Command& command) {
  return [=](Scene& s, const Process&) {
    s.holder.emplace(kSleeper);
    expect(0, command(s, *s.holder));
  };
}

Prepare both(const Prepare& one, const Prepare& other) {
  return [=](Scene& s, const Process& who) {
    one(s, who);
    other(s, who);
  };
}

/// Two did this, and died.
Prepare two_dead(const Command& command) {
  return [=](Scene& s, const Process&) {
    const Process one(kSleeper);
    const Process other(kSleeper);
    expect(0, command(s, one));
    expect(0, command(s, other));
  };
}

Prepare dead(const Command& command) {
  return [=](Scene& s, const Process&) {
    const Process brief(kSleeper);
    expect(0, command(s, brief));
  };
}

/// One who waited in the line of that lock or semaphore, and died.
void leave_dead_waiter(const std::string& path) {
  const Process brief(kSleeper);
  std::string why;
  const auto identity = identity::LocalId(disk::posix()).identify(brief.pid_text(), why);
  REQUIRE(identity);
  const std::string record = to_line(identity->record);
  lock::Tickets tickets(disk::posix(), lock::Layout(path));
  std::error_code ec;
  REQUIRE(tickets.take(identity->uid, Mode::exclusive, record + identity->uid.str() + "\n" + record,
                       ec));
}

void dead_waiter(Scene& s, const Process&) {
  leave_dead_waiter(s.lock);
}
void dead_waiter_for_permits(Scene& s, const Process&) {
  leave_dead_waiter(s.dir.path());
}

/// One who shared the lock and had the right to upgrade, and died.
void dead_upgrader(Scene& s, const Process&) {
  const Process brief(kSleeper);
  expect(0, rw({}, "shared")(s, brief));
  expect(0, {"lock_local", "lock", lock::Layout(s.lock).upgrade().native(), brief.pid_text()});
}

void rubbish(Scene& s, const Process&) {
  s.leave_rubbish();
}

Words shared_of_second(const Scene& s, const Process& who) {
  return {"rw_lock", "shared", s.dir / "2", who.pid_text()};
}
Words exclusive_of_second(const Scene& s, const Process& who) {
  return {"rw_lock", "exclusive", s.dir / "2", who.pid_text()};
}

/// `who` stands in line.
std::function<bool(const Scene&, const Process&)> in_line(const std::string& place) {
  return [=](const Scene& s, const Process& who) {
    std::error_code ec;
    lock::Tickets tickets(disk::posix(), lock::Layout(s.dir / place));
    for (const lock::Ticket& ticket : tickets.list(ec)) {
      if (ticket.id.str() == uid_of(who)) return true;
    }
    return false;
  };
}

/// `who` has changed its leaf, and waits until it is the only one.
bool is_upgrading(const Scene& s, const Process& who) {
  return bfs::symlink_status(s.lock + "/owner/" + uid_of(who)).type() == bfs::regular_file;
}

const Words kNothing;
const Words kShared = {"S 1"};
const Words kAlone = {"X 1"};
const Words kBoth = {"X 1", "S 2"};
const Words kPermit = {"X"};
const Words kPermits = {"X", "X"};

}  // namespace

std::vector<LineScenario> line_locks() {
  const Prepare dead_line = both(dead(rw({}, "exclusive")), dead_waiter);
  return {
      {"rw_lock shared", On::lock, {}, rw({}, "shared"), kNothing, kShared, 0, 3},
      {"rw_lock exclusive", On::lock, {}, rw({}, "exclusive"), kNothing, kAlone, 0, 8},
      {"fair_lock lock", On::lock, {}, fair({}, "lock"), kNothing, kAlone, 0, 8},
      {"rw_lock shared beside another", On::lock, holder(rw({}, "shared")), rw({}, "shared"),
       kNothing, kShared, 0, 1},
      {"rw_lock shared after a dead upgrader", On::lock, dead_upgrader, rw({}, "shared"), kNothing,
       kShared, 0, 1},
      {"rw_lock shared after a dead writer and a dead waiter", On::lock, dead_line,
       rw({}, "shared"), kNothing, kShared, 0, 5},
      {"rw_lock exclusive after two dead sharers", On::lock, two_dead(rw({}, "shared")),
       rw({}, "exclusive"), kNothing, kAlone, 0, 12},
      {"fair_lock lock after a dead holder and a dead waiter", On::lock, dead_line,
       fair({}, "lock"), kNothing, kAlone, 0, 12},
      {"rw_lock exclusive of a shared lock", On::lock, holder(rw({}, "shared")),
       rw({}, "exclusive"), kNothing, kAlone, 1, 8},
      {"rw_lock shared of a lock that is held alone", On::lock, holder(fair({}, "lock")),
       rw({}, "shared"), kNothing, kShared, 1, 0},
  };
}

std::vector<LineScenario> line_waits() {
  return {
      {"rw_lock --wait exclusive that gets its turn", On::lock, holder(rw({}, "shared")),
       rw({"--wait", "30"}, "exclusive"), kNothing, kAlone, 0, 15, in_line("1")},
      {"fair_lock --wait lock behind a dead one", On::lock,
       both(holder(fair({}, "lock")), dead_waiter), fair({"--wait", "30"}, "lock"), kNothing,
       kAlone, 0, 15, in_line("1")},
      {"rw_lock --wait upgrade that gets its turn", On::lock,
       both(done(rw({}, "shared")), holder(rw({}, "shared"))), rw({"--wait", "30"}, "upgrade"),
       kShared, kAlone, 0, 12, is_upgrading},
      {"rw_lock --wait exclusive whose time is up",
       On::lock,
       holder(rw({}, "shared")),
       rw({"--wait", "1"}, "exclusive"),
       kNothing,
       kAlone,
       1,
       15,
       {},
       true},
  };
}

std::vector<LineScenario> line_changes() {
  const Prepare shared = done(rw({}, "shared"));
  return {
      {"rw_lock upgrade", On::lock, shared, rw({}, "upgrade"), kShared, kAlone, 0, 15},
      {"rw_lock upgrade beside two dead", On::lock, both(shared, two_dead(rw({}, "shared"))),
       rw({}, "upgrade"), kShared, kAlone, 0, 15},
      {"rw_lock upgrade after a dead upgrader", On::lock, both(shared, dead_upgrader),
       rw({}, "upgrade"), kShared, kAlone, 0, 15},
      {"rw_lock upgrade beside another", On::lock, both(shared, holder(rw({}, "shared"))),
       rw({}, "upgrade"), kShared, kAlone, 1, 15},
      {"rw_lock downgrade", On::lock, done(rw({}, "exclusive")), rw({}, "downgrade"), kAlone,
       kShared, 0, 5},
  };
}

std::vector<LineScenario> line_unlocks() {
  const Prepare shared = done(rw({}, "shared"));
  return {
      {"rw_lock unlock", On::lock, done(rw({}, "exclusive")), rw({}, "unlock"), kAlone, kNothing, 0,
       3},
      {"rw_lock unlock beside another", On::lock, both(holder(rw({}, "shared")), shared),
       rw({}, "unlock"), kShared, kNothing, 0, 1},
      {"rw_lock unlock beside two dead", On::lock, both(shared, two_dead(rw({}, "shared"))),
       rw({}, "unlock"), kShared, kNothing, 0, 3},
      {"fair_lock unlock", On::lock, done(fair({}, "lock")), fair({}, "unlock"), kAlone, kNothing,
       0, 3},
  };
}

std::vector<LineScenario> line_cleanings() {
  const Prepare all_dead =
      both(both(dead_upgrader, dead(rw({}, "shared"))), both(dead_waiter, rubbish));
  const Prepare living =
      both(both(holder(rw({}, "shared")), dead(rw({}, "shared"))), both(dead_waiter, rubbish));
  return {
      {"rw_lock clean after the dead", On::lock, all_dead, clean_lock, kNothing, kNothing, 0, 12},
      {"rw_lock clean of a lock that one shares", On::lock, living, clean_lock, kNothing, kNothing,
       1, 8},
  };
}

std::vector<LineScenario> permit_scenarios() {
  const Prepare dead_line = both(dead(acquire({}, 1)), dead_waiter_for_permits);
  return {
      {"fair_semaphore acquire of one", On::semaphore, {}, acquire({}, 1), kNothing, kPermit, 0, 8},
      {"fair_semaphore acquire of two",
       On::semaphore,
       {},
       acquire({}, 2),
       kNothing,
       kPermits,
       0,
       16},
      {"fair_semaphore acquire after the dead", On::semaphore, dead_line, acquire({}, 2), kNothing,
       kPermits, 0, 20},
      {"fair_semaphore acquire of more than are free", On::semaphore, holder(acquire({}, 1)),
       acquire({}, 2), kNothing, kPermits, 1, 10},
      {"fair_semaphore --wait acquire that gets its turn", On::semaphore, holder(acquire({}, 1)),
       acquire({"--wait", "30"}, 2), kNothing, kPermits, 0, 20, in_line("")},
      {"fair_semaphore --wait acquire whose time is up",
       On::semaphore,
       holder(acquire({}, 1)),
       acquire({"--wait", "1"}, 2),
       kNothing,
       kPermits,
       1,
       20,
       {},
       true},
      {"fair_semaphore release", On::semaphore, done(acquire({}, 2)), release({}), kPermits,
       kNothing, 0, 6},
      {"fair_semaphore release of one of two", On::semaphore, done(acquire({}, 2)),
       release({"--permits", "1"}), kPermits, kPermit, 0, 3},
      {"fair_semaphore clean after the dead", On::semaphore, both(dead_line, rubbish),
       clean_semaphore, kNothing, kNothing, 0, 10},
      {"fair_semaphore clean beside a holder", On::semaphore,
       both(holder(acquire({}, 1)), both(dead_waiter_for_permits, rubbish)), clean_semaphore,
       kNothing, kNothing, 1, 8},
  };
}

std::vector<LineScenario> several_scenarios() {
  const Prepare both_dead = both(dead(rw({}, "exclusive")), dead(exclusive_of_second));
  return {
      {"multi_lock acquire",
       On::several,
       {},
       several({"--nowait"}, "acquire"),
       kNothing,
       kBoth,
       0,
       11},
      {"multi_lock acquire after the dead", On::several, both_dead,
       several({"--nowait"}, "acquire"), kNothing, kBoth, 0, 20},
      {"multi_lock acquire of one that is shared", On::several, holder(shared_of_second),
       several({"--nowait"}, "acquire"), kNothing, kBoth, 0, 9},
      {"multi_lock acquire of one that is held", On::several, holder(exclusive_of_second),
       several({"--nowait"}, "acquire"), kNothing, kBoth, 1, 10},
      {"multi_lock --wait acquire that gets its turn", On::several, holder(exclusive_of_second),
       several({"--wait", "30"}, "acquire"), kNothing, kBoth, 0, 15, in_line("2")},
      {"multi_lock release", On::several, done(several({"--nowait"}, "acquire")),
       several({}, "release"), kBoth, kNothing, 0, 5},
  };
}

}  // namespace holdfast::testing
