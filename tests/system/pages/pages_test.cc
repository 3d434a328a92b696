#include <algorithm>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <tuple>

#include "base/record.h"
#include "manual.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

namespace bfs = boost::filesystem;

std::string help_of(const std::string& tool) {
  return run({tool, "--help"}).out;
}

/// "usage: check_lock <stale_checker> lock <lock_path> <id>" names the action lock.
std::set<std::string> actions_in_help(const std::string& tool) {
  const std::regex row("(?:    usage:|          ) " + tool +
                       " (?:<stale_checker> |\\[stale_checker\\] |<locker> )?([a-z_]+) .*");
  std::set<std::string> actions;
  for (const std::string& line : split_lines(help_of(tool))) {
    std::smatch match;
    if (std::regex_match(line, match, row)) actions.insert(match[1]);
  }
  return actions;
}

/// The tools of the front door, and the program beside it.
std::vector<std::string> programs() {
  auto names = tool_names();
  names.emplace_back("holdfast-ssh");
  return names;
}

std::set<std::string> first_words(const std::vector<std::string>& tags) {
  std::set<std::string> words;
  for (const std::string& tag : tags) words.insert(tag.substr(0, tag.find(' ')));
  return words;
}

std::set<std::string> options_in_page(const Page& page) {
  std::set<std::string> options;
  for (const std::string& tag : page.tags("OPTIONS")) options.merge(options_in(tag));
  return options;
}

/// An option: its names, its value, and the actions that it is for.
using OptionRow = std::tuple<std::set<std::string>, std::string, std::set<std::string>>;

/// The words of "a, b and c".
std::set<std::string> words_of(const std::string& list) {
  static const std::regex kWord("[a-z_]+");
  std::set<std::string> words;
  for (std::sregex_iterator it(list.begin(), list.end(), kWord), end; it != end; ++it) {
    words.insert(it->str());
  }
  words.erase("and");
  return words;
}

/// "      -w, --wait <duration>     lock: how long to wait"
std::set<OptionRow> options_of_help(const std::string& tool) {
  static const std::regex kRow(R"(      (-[-a-z, ]*[a-z])(?: <([a-z]+)>)?  +(?:([a-z_, ]+): )?.*)");
  const auto actions = actions_in_help(tool);
  std::set<OptionRow> rows;
  for (const std::string& line : split_lines(help_of(tool))) {
    std::smatch match;
    if (!std::regex_match(line, match, kRow)) continue;
    auto of = words_of(match[3]);
    const bool are_actions = std::includes(actions.begin(), actions.end(), of.begin(), of.end());
    rows.insert({options_in(match[1]), match[2], are_actions ? of : std::set<std::string>{}});
  }
  return rows;
}

/// The same of the page, where the text of an option that is for some actions begins with "For" and
/// their names, up to a colon.
std::set<OptionRow> options_of_page(const Page& page) {
  static const std::regex kValue(".* ([a-z]+)");
  std::set<OptionRow> rows;
  const auto lines = page.lines("OPTIONS");
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    if (lines[i] != ".TP") continue;
    const std::string tag = std::regex_replace(without_escapes(lines[++i]), std::regex("\""), "");
    std::string list;
    const bool is_for_some = i + 1 < lines.size() && lines[i + 1] == "For";
    for (std::size_t k = i + 2; is_for_some && k < lines.size(); ++k) {
      list += " " + std::regex_replace(lines[k], std::regex("^\\.BR? "), "");
      if (lines[k].ends_with(":")) break;
    }
    std::smatch match;
    const bool has_value = std::regex_match(tag, match, kValue);
    rows.insert(
        {options_in(tag.substr(tag.find(' '))), has_value ? match[1].str() : "", words_of(list)});
  }
  return rows;
}

/// Of UTF-8 text.
std::size_t columns(const std::string& line) {
  const auto begins_character = [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  };
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), begins_character));
}

/// Family -> "number name", of the header.
std::map<std::string, std::set<std::string>> exits_in_header() {
  static const std::regex kEnum(R"(enum class (\w+Exit) : int \{)");
  static const std::regex kValue(R"(  (\w+) = (\d+),.*)");
  std::map<std::string, std::set<std::string>> families;
  std::string family;
  for (const auto& line : split_lines(read_file(source_dir() + "/src/base/exit_code.h"))) {
    std::smatch match;
    if (std::regex_match(line, match, kEnum)) family = match[1];
    if (line == "};") family.clear();
    if (!family.empty() && std::regex_match(line, match, kValue))
      families[family].insert(match[2].str() + " " + match[1].str());
  }
  return families;
}

