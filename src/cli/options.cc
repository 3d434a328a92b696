// CLI11 includes <iostream>, and with it comes a constructor that sets up eight streams and a
// locale in every run of every tool: a tenth of the whole start. Nothing here uses those streams;
// their declarations are enough.
#define _GLIBCXX_IOSTREAM 1  // NOLINT(bugprone-reserved-identifier)
#include <istream>
#include <ostream>
namespace std {  // NOLINT(cert-dcl58-cpp)
extern istream cin;
extern ostream cout;
extern ostream cerr;
}  // namespace std
#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>

#include "cli/tool.h"

namespace holdfast::cli {
namespace {

bool takes_value(const std::string& option) {
  static constexpr const char* kWithValue[] = {"-s",
                                               "--checker-arg",
                                               "--older-than",
                                               "--wait",
                                               "--grace-seconds",
                                               "--on-check-fail",
                                               "--idhelper",
                                               "--connect-timeout",
                                               "--timeout",
                                               "--checker",
                                               "-a",
                                               "--locker-arg",
                                               "--hold-limit",
                                               "--id",
                                               "--permits"};
  return std::any_of(std::begin(kWithValue), std::end(kWithValue),
                     [&](const char* name) { return option == name; });
}

/// The shell's two-letter option with one dash, which a parser would take for -d -i.
void spell_out_info(std::vector<std::string>& words) {
  for (std::size_t i = 0; i < words.size() && words[i].starts_with('-'); ++i) {
    if (words[i] == "-di") words[i] = "--info";
    if (takes_value(words[i])) ++i;
  }
}

bool is_option(const CLI::App& app, const std::string& word) {
  return word.starts_with('-') && app.get_option_no_throw(word.substr(
                                      0, word.starts_with("--") ? word.find('=') : word.size()));
}

/// Brings the options that stand among the leading plain words before them. A word that is no
/// option by its whole name is a plain one, whatever it begins with: paths may.
void bring_forward(const Tool& tool, const CLI::App& app, std::vector<std::string>& words) {
  std::vector<std::string> given;
  std::vector<std::string> plain;
  unsigned left = tool.words_among_options;
  std::size_t i = 0;
  for (; i < words.size(); ++i) {
    if (words[i] == "-di") words[i] = "--info";
    if (is_option(app, words[i])) {
      const bool is_locker = words[i] == "-l" || words[i] == "--local";
      if (tool.takes_locker && is_locker && left > 0) --left;
      given.push_back(words[i]);
      if (takes_value(words[i]) && i + 1 < words.size()) given.push_back(words[++i]);
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

}  // namespace

std::chrono::seconds to_seconds(std::string_view what, const std::string& text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, ec] = std::from_chars(text.data(), end, number);
  if (text.empty() || ec != std::errc{} || stop != end) {
    throw UsageError(std::string(what) + " takes a number of seconds, not '" + text + "'");
  }
  return std::chrono::seconds(number);
}

void take_options(const Tool& tool, std::vector<std::string>& words, Options& options) {
  const bool is_leading = !words.empty() && words.front().starts_with('-');
  if (!is_leading && tool.words_among_options == 0) return;
  if (is_leading && tool.words_among_options == 0) spell_out_info(words);

  CLI::App app;
  app.set_help_flag();
  app.prefix_command();
  const CLI::Option* info = app.add_flag("--info");
  const CLI::Option* debug = app.add_flag("-d,--debug");
  app.add_flag("-u,-h,--help", options.help);
  app.add_flag("--version", options.version);
  if (tool.knows & knows_strict) app.add_flag("--strict", options.strict);
  if (tool.knows & knows_dir_leaf) app.add_flag("--dir-leaf", options.dir_leaf);
  const auto add_seconds = [&](const char* name, auto& seconds) {
    app.add_option_function<std::string>(
           name, [name, &seconds](const std::string& text) { seconds = to_seconds(name, text); })
        ->take_last();
  };
  if (tool.knows & knows_age) add_seconds("--older-than", options.age);
  if (tool.knows & knows_patience) add_seconds("--wait", options.patience);
  if (tool.knows & knows_wait) add_seconds("--wait", options.wait);
  if (tool.knows & knows_order) {
    const auto set_order = [&options](bool barge, bool prefer_writers) {
      return [&options, barge, prefer_writers](std::int64_t) {
        options.barge = barge;
        options.prefer_writers = prefer_writers;
      };
    };
    app.add_flag_function("--fair", set_order(false, false));
    app.add_flag_function("--barge", set_order(true, false));
    app.add_flag_function("--prefer-writers", set_order(false, true));
  }
  if (tool.knows & knows_several) {
    app.add_flag("--nowait", options.nowait);
    add_seconds("--hold-limit", options.hold_limit);
    app.add_option("--id", options.id)->take_last();
  }
  if (tool.knows & knows_permits) app.add_option("--permits", options.permits)->take_last();
  if (tool.knows & knows_cluster) app.add_flag("--ssh", options.ssh);
  if (tool.knows & knows_json) {
    app.add_flag("--json", options.json);
    app.add_flag("--ids-json", options.ids_json);
  }
  if (tool.knows & knows_grace) add_seconds("--grace-seconds", options.grace);
  if (tool.knows & knows_timeouts) {
    add_seconds("--connect-timeout", options.connect);
    add_seconds("--timeout", options.total);
  }
  // each use adds a word, whatever it looks like
  const auto add_words = [&](const char* name, std::vector<std::string>& to) {
    app.add_option_function<std::vector<std::string>>(name,
                                                      [&to](const std::vector<std::string>& args) {
                                                        to.insert(to.end(), args.begin(),
                                                                  args.end());
                                                      })
        ->allow_extra_args(false);
  };
  if (tool.takes_checker) add_words("-s,--checker-arg", options.checker);
  if (tool.knows & knows_notifier) add_words("--on-check-fail", options.notifier);
  if (tool.knows & knows_helpers) {
    add_words("--idhelper", options.idhelper);
    add_words("--checker", options.checker);
  }
  if (tool.knows & knows_ssh) {
    app.add_flag("--ssh-strict", options.ssh_strict);
    app.add_flag("--ssh-insecure", options.ssh_insecure);
  }
  if (tool.knows & knows_locker) {
    app.add_flag("-l,--local", options.local);
    add_words("-a,--locker-arg", options.locker_args);
  }
  if (tool.words_among_options > 0) {
    bring_forward(tool, app, words);
    if (words.empty() || !words.front().starts_with('-')) return;
  }
  try {
    app.parse(std::vector<std::string>(words.rbegin(), words.rend()));
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  for (const CLI::Option* given : app.parse_order()) {  // the last one counts
    if (given == info) options.level = Log::Level::info;
    if (given == debug) options.level = Log::Level::debug;
  }
  words = app.remaining();
  if (!words.empty() && words.front().starts_with('-'))
    throw UsageError("unknown option " + words.front());
}

}  // namespace holdfast::cli
