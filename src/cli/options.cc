#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

#include "cli/tool.h"

namespace holdfast::cli {
namespace {

template <Log::Level Level>
void set_level(Options& options, const std::string&, const std::string&) {
  options.level = Level;  // of several the last one counts
}

constexpr Option kCommon[] = {
    {"-di, --info", "", "", "say on stderr what happened", set_level<Log::Level::info>},
    {"-d, --debug", "", "", "say it step by step, with the date", set_level<Log::Level::debug>},
    {"-u, -h, --help", "", "", "print this text", set_flag<&Options::help>},
    {"--version", "", "", "print the version", set_flag<&Options::version>},
};

/// The shell's two-letter option with one dash, which a parser would take for -d -i.
void spell_out_info(const Tool& tool, std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "-di") words[i] = "--info";
    const Option* row = find_option(tool, words[i]);
    if (row && row->is_named(words[i]) && row->takes_value()) ++i;
  }
}

/// Brings the options that stand among the leading plain words before them. A word that is no
/// option by its whole name is a plain one, whatever it begins with: paths may.
void bring_forward(const Tool& tool, std::vector<std::string>& words) {
  std::vector<std::string> given;
  std::vector<std::string> plain;
  unsigned left = tool.words_among_options;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "-di") words[i] = "--info";
    if (const Option* row = find_option(tool, words[i])) {
      if (tool.takes_locker && row->is_named("--local") && left > 0) --left;
      const bool has_value = row->takes_value() && row->is_named(words[i]);
      given.push_back(words[i]);
      if (has_value && i + 1 < words.size()) given.push_back(words[++i]);
    } else if (left > 0) {
      plain.push_back(words[i]);
      --left;
    } else {
      break;
    }
  }
  given.insert(given.end(), plain.begin(), plain.end());
  std::copy(given.begin(), given.end(), words.begin());
}

/// The names as CLI11 takes them: without -di, which is spelled out before.
std::string names_for_parser(const Option& row) {
  const std::string_view names = row.names;
  return std::string(names.starts_with("-di, ") ? names.substr(5) : names);
}

/// CLI11 with the rows of a tool. Rows of one name, for different actions, are one option to it.
class Parser {
 public:
  explicit Parser(const Tool& tool) {
    app_.set_help_flag();
    app_.prefix_command();
    for (const Option& row : kCommon) add(row);
    for (const Option& row : tool.options) add(row);
  }

  /// What was given, in order; leaves the other words.
  std::vector<Given> parse(std::vector<std::string>& words) {
    try {
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& e) {
      throw UsageError(e.what());
    }
    std::vector<Given> given;
    for (const CLI::Option* option : app_.parse_order()) {
      const auto known = std::find_if(known_.begin(), known_.end(),
                                      [&](const Known& one) { return one.option == option; });
      const std::string value = option->results().at(known->seen++);
      given.push_back({known->row, known->row->takes_value() ? value : ""});
    }
    words = app_.remaining();
    return given;
  }

 private:
  struct Known {
    const CLI::Option* option;
    const Option* row;
    std::size_t seen;
  };

  void add(const Option& row) {
    const bool is_known = std::any_of(known_.begin(), known_.end(), [&](const Known& one) {
      return one.row->names == row.names;
    });
    if (is_known) return;
    CLI::Option* option = nullptr;
    if (row.takes_value()) {
      // each use has one value, whatever that looks like
      option = app_.add_option_function<std::vector<std::string>>(
          names_for_parser(row), [](const std::vector<std::string>&) {});
      option->allow_extra_args(false);
    } else {
      option = app_.add_flag(names_for_parser(row))->disable_flag_override();
    }
    known_.push_back({option, &row, 0});
  }

  CLI::App app_;
  std::vector<Known> known_;
};

std::string quoted_list(std::string_view names) {
  std::string list;
  for (std::size_t from = 0; from < names.size();) {
    const std::size_t to = std::min(names.find(' ', from), names.size());
    if (!list.empty()) list += to == names.size() ? " and " : ", ";
    list.append("'").append(names.substr(from, to - from)).append("'");
    from = to + 1;
  }
  return list;
}

/// The row of that name which the action uses.
const Option* row_for(const Tool& tool, const Option& named, std::string_view action) {
  for (const Option& row : tool.options) {
    if (row.names == named.names && row.is_for(action)) return &row;
  }
  return nullptr;
}