/// The same, of the page: each table row is number, name and meaning with tabs between them.
std::map<std::string, std::set<std::string>> exits_in_page(const Page& page) {
  static const std::regex kRow("(\\d+)\t(\\w+)\t.+");
  std::map<std::string, std::set<std::string>> families;
  std::string family;
  for (const std::string& line : page.lines("DESCRIPTION")) {
    std::smatch match;
    if (line.starts_with(".SS ")) family = line.substr(4);
    if (std::regex_match(line, match, kRow))
      families[family].insert(match[1].str() + " " + match[2].str());
  }
  return families;
}

/// What people write and keep: no build trees, nothing of git's.
bool is_kept(const bfs::path& folder) {
  const bool is_at_top = folder.parent_path() == bfs::path(source_dir());
  const bool is_build_tree = folder.filename() == "build" || bfs::exists(folder / "CMakeCache.txt");
  return folder.filename() != ".git" && !(is_at_top && is_build_tree);
}

std::vector<std::string> files_of_the_project() {
  std::vector<std::string> files;
  for (bfs::recursive_directory_iterator it(source_dir()), end; it != end; ++it) {
    const bfs::file_type kind = it->symlink_status().type();
    if (kind == bfs::directory_file && !is_kept(it->path())) it.disable_recursion_pending();
    const bool is_of_git = it->path().filename() == ".git";  // a file, in a worktree
    if (kind == bfs::regular_file && !is_of_git) files.push_back(it->path().native());
  }
  return files;
}

/// Folders that look the same everywhere, so that naming something in them says nothing about this
/// machine.
bool is_common(const bfs::path& folder) {
  static const std::set<std::string> kCommon = {"/",    "/bin", "/etc",  "/home", "/lib", "/media",
                                                "/mnt", "/opt", "/proc", "/root", "/run", "/srv",
                                                "/src", "/sys", "/tmp",  "/usr",  "/var"};
  bfs::path top = "/";
  for (const bfs::path& part : folder.relative_path()) {
    top /= part;
    break;
  }
  return kCommon.count(top.native()) != 0;
}

std::set<std::string> paths_of_this_machine() {
  std::set<std::string> paths = {source_dir(), build_dir()};
  const bfs::path parent = bfs::path(source_dir()).parent_path();
  if (is_common(parent)) return paths;
  for (const auto& entry : bfs::directory_iterator(parent)) paths.insert(entry.path().native());
  return paths;
}

}  // namespace

TEST_CASE("each tool has a page", "[pages]") {
  auto names = programs();
  REQUIRE(names.size() >= 5);
  names.emplace_back("holdfast");
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK(bfs::exists(source_dir() + "/man/" + name + ".1"));
  }
  CHECK(bfs::exists(source_dir() + "/man/holdfastd.8"));
}

TEST_CASE("each page has its sections in the usual order", "[pages]") {
  const std::vector<std::string> of_tools = {"NAME",     "SYNOPSIS",    "DESCRIPTION",
                                             "OPTIONS",  "EXIT STATUS", "FILES",
                                             "EXAMPLES", "NOTES",       "SEE ALSO"};
  const std::vector<std::string> of_others = {"NAME",     "DESCRIPTION", "FILES",
                                              "EXAMPLES", "NOTES",       "SEE ALSO"};
  for (const std::string& file : page_files()) {
    CAPTURE(file);
    std::vector<std::string> sections = Page(file).sections();
    std::erase(sections, "ENVIRONMENT");
    const bool is_of_program = file.ends_with(".1") || file.ends_with(".8");
    CHECK(sections == (is_of_program ? of_tools : of_others));
  }
}

TEST_CASE("each page formats without a warning", "[pages]") {
  if (run({"man", "--version"}).out.find("man ") == std::string::npos) SKIP_TEST("no man here");
  RunOptions plain;
  plain.env = {{"MANWIDTH", "80"}, {"MANPAGER", "cat"}, {"LC_ALL", "C.UTF-8"}};
  for (const std::string& file : page_files()) {
    CAPTURE(file);
    const Result shown = run({"man", "--warnings", "-E", "UTF-8", "-l", Page(file).path()}, plain);
    CHECK(shown.code == 0);
    CHECK(shown.err == "");
    CHECK(shown.out.find("SEE ALSO") != std::string::npos);
    for (const std::string& line : split_lines(shown.out)) {
      CAPTURE(line);
      CHECK(columns(line) <= 80);
    }
  }
}

TEST_CASE("mandoc finds nothing to say about the pages", "[pages]") {
  if (!has_program("mandoc")) SKIP_TEST("no mandoc here");
  for (const std::string& file : page_files()) {
    CHECK(run({"mandoc", "-T", "lint", Page(file).path()}).out == "");
  }
}

