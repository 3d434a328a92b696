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

constexpr Option kOptions[] = {
    rows::strict(""),
    rows::older_than(""),
    rows::kCheckerArg,
};

constexpr Option kCheckerOptions[] = {
    rows::kCheckerArg,
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
              .options = kOptions,
              .takes_checker = takes_checker},
             std::move(words));
}

int run_optional(std::vector<std::string> words) {
  return run({.name = "tool",
              .text = "",
              .actions = kOptionalActions,
              .options = kCheckerOptions,
              .takes_checker = true},
             std::move(words));
}

}  // namespace

TEST_CASE("options end at the first word that is none", "[cli]") {
  CHECK(run({"-di", "--strict", "list", "x", "--help", "-d"}) == 13);
  CHECK(seen == std::vector<std::string>{"x", "--help", "-d"});
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
               std::vector<std::string>{"--older-than"},
               std::vector<std::string>{"-u", "plain", "x"}, std::vector<std::string>{"--"});
  CHECK(run(words) == 10);
  CHECK(seen.empty());
}

TEST_CASE("help is a success, but under the name of a shell script it is usage", "[cli]") {
  const Tool tool{.name = "tool", .text = "", .actions = kActions};
  CHECK(run(tool, {"-h"}) == 0);
  CHECK(run(tool, {"-h", "plain"}) == 0);
  CHECK(run(tool, {"-h", "some:id"}) == 10);
  CHECK(run(tool, {"-h"}, "tool.sh") == 10);
  CHECK(seen.empty());
}

TEST_CASE("the nearest name is the one with the fewest wrong letters, if they are few", "[cli]") {
  const auto [word, meant] = GENERATE(table<std::string, std::string>({
      {"lokc", "lock"},
      {"lok", "lock"},
      {"locks", "lock"},
      {"is-mine", "is_mine"},
      {"ismine", "is_mine"},
      {"unlokc", "unlock"},
      {"lock", "lock"},
      {"clear", "clean"},
      {"frobnicate", ""},
      {"x", ""},
      {"", ""},
      {std::string(100000, 'x'), ""},
  }));
  static constexpr std::string_view kNames[] = {"lock", "unlock", "is_mine", "clean"};
  CHECK(nearest(word, kNames) == meant);
}

TEST_CASE("surplus words are refused, but under the name of a shell script ignored", "[cli]") {
  const Tool tool{.name = "tool", .text = "", .actions = kActions};
  CHECK(run(tool, {"plain", "a", "b"}) == 10);
  CHECK(seen.empty());
  CHECK(run(tool, {"plain", "a", "b"}, "/some/where/tool.sh") == 13);
  CHECK(seen == std::vector<std::string>{"a", "b"});
  CHECK(run(tool, {"list", "a", "b", "c"}) == 13);
}

TEST_CASE("a duration is written with a unit, as seconds or as a word", "[cli]") {
  using std::chrono::milliseconds;
  const auto [text, length] = GENERATE(table<std::string, milliseconds>({
      {"500ms", milliseconds(500)},
      {"0", milliseconds(0)},
      {"3", milliseconds(3000)},
      {"3s", milliseconds(3000)},
      {"1m", milliseconds(60'000)},
      {"2h", milliseconds(7'200'000)},
      {"forever", milliseconds(kForever)},
      {"18446744073709551615", milliseconds(kForever)},
      {"18446744073709551615h", milliseconds(kForever)},
  }));
  CAPTURE(text);
  CHECK(to_duration("--wait", text) == length);
}

TEST_CASE("what is no duration is named, with examples", "[cli]") {
  const std::string text = GENERATE("", "x", "-1", "1.5", "3 s", "3S", "1mm", "ms", "+3", "Forever",
                                    "18446744073709551616", "0x3");
  CHECK_THROWS_WITH(
      to_duration("--wait", text),
      "--wait takes a duration such as 500ms, 3 (seconds), 1m or forever, not '" + text + "'");
}

TEST_CASE("of two options of one name the one that the action uses counts", "[cli]") {
  static constexpr Option kTwo[] = {
      rows::wait("plain", ""),
      rows::nowait("plain", ""),
      rows::kill_wait("list"),
  };
  const Tool tool{.name = "tool", .text = "", .actions = kActions, .options = kTwo};
  CHECK(run(tool, {"--wait", "1500ms", "plain", "a"}) == 13);
  CHECK(options_seen.wait == std::chrono::milliseconds(1500));
  CHECK(options_seen.patience == std::chrono::seconds(5));
  CHECK(run(tool, {"-w", "1500ms", "list", "a"}) == 13);
  CHECK(!options_seen.wait);
  CHECK(options_seen.patience == std::chrono::seconds(2));
  CHECK(run(tool, {"-n", "plain", "a"}) == 13);
  CHECK(options_seen.nowait);
  CHECK(run(tool, {"-n", "list", "a"}) == 10);
  CHECK(run(tool, {"-n", "list", "a"}, "tool.sh") == 13);
  CHECK(run(tool, {"-n", "--wait", "1", "plain", "a"}) == 10);
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
