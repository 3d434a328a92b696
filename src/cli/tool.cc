#include "cli/tool.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <system_error>

#include "cli/version.h"

namespace holdfast::cli {
namespace {

/// Whose rules the command line follows.
enum class Grammar {
  ours,
  shell,  ///< of the shell package's scripts: whatever they ignore is ignored
};

Grammar grammar_of(int argc, char** argv) {
  return argc > 0 && std::string_view(argv[0]).ends_with(".sh") ? Grammar::shell : Grammar::ours;
}

/// What the tool calls itself.
std::string_view name_of(const Tool& tool, int argc, char** argv) {
  if (grammar_of(argc, argv) == Grammar::ours) return tool.name;
  const std::string_view path = argv[0];
  return path.substr(path.rfind('/') + 1);
}

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw std::system_error(errno, std::generic_category());
    text.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Honoured as the shell does; nothing else in the environment is.
Log::Level level_from_environment() {
  const char* debug = std::getenv("DEBUG");
  if (debug && std::strcmp(debug, "DEBUG") == 0) return Log::Level::debug;
  if (debug && std::strcmp(debug, "INFO") == 0) return Log::Level::info;
  return Log::Level::quiet;
}

/// Options, then the checker with its own words where the tool takes one; leaves the action and its
/// words.
std::vector<Given> take_leading_words(const Tool& tool, std::vector<std::string>& words,
                                      Options& options) {
  std::vector<Given> given = take_options(tool, words, options);
  if (tool.takes_locker && !options.local && !words.empty()) {
    options.locker.push_back(words.front());
    words.erase(words.begin());
  }
  if (!tool.takes_checker) return given;
  const auto is_action_without = [&](const std::string& word) {
    return std::any_of(tool.actions.begin(), tool.actions.end(), [&](const Action& action) {
      return action.name == word && action.checker != CheckerWords::needed;
    });
  };
  if (words.empty() || is_action_without(words.front())) return given;
  if (options.checker.empty()) {
    options.checker.push_back(words.front());
    words.erase(words.begin());
    const std::vector<Given> more = take_options(tool, words, options);
    given.insert(given.end(), more.begin(), more.end());
  }
  return given;
}

const Action& find_action(const Tool& tool, const std::vector<std::string>& words,
                          const Options& options) {
  const bool has_action = !words.empty() && !words.front().empty();
  const bool has_checker = tool.takes_checker && !options.checker.empty();
  if (needs_checker(tool) && !has_action) {
    throw UsageError(has_checker ? "you must specify a stale checker and an action"
                                 : "you must specify a stale checker");
  }
  if (tool.takes_locker && !options.local && options.locker.empty()) {
    throw UsageError("you must specify a locker");
  }
  const bool is_doubtful = has_checker && !needs_checker(tool);  // it may be a mistyped action
  if (!has_action && is_doubtful) {
    throw UnknownWord("unknown action (" + options.checker[0] + ")", options.checker[0]);
  }
  if (!has_action) throw UsageError("unspecified <ACTION>");
  for (const Action& action : tool.actions) {
    if (action.name == words.front()) return action;
  }
  if (is_doubtful) {
    throw UnknownWord(
        "neither '" + options.checker[0] + "' nor '" + words.front() + "' is an action",
        options.checker[0]);
  }
  throw UnknownWord("unknown action (" + words.front() + ")", words.front());
}

/// Flags that stand directly behind their action.
void take_flags(const Tool& tool, const Action& action, std::vector<std::string>& words,
                std::vector<Given>& given) {
  while (action.flags_may_follow && !words.empty()) {
    const Option* row = find_option(tool, words.front());
    if (!row || row->takes_value() || row->actions.empty()) return;
    given.push_back({row, ""});
    words.erase(words.begin());
  }
}

/// A user who writes an option behind the action must not get a lock of that name.
void check_paths(const Tool& tool, const Action& action, const std::vector<std::string>& words) {
  const std::size_t paths = action.paths == Paths::all     ? words.size()
                            : action.paths == Paths::first ? std::min<std::size_t>(words.size(), 1)
                                                           : 0;
  for (std::size_t i = 0; i < paths; ++i) {
    if (!find_option(tool, words[i])) continue;
    throw UsageError("'" + words[i] +
                     "' is an option and stands before the action; a path of that name is written "
                     "'./" +
                     words[i] + "'");
  }
}

void check_words(const Tool& tool, const Action& action, const std::vector<std::string>& words,
                 Grammar grammar) {
  if (grammar == Grammar::ours && tool.takes_paths) check_paths(tool, action, words);
  const std::string lead = "action '" + std::string(action.name) + "' ";
  for (std::size_t i = 0; i < action.count.least; ++i) {
    if (i >= words.size() || (tool.empty_is_missing && words[i].empty())) {
      throw UsageError(lead + "needs " + std::string(action.words));
    }
  }
  if (grammar == Grammar::ours && words.size() > action.count.most) {
    throw UsageError(lead + "has no use for '" + words[action.count.most] + "'");
  }
}

int answer(const Log& log, std::string_view text, int code) {
  try {
    write_all(STDOUT_FILENO, text);
    return code;
  } catch (const std::system_error& e) {
    log.error("cannot write the answer: {}", e.code().message());
    return static_cast<int>(LockExit::output_failed);
  }
}

int tell_usage(const std::string& text) {
  try {
    write_all(STDERR_FILENO, text);
  } catch (const std::system_error&) {
    // nobody is listening: the code has to do
  }
  return static_cast<int>(LockExit::usage);
}

/// A reader of standard error that went away, or a limit on the size of files, must not kill a tool
/// that holds the lock already: the calls fail instead. Blocking both signals is one system call,
/// ignoring them would be two. Programs that the tool starts begin with none blocked.
void keep_running() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  sigaddset(&set, SIGXFSZ);
  sigprocmask(SIG_BLOCK, &set, nullptr);
}

/// Who asks for help or the version asks for nothing else. Run as a stale checker, a tool gets an
/// id behind its words, and 0 would call that id dead.
void check_nothing_follows(const Tool& tool, const std::vector<std::string>& words,
                           const std::string& option) {
  const bool is_about_action =
      words.size() == 1 &&
      std::any_of(tool.actions.begin(), tool.actions.end(),
                  [&](const Action& action) { return action.name == words.front(); });
  if (!words.empty() && !is_about_action) {
    throw UsageError(option + " has no use for '" + words.back() + "'");
  }
}

/// `chosen`: the action, as soon as it is known.
int run(const Tool& tool, int argc, char** argv, const Action*& chosen) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  Options options;
  options.level = level_from_environment();
  if (!tool.idhelper.empty()) options.idhelper.emplace_back(tool.idhelper);
  const Grammar grammar = grammar_of(argc, argv);
  std::vector<Given> given = take_leading_words(tool, words, options);
  if (options.version) {
    check_nothing_follows(tool, words, "--version");
    return answer(Log(options.level), std::string(tool.name) + " (holdfast) " + kVersion + "\n", 0);
  }
  const std::string_view name = name_of(tool, argc, argv);
  if (options.help && grammar == Grammar::shell) return tell_usage(usage(tool, name));
  if (options.help) {
    check_nothing_follows(tool, words, "--help");
    return answer(Log(options.level), usage(tool, name), 0);
  }
  const Action& action = find_action(tool, words, options);
  chosen = &action;
  words.erase(words.begin());
  take_flags(tool, action, words, given);
  check_words(tool, action, words, grammar);
  set_options(tool, action.name, given, grammar == Grammar::shell, options);
  Call call(name, std::move(words), options);
  const Exit exit = action.run(call);
  return answer(call.log, call.output(), exit.code());
}

}  // namespace

Uid Call::id(std::size_t i) const {
  std::string why;
  if (auto id = Uid::parse(word(i), why)) return *id;
  throw UsageError(why);
}

std::chrono::seconds Call::seconds(std::size_t i) const {
  return to_seconds("word " + std::to_string(i + 1), word(i));
}

bool Call::has_reader() const {
  return isatty(STDERR_FILENO) == 1;
}

int run_tool(const Tool& tool, int argc, char** argv) {
  keep_running();
  const Action* action = nullptr;
  try {
    return run(tool, argc, argv, action);
  } catch (const UsageError& e) {
    if (grammar_of(argc, argv) == Grammar::ours) return tell_usage(brief_usage(tool, e, action));
    const std::string help = usage(tool, name_of(tool, argc, argv));
    return tell_usage(help + "Error - " + e.what() + "\n");
  } catch (const EnvironmentError& e) {
    Log().error("{}", e.what());
    return static_cast<int>(LockExit::usage);
  } catch (const std::exception& e) {
    Log().error("{}", e.what());
    return static_cast<int>(LockExit::proposal_failed);
  }
}

}  // namespace holdfast::cli