/// All actions that use an option of that name.
std::string actions_of(const Tool& tool, const Option& named) {
  std::string actions;
  for (const Option& row : tool.options) {
    if (row.names != named.names) continue;
    actions.append(actions.empty() ? "" : " ").append(row.actions);
  }
  return actions;
}

bool is_listed(std::string_view list, std::string_view separator, std::string_view name) {
  for (std::size_t from = 0; from <= list.size();) {
    const std::size_t to = std::min(list.find(separator, from), list.size());
    if (list.substr(from, to - from) == name) return true;
    from = to + separator.size();
  }
  return false;
}

}  // namespace

bool Option::is_named(std::string_view name) const {
  return is_listed(names, ", ", name);
}

bool Option::is_for(std::string_view action) const {
  return actions.empty() || is_listed(actions, " ", action);
}

std::span<const Option> common_options() {
  return kCommon;
}

std::chrono::seconds to_seconds(std::string_view what, const std::string& text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, number);
  if (text.empty() || ec != std::errc{} || stop != end) {
    throw UsageError(std::string(what) + " takes a number of seconds, not '" + text + "'");
  }
  return std::chrono::seconds(number);
}

std::chrono::milliseconds to_duration(std::string_view what, const std::string& text) {
  using std::chrono::milliseconds;
  static constexpr std::pair<std::string_view, milliseconds> kUnits[] = {
      {"", std::chrono::seconds(1)},  {"ms", milliseconds(1)},      {"s", std::chrono::seconds(1)},
      {"m", std::chrono::minutes(1)}, {"h", std::chrono::hours(1)},
  };
  if (text == "forever") return kForever;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stop, static_cast<std::size_t>(end - stop));
  for (const auto& [name, length] : kUnits) {
    if (ec != std::errc{} || unit != name) continue;
    const auto most = static_cast<std::uint64_t>(milliseconds(kForever) / length);
    return length * static_cast<std::int64_t>(std::min(number, most));
  }
  throw UsageError(std::string(what) +
                   " takes a duration such as 500ms, 3 (seconds), 1m or "
                   "forever, not '" +
                   text + "'");
}

const Option* find_option(const Tool& tool, std::string_view word) {
  const std::string_view name = word.starts_with("--") ? word.substr(0, word.find('=')) : word;
  for (const std::span<const Option> rows : {std::span<const Option>(kCommon), tool.options}) {
    for (const Option& row : rows) {
      if (row.is_named(word) || (row.takes_value() && row.is_named(name))) return &row;
    }
  }
  return nullptr;
}

std::vector<Given> take_options(const Tool& tool, std::vector<std::string>& words,
                                Options& options) {
  if (tool.words_among_options > 0) {
    bring_forward(tool, words);
  } else {
    spell_out_info(tool, words);
  }
  if (words.empty() || !words.front().starts_with('-')) return {};
  std::vector<Given> given = Parser(tool).parse(words);
  if (!words.empty() && words.front().starts_with('-')) {
    throw UnknownWord("unknown option " + words.front(), words.front());
  }
  std::vector<Given> of_actions;
  for (Given& one : given) {
    if (one.row->actions.empty()) {
      one.row->set(options, std::string(one.row->long_name()), one.value);
    } else {
      of_actions.push_back(std::move(one));
    }
  }
  return of_actions;
}

void set_options(const Tool& tool, std::string_view action, const std::vector<Given>& given,
                 bool ignores_others, Options& options) {
  for (const Given& one : given) {
    const std::string name(one.row->long_name());
    if (const Option* row = row_for(tool, *one.row, action)) {
      row->set(options, name, one.value);
    } else if (!ignores_others) {
      throw UsageError("'" + name + "' is not for '" + std::string(action) + "', but for " +
                       quoted_list(actions_of(tool, *one.row)));
    }
  }
  if (options.wait && options.nowait) throw UsageError("--nowait does not go with --wait");
}

void take_all_options(std::span<const Option> rows, std::vector<std::string>& words,
                      Options& options) {
  const Tool tool{.name = {}, .text = {}, .actions = {}, .options = rows};
  for (const Given& one : take_options(tool, words, options)) {
    one.row->set(options, std::string(one.row->long_name()), one.value);
  }
}

}  // namespace holdfast::cli
