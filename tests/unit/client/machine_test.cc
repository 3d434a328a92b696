#include "client/machine.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace holdfast::client;

namespace {

std::string read_file(const std::string& name) {
  std::ifstream in(std::string(HOLDFAST_SOURCE) + "/" + name);
  REQUIRE(in);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \n");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \n") - first + 1);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, at);) parts.push_back(trimmed(part));
  return parts;
}

/// A row as one text, actions in any order.
struct Row {
  std::string from, on, to;
  std::set<std::string> then;

  static Row of(const std::string& line, const std::string& event) {
    const std::vector<std::string> columns = split(line, '|');
    REQUIRE(columns.size() == 4);
    Row row{columns[0], event, columns[2], {}};
    for (const std::string& action : split(columns[3], ' ')) {
      if (!action.empty()) row.then.insert(action);
    }
    return row;
  }
  std::string text() const {
    std::string out = from + " | " + on + " | " + to + " |";
    for (const std::string& action : then) out += " " + action;
    return out;
  }
};

/// The rows of a printed table, or of the file that is written by hand; "a, b" are two rows.
std::vector<std::string> rows_of(const std::string& table) {
  std::vector<std::string> rows;
  for (const std::string& line : split(table, '\n')) {
    if (line.empty() || line.starts_with('#')) continue;
    for (const std::string& event : split(split(line, '|').at(1), ',')) {
      rows.push_back(Row::of(line, event).text());
    }
  }
  return rows;
}

}  // namespace

TEST_CASE("the printed table is the specification's, row by row", "[machine]") {
  const auto wanted = rows_of(read_file("tests/unit/client/machine.table"));
  const auto printed = rows_of(to_text(transitions()));
  for (std::size_t row = 0; row < std::min(wanted.size(), printed.size()); ++row) {
    INFO("row " << row);
    CHECK(printed[row] == wanted[row]);
  }
  CHECK(printed.size() == wanted.size());
  CHECK(wanted.size() == 73);
}

TEST_CASE("step() answers with the row, and says when there is none", "[machine]") {
  CHECK(step(State::waiting, Event::tick) == Step{State::activating, Actions::patch_active, false});
  CHECK(step(State::waiting, Event::lapse) == Step{State::waiting, Actions::none, true});
  for (const Transition& row : transitions()) {
    CHECK(step(row.from, row.on) == Step{row.to, row.then, false});
  }
}

TEST_CASE("a terminal state ignores every event", "[machine]") {
  for (std::size_t state = 0; state < kStateCount; ++state) {
    if (!is_terminal(static_cast<State>(state))) continue;
    for (std::size_t event = 0; event < kEventCount; ++event) {
      CHECK(step(static_cast<State>(state), static_cast<Event>(event)).is_ignored);
    }
  }
}

TEST_CASE("ruling 1: stop while activating aborts the claim", "[machine][ruling]") {
  const Step after = step(State::activating, Event::stop);
  CHECK(after.to == State::aborting);
  CHECK(has(after.actions, Actions::drop_request));
  CHECK(has(after.actions, Actions::patch_aborted));
}

TEST_CASE("ruling 2: a 201 at registration makes the claim active at once", "[machine][ruling]") {
  const Step after = step(State::registering, Event::created);
  CHECK(after.to == State::active);
  for (const Actions action : {Actions::clear_timeout, Actions::keep_url, Actions::tell_acquired,
                               Actions::start_renew_timer, Actions::set_lapse}) {
    CHECK(has(after.actions, action));
  }
}

TEST_CASE("ruling 3: released, withdrawn and aborted are terminal states", "[machine][ruling]") {
  CHECK(step(State::releasing, Event::ok).to == State::released);
  CHECK(step(State::withdrawing, Event::ok).to == State::withdrawn);
  CHECK(step(State::aborting, Event::ok).to == State::aborted);
  for (const State state : {State::released, State::withdrawn, State::aborted}) {
    CHECK(is_terminal(state));
  }
}

TEST_CASE("ruling 4: done is given up, fail is refused or lost", "[machine][ruling]") {
  for (const Transition& row : transitions()) {
    INFO(word(row.from) << " on " << word(row.on));
    const bool is_refusal =
        row.on == Event::refused || row.on == Event::conflict || row.on == Event::refused_as_final;
    if (row.to == State::failed) CHECK((is_refusal || row.on == Event::lapse));
    if (row.to == State::done) CHECK((!is_reply(row.on) && row.on != Event::lapse));
  }
}

TEST_CASE("ruling 5: a 409 only means \"not yet\" while activating", "[machine][ruling]") {
  CHECK(step(State::activating, Event::conflict).to == State::waiting);
  for (std::size_t number = 0; number < kStateCount; ++number) {
    const auto state = static_cast<State>(number);
    if (!is_acting(state) || state == State::activating) continue;
    CHECK(step(state, Event::conflict) == step(state, Event::refused));
    CHECK_FALSE(step(state, Event::conflict).is_ignored);
  }
}

TEST_CASE("ruling 7: every last request has a farewell deadline that ends it",
          "[machine][ruling]") {
  for (const Transition& row : transitions()) {
    INFO(word(row.from) << " on " << word(row.on));
    if (is_parting(row.to) && !is_parting(row.from)) CHECK(has(row.then, Actions::set_farewell));
  }
  for (std::size_t number = 0; number < kStateCount; ++number) {
    const auto state = static_cast<State>(number);
    if (is_parting(state)) CHECK(step(state, Event::farewell).to == State::done);
  }
}

TEST_CASE("the committed graph is drawn from the table", "[machine]") {
  CHECK(read_file("docs/claim-machine.dot") == to_dot(transitions()));
  CHECK(read_file("docs/claim-machine.svg").find("retrying") != std::string::npos);
}
