#include "cli/tool.h"

#include <catch2/catch.hpp>

using namespace holdfast;
using namespace holdfast::cli;

namespace {

std::vector<std::string> seen;
Options options_seen;

Exit remember(Call& call) {
  seen.clear();
  for (std::size_t i = 0; call.has(i); ++i) seen.push_back(call.word(i));
  options_seen = call.options;
  return StaleExit::unknown;
}

constexpr Action kActions[] = {
    {"do", "<a> <b>", 2, remember, CheckerWords::needed},
    {"plain", "<a>", 1, remember},
    {"list", "<a>...", at_least(1), remember},
};

constexpr Action kOptionalActions[] = {
    {"take", "<a>", 1, remember, CheckerWords::optional},
};

int run(const Tool& tool, std::vector<std::string> words, const std::string& name = "tool") {
  words.insert(words.begin(), name);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  seen.clear();
  return run_tool(tool, static_cast<int>(argv.size()), argv.data());
}

/// Exit code of a run with these words; usage texts go to stderr as they would.
int run(std::vector<std::string> words, bool takes_checker = false) {
  return run({.name = "tool",
              .text = "",
              .actions = kActions,
              .knows = knows_strict | knows_age,
              .takes_checker = takes_checker},
             std::move(words));
}

int run_optional(std::vector<std::string> words) {
  return run(
      {.name = "tool", .text = "", .actions = kOptionalActions, .knows = 0, .takes_checker = true},
      std::move(words));
}

}  // namespace

TEST_CASE("options end at the first word that is none", "[cli]") {
  CHECK(run({"-di", "--strict", "list", "--help", "-d"}) == 13);
  CHECK(seen == std::vector<std::string>{"--help", "-d"});
  CHECK(options_seen.level == Log::Level::info);
  CHECK(options_seen.strict);
}

TEST_CASE("of several levels the last counts", "[cli]") {
  CHECK(run({"-d", "--debug", "-di", "plain", "x"}) == 13);
  CHECK(options_seen.level == Log::Level::info);
  CHECK(run({"--info", "-d", "plain", "x"}) == 13);
  CHECK(options_seen.level == Log::Level::debug);
}

TEST_CASE("wrong words are usage", "[cli]") {
  const auto words =
      GENERATE(std::vector<std::string>{}, std::vector<std::string>{"nonsense"},
               std::vector<std::string>{"plain"}, std::vector<std::string>{"plain", ""},
               std::vector<std::string>{"--bogus", "plain", "x"}, std::vector<std::string>{""},
               std::vector<std::string>{"--older-than", "x", "plain", "a"},
               std::vector<std::string>{"--older-than", "-1", "plain", "a"},
               std::vector<std::string>{"--older-than"}, std::vector<std::string>{"-h"},
               std::vector<std::string>{"-u", "plain", "x"}, std::vector<std::string>{"--"});
  CHECK(run(words) == 10);
  CHECK(seen.empty());
}

TEST_CASE("surplus words are refused, but under the name of a shell script ignored", "[cli]") {
  const Tool tool{.name = "tool", .text = "", .actions = kActions};
  CHECK(run(tool, {"plain", "a", "b"}) == 10);
  CHECK(seen.empty());
  CHECK(run(tool, {"plain", "a", "b"}, "/some/where/tool.sh") == 13);
  CHECK(seen == std::vector<std::string>{"a", "b"});
  CHECK(run(tool, {"list", "a", "b", "c"}) == 13);
}

TEST_CASE("a checker collects its words and the next plain word is the action", "[cli]") {
  using Words = std::vector<std::string>;
  const auto [words, checker] = GENERATE(table<Words, Words>({
      {{"check", "do", "a", "b"}, {"check"}},
      {{"check", "-s", "x", "-s", "-y", "do", "a", "b"}, {"check", "x", "-y"}},
      {{"-d", "check", "--info", "-s", "x", "do", "a", "b"}, {"check", "x"}},
      {{"-s", "x", "do", "a", "b"}, {"x"}},
      {{"check", "-s", "x", "-di", "-s", "-di", "do", "a", "b"}, {"check", "x", "-di"}},
      {{"do", "do", "a", "b"}, {"do"}},
  }));
  CHECK(run(words, true) == 13);
  CHECK(options_seen.checker == checker);
  CHECK(seen == Words{"a", "b"});
}

TEST_CASE("an action that needs no checker stands alone", "[cli]") {
  CHECK(run({"plain", "a"}, true) == 13);
  CHECK(options_seen.checker.empty());
  CHECK(run({"do", "a", "b"}, true) == 10);  // "do" is taken for the checker, "a" for the action
  CHECK(run({}, true) == 10);
  CHECK(run({"check"}, true) == 10);
}

TEST_CASE("where a checker is optional its words are taken and an action may stand alone",
          "[cli]") {
  CHECK(run_optional({"take", "a"}) == 13);
  CHECK(options_seen.checker.empty());
  CHECK(run_optional({"check", "-s", "x", "take", "a"}) == 13);
  CHECK(options_seen.checker == std::vector<std::string>{"check", "x"});
  CHECK(run_optional({}) == 10);
  CHECK(run_optional({"check"}) == 10);
  CHECK(run_optional({"taek", "a"}) == 10);
  CHECK(seen.empty());
}