TEST_CASE("each page names itself and the version of the tools", "[pages]") {
  const std::string version = split_lines(run({"holdfast", "--version"}).out).at(0);
  for (const std::string& file : page_files()) {
    CAPTURE(file, version);
    const Page page(file);
    const std::string name = file.substr(0, file.size() - 2);
    std::string upper = name;
    for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    CHECK(page.header().starts_with(".TH " + upper + " " + file.back() + " "));
    CHECK(page.header().find("\"" + version + "\"") != std::string::npos);
    CHECK(without_escapes(page.lines("NAME").at(0)).starts_with(name + " - "));
  }
}

TEST_CASE("the page of a tool lists the actions of its help and no others", "[pages]") {
  for (const std::string& tool : programs()) {
    CAPTURE(tool);
    const auto actions = actions_in_help(tool);
    REQUIRE(actions.size() >= 3);
    CHECK(first_words(Page(tool + ".1").tags("DESCRIPTION", "Actions")) == actions);
  }
}

TEST_CASE("the synopsis of a page shows each action of the help", "[pages]") {
  for (const std::string& tool : programs()) {
    std::string synopsis;
    for (const std::string& line : Page(tool + ".1").lines("SYNOPSIS")) synopsis += line + "\n";
    for (const std::string& action : actions_in_help(tool)) {
      if (tool == "lock_local" && action == "fast_lock") continue;  // an old name
      CAPTURE(tool, action);
      CHECK(synopsis.find("\\fB" + action + "\\fR") != std::string::npos);
    }
  }
}

TEST_CASE("the page of a tool lists the options of its help and no others", "[pages]") {
  for (const std::string& tool : programs()) {
    CAPTURE(tool);
    const auto options = options_in(help_of(tool));
    REQUIRE(options.count("--info") == 1);
    CHECK(options_in_page(Page(tool + ".1")) == options);
  }
}

TEST_CASE("each option has the same names, value and actions in the help and in the page",
          "[pages]") {
  for (const std::string& tool : programs()) {
    CAPTURE(tool);
    const auto rows = options_of_help(tool);
    REQUIRE(rows.size() >= 4);
    CHECK(options_of_page(Page(tool + ".1")) == rows);
  }
}

TEST_CASE("the page of each locker says what becomes of a missing parent folder", "[pages]") {
  const Process holder(kSleeper);
  const std::string pid = holder.pid_text();
  const std::vector<std::vector<std::string>> locks = {
      {"fast_lock", "lock", "gone/x/L", "a"},
      {"check_lock", "false", "lock", "gone/x/L", "a"},
      {"grace_lock", "false", "lock", "gone/x/L", "a"},
      {"hostpid_lock", "--idhelper", tool("local_id"), "lock", "gone/x/L", pid},
      {"lock_local", "lock", "gone/x/L", pid},
      {"lock_ssh", "lock", "gone/x/L", pid},
      {"semaphore", "-l", "acquire", "gone/x/L", "1", pid},
      {"semaphore_ssh", "acquire", "gone/x/L", "1", pid},
      {"rw_lock", "shared", "gone/x/L", pid},
      {"fair_lock", "lock", "gone/x/L", pid},
      {"fair_semaphore", "acquire", "gone/x/L", "1", pid},
      {"multi_lock", "--nowait", "--id", pid, "acquire", "gone/x/L"},
  };
  for (const std::vector<std::string>& words : locks) {
    const TempDir dir;
    RunOptions there;
    there.cwd = dir.path();
    const Result locked = run(words, there);
    CAPTURE(words, locked.err);
    if (locked.code == 20) continue;  // lock_ssh on a host without a full name
    std::string note;
    for (const std::string& line : Page(words[0] + ".1").lines("NOTES", "Missing folders")) {
      note += line + " ";
    }
    const bool is_made = bfs::exists(dir / "gone");
    CHECK(locked.code == (is_made ? 0 : 2));
    CHECK(note.find(is_made ? "is made silently" : "is an error") != std::string::npos);
  }
}

TEST_CASE("the server's page lists the options of its help and no others", "[pages]") {
  const std::string help =
      run({"holdfastd", "--help"}).out + run({"holdfastd", "token", "--help"}).out;
  std::set<std::string> options;
  for (const std::string& line : split_lines(help)) {
    if (line.starts_with("  -")) options.merge(options_in(line));  // the rest are examples
  }
  REQUIRE(options.count("--max-queue") == 1);
  REQUIRE(options.count("--expires") == 1);
  CHECK(options_in_page(Page("holdfastd.8")) == options);
}

