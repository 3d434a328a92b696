#include "unit/client/machine_world.h"

#include <array>
#include <catch2/catch.hpp>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "client/machine.h"

using namespace holdfast::client;
using holdfast::client::testing::Durations;
using holdfast::client::testing::World;

namespace {

using Table = std::vector<Transition>;

Table real_table() {
  return {transitions().begin(), transitions().end()};
}

struct Found {
  std::optional<std::string> broken;  ///< promise, and the way to it
  std::size_t worlds = 0;
  std::set<std::pair<State, Event>> rows;  ///< that were used
};

std::string name_of(int choice) {
  return choice < 0 ? "wait" : std::string(word(static_cast<Event>(choice)));
}

/// Every world that can be reached in at most `depth` steps, each looked at once, nearest first.
/// Worlds repeat, so that with enough depth these are all worlds that there are.
Found explore(const Table& table, const Durations& durations, int depth) {
  struct Visit {
    World world;
    std::string way;
    int depth;
  };
  Found found;
  std::deque<Visit> open{{World(table, durations), "", 0}};
  std::set<decltype(open.front().world.key())> known{open.front().world.key()};
  while (!open.empty()) {
    const Visit at = std::move(open.front());
    open.pop_front();
    ++found.worlds;
    if (at.depth == depth) continue;
    std::vector<int> choices;
    for (const Event event : at.world.possible()) choices.push_back(static_cast<int>(event));
    if (at.world.can_wait()) choices.push_back(-1);
    for (const int choice : choices) {
      World next = at.world;
      const auto broken = choice < 0 ? next.wait() : next.happen(static_cast<Event>(choice));
      if (choice >= 0) found.rows.emplace(at.world.state(), static_cast<Event>(choice));
      if (broken) {
        found.broken = *broken + ":" + at.way + " " + name_of(choice);
        return found;
      }
      if (!known.insert(next.key()).second) continue;
      open.push_back({next, at.way + " " + name_of(choice), at.depth + 1});
    }
  }
  return found;
}

constexpr int kAllWorlds = 1000;  // more steps than any world needs to repeat

/// The first broken promise of a table, with and without a deadline of the acquisition.
std::optional<std::string> fault_of(const Table& table) {
  if (auto broken = explore(table, {}, kAllWorlds).broken) return broken;
  return explore(table, {.timeout = -1}, kAllWorlds).broken;
}

}  // namespace

TEST_CASE("every world that the table can get into keeps the promises", "[machine]") {
  const Found found = explore(real_table(), {}, kAllWorlds);
  INFO(found.broken.value_or(""));
  CHECK_FALSE(found.broken);
  CHECK(found.worlds > 500);
  // Nothing in the table is unreachable.
  for (const Transition& row : transitions()) {
    INFO(word(row.from) << " on " << word(row.on));
    CHECK(found.rows.count({row.from, row.on}) == 1);
  }
  const Found patient = explore(real_table(), {.timeout = -1}, kAllWorlds);
  INFO(patient.broken.value_or(""));
  CHECK_FALSE(patient.broken);
}

TEST_CASE("all event orders up to a depth keep the promises for several durations", "[machine]") {
  for (const Durations& durations :
       {Durations{.ttl = 1, .renew = 1}, Durations{.ttl = 7, .renew = 3, .retry = 2, .timeout = 1},
        Durations{.ttl = 2, .renew = 1, .retry = 3, .activate = 1, .not_found_tries = 3},
        Durations{.ttl = 5, .activate = 1, .timeout = 9, .farewell = 1, .linger = 3}}) {
    const Found found = explore(real_table(), durations, 12);
    INFO(found.broken.value_or(""));
    CHECK_FALSE(found.broken);
  }
}

TEST_CASE("random lives end, and keep the promises on the way", "[machine]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const Table table = real_table();
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::map<State, int> ends;
  for (int life = 0; life < 2000; ++life) {
    World world(table, {.ttl = pick(1, 60),
                        .renew = pick(1, 20),
                        .retry = pick(1, 10),
                        .activate = pick(1, 30),
                        .timeout = pick(0, 1) == 0 ? -1 : pick(1, 100),
                        .farewell = pick(1, 60),
                        .linger = pick(1, 3),
                        .not_found_tries = pick(0, 3)});
    REQUIRE_FALSE(world.happen(Event::start));
    const int patience = pick(20, 400);
    for (int turn = 0; !world.is_over(); ++turn) {
      REQUIRE(turn < 4000);  // a call that hangs
      std::vector<Event> events = world.possible();
      const bool is_late = turn > patience;
      // Stop and release are rare until it is time to come to an end; then nothing answers.
      if (is_late) {
        std::erase_if(events, [](Event event) { return is_reply(event); });
      } else if (pick(0, 9) != 0) {
        events.erase(events.begin(), events.begin() + 2);
      }
      std::optional<std::string> broken;
      if (world.can_wait() && (events.empty() || pick(0, 3) != 0)) {
        broken = world.wait();
      } else if (!events.empty()) {
        broken = world.happen(events[static_cast<std::size_t>(pick(0, int(events.size()) - 1))]);
      }
      if (broken) FAIL(*broken);
    }
    ++ends[world.state()];
  }
  for (const State end :
       {State::released, State::withdrawn, State::aborted, State::done, State::failed}) {
    INFO(word(end));
    CHECK(ends[end] > 0);
  }
}

TEST_CASE("a table without one of its rows breaks a promise", "[machine][mutants]") {
  const Table table = real_table();
  REQUIRE_FALSE(fault_of(table));
  for (std::size_t row = 0; row < table.size(); ++row) {
    Table mutant = table;
    mutant.erase(mutant.begin() + static_cast<std::ptrdiff_t>(row));
    INFO(word(table[row].from) << " on " << word(table[row].on));
    CHECK(fault_of(mutant));
  }
}

TEST_CASE("a table without one of its actions breaks a promise", "[machine][mutants]") {
  const Table table = real_table();
  for (std::size_t row = 0; row < table.size(); ++row) {
    for (unsigned bit = 0; bit < 32; ++bit) {
      const auto action = static_cast<Actions>(1U << bit);
      if (!has(table[row].then, action)) continue;
      // The pause before a repeated last request is a matter of taste: no promise depends on it.
      if (action == Actions::reset_backoff && is_parting(table[row].to)) continue;
      Table mutant = table;
      mutant[row].then = without(mutant[row].then, action);
      INFO(word(table[row].from) << " on " << word(table[row].on) << " without " << words(action));
      CHECK(fault_of(mutant));
    }
  }
}

TEST_CASE("a table that leads elsewhere breaks a promise", "[machine][mutants]") {
  const Table table = real_table();
  int mutants = 0;
  for (std::size_t row = 0; row < table.size(); ++row) {
    for (std::size_t state = 0; state < kStateCount; ++state) {
      const auto to = static_cast<State>(state);
      // All five ends look alike to a world; the comparison with the specification tells them
      // apart.
      if (to == table[row].to || (is_terminal(to) && is_terminal(table[row].to))) continue;
      Table mutant = table;
      mutant[row].to = to;
      ++mutants;
      INFO(word(table[row].from) << " on " << word(table[row].on) << " to " << word(to));
      CHECK(fault_of(mutant));
    }
  }
  CHECK(mutants > 1000);
}
