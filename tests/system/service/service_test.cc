/// What is installed for systemd and for the administrator of the server.

#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

/// The config with every option in force: "#name = value" without its "#".
std::string all_in_force() {
  static const std::regex kCommented("(^|\n)#(?=[a-z])");
  return std::regex_replace(read_file(source_dir() + "/packaging/holdfastd.conf"), kCommented,
                            "$1");
}

/// 10 if the config makes no sense; 1 since the store that is to be looked over does not exist.
Result check_with(const std::string& config, const TempDir& dir) {
  write_file(dir / "conf", config);
  return run({"holdfastd", "--config", dir / "conf", "check", "--store", "sqlite:" + dir / "none"});
}

std::set<std::string> first_words(const std::string& text, const std::regex& line_of) {
  std::set<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, line_of)) words.insert(match[1]);
  }
  return words;
}

}  // namespace

TEST_CASE("the example config is accepted, as it stands and with every line in force",
          "[service]") {
  const TempDir dir;
  CHECK(check_with(read_file(source_dir() + "/packaging/holdfastd.conf"), dir).code == 1);
  const Result all = check_with(all_in_force(), dir);
  INFO(all.err);
  CHECK(all.code == 1);
  CHECK(check_with(all_in_force() + "no-such-option = 1\n", dir).code == 10);
  CHECK(check_with("max-queue = many\n", dir).code == 10);
}

TEST_CASE("the example config shows every option of the server and its usual value", "[service]") {
  const std::string help = run({"holdfastd", "--help"}).out;
  auto options = first_words(help, std::regex("^  --([a-z-]+)"));
  for (const char* not_for_files : {"config", "version"}) options.erase(not_for_files);
  const auto shown = first_words(all_in_force(), std::regex("^([a-z-]+) = "));
  CHECK(shown == options);

  int compared = 0;
  static const std::regex kDefault("^  --([a-z-]+) .*=([0-9]+)(?: .*)?$");
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (!std::regex_match(line, match, kDefault)) continue;
    ++compared;
    CAPTURE(line);
    const std::string expected = match[1].str() + " = " + match[2].str() + "\n";
    CHECK(all_in_force().find(expected) != std::string::npos);
  }
  CHECK(compared > 10);
}

TEST_CASE("systemd understands the unit", "[service]") {
  if (!has_program("systemd-analyze")) SKIP_TEST("no systemd-analyze here");
  const TempDir dir;
  const std::string unit = read_file(source_dir() + "/packaging/holdfastd.service");
  REQUIRE(unit.find("\nExecStart=holdfastd ") != std::string::npos);
  const auto verify = [&](const std::string& text) {
    write_file(dir / "holdfastd.service", text);
    const Result said = run({"systemd-analyze", "verify", "--man=no", dir / "holdfastd.service"});
    return first_words(said.out + said.err, std::regex("(.*holdfastd.service.*)"));
  };
  // The program is not installed here.
  const std::string here =
      std::regex_replace(unit, std::regex("ExecStart=holdfastd"), "ExecStart=" + tool("holdfastd"));
  CHECK(verify(here) == std::set<std::string>{});
  CHECK(verify(here + "\n[Service]\nNoSuchWord=yes\n").size() == 1);
}