TEST_CASE("the server's page tells of every path of the API and no other", "[pages]") {
  static const std::regex kPath("\"(/[^\"]*)\": \\{");
  static const std::regex kArgument(R"(\{\w+\})");
  std::set<std::string> served;
  for (const std::string& line :
       split_lines(read_file(source_dir() + "/man/holdfastd.openapi.json"))) {
    std::smatch match;
    if (std::regex_search(line, match, kPath))
      served.insert(std::regex_replace(match[1].str(), kArgument, "*"));
  }
  REQUIRE(served.count("/v1/claims/*/") == 1);
  std::set<std::string> told;
  for (const std::string& line : Page("holdfastd.8").lines("DESCRIPTION", "The API")) {
    static const std::regex kTag(R"(\.B (?:GET|POST|PATCH) (/.*))");
    std::smatch match;
    if (std::regex_match(line, match, kTag))
      told.insert(std::regex_replace(match[1].str(), std::regex(R"(\\fI\w+\\fP)"), "*"));
  }
  CHECK(told == served);
}

TEST_CASE("the front door's page lists its tools and options", "[pages]") {
  const Page page("holdfast.1");
  const auto names = tool_names();
  CHECK(first_words(page.tags("DESCRIPTION", "Tools")) ==
        std::set<std::string>(names.begin(), names.end()));
  const auto options = options_in_page(page);
  CHECK(options.size() >= 3);
  for (const std::string& option : options) {
    CAPTURE(option);
    const Result answer = run({"holdfast", option});
    CHECK(answer.code == 0);
    CHECK(answer.out.starts_with("holdfast"));
  }
}

TEST_CASE("the exit numbers of the page are those of the header", "[pages]") {
  const auto header = exits_in_header();
  REQUIRE(header.size() >= 4);
  REQUIRE(header.at("LockExit").count("20 already_mine") == 1);
  CHECK(exits_in_page(Page("holdfast-exit.7")) == header);
}

TEST_CASE("each exit number in the page of a tool is in the list of all", "[pages]") {
  std::set<std::string> known;
  for (const auto& [family, exits] : exits_in_header())
    known.merge(first_words({exits.begin(), exits.end()}));
  std::vector<std::string> pages = {"holdfastd.8"};
  for (const std::string& tool : programs()) pages.push_back(tool + ".1");
  for (const std::string& page : pages) {
    const auto told = first_words(Page(page).tags("EXIT STATUS"));
    CHECK(told.count("0") == 1);
    for (const std::string& number : told) {
      CAPTURE(page, number);
      CHECK(known.count(number) == 1);
    }
  }
}

TEST_CASE("each field of a record is in the page of the layout and no other", "[pages]") {
  const Record full{.host = "h",
                    .boot = "b",
                    .pidns = "p",
                    .timens = "t",
                    .pid = 1,
                    .start = 1,
                    .nonce = "n",
                    .uid = 0,
                    .user = "u",
                    .cmd = "c",
                    .since = "s"};
  const std::string line = to_line(full);
  static const std::regex kKey("\"(\\w+)\":");
  std::set<std::string> fields;
  for (std::sregex_iterator it(line.begin(), line.end(), kKey), end; it != end; ++it)
    fields.insert((*it)[1]);
  REQUIRE(fields.size() == 12);
  CHECK(first_words(Page("holdfast-layout.5").tags("DESCRIPTION", "Record")) == fields);
}

TEST_CASE("a page of ours that another page points at exists", "[pages]") {
  static const std::regex kReference(R"(\.BR (\S+) \((\d)\).*)");
  const auto tools = tool_names();
  int seen = 0;
  for (const std::string& file : page_files()) {
    for (const std::string& line : Page(file).lines("SEE ALSO")) {
      std::smatch match;
      if (!std::regex_match(line, match, kReference)) continue;
      const std::string name = without_escapes(match[1].str());
      const bool is_ours = name.starts_with("holdfast") ||
                           std::find(tools.begin(), tools.end(), name) != tools.end();
      if (!is_ours) continue;
      ++seen;
      CAPTURE(file, line);
      CHECK(bfs::exists(source_dir() + "/man/" + name + "." + match[2].str()));
    }
  }
  CHECK(seen > 20);
}

TEST_CASE("no file of the project names a path of this machine", "[pages]") {
  const auto files = files_of_the_project();
  REQUIRE(files.size() > 50);
  for (const std::string& path : paths_of_this_machine()) {
    const std::regex whole("(^|[^\\w./-])" + std::regex_replace(path, std::regex("[.+]"), "\\$&") +
                           "(?![\\w-])");
    for (const std::string& file : files) {
      const std::string text = read_file(file);
      if (text.find(path) == std::string::npos) continue;
      CAPTURE(file, path);
      CHECK_FALSE(std::regex_search(text, whole));
    }
  }
}
