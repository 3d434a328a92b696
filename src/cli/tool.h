#pragma once

#include <chrono>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/uid.h"
#include "cli/option.h"

namespace holdfast::cli {

/// A variable of the environment makes no sense: only the cause is told, exit 10.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Call;

/// Whether the words of a stale checker stand before an action.
enum class CheckerWords { none, optional, needed };

/// How many words an action takes. A plain number is exactly that many.
struct WordCount {
  // NOLINTNEXTLINE(google-explicit-constructor): rows of actions say just "2"
  constexpr WordCount(unsigned exactly) : least(exactly), most(exactly) {}
  constexpr WordCount(unsigned at_least, unsigned at_most) : least(at_least), most(at_most) {}

  unsigned least;
  unsigned most;
};

/// For an action that takes a list: as many words as there are, but `least`.
constexpr WordCount at_least(unsigned least) {
  return {least, std::numeric_limits<unsigned>::max()};
}

/// Which words of an action are paths, where an option must be a mistake.
enum class Paths { none, first, all };

struct Action {
  std::string_view name;
  std::string_view words;  ///< as the usage shows them
  WordCount count;
  Exit (*run)(Call&);
  CheckerWords checker = CheckerWords::none;
  Paths paths = Paths::first;
  bool flags_may_follow = false;  ///< flags of this action may also stand directly behind it
};

struct Tool {
  std::string_view name;
  std::string_view text;  ///< what it is, for the usage
  std::span<const Action> actions;
  std::span<const Option> options{};  ///< besides --info, --debug, --help and --version
  bool takes_checker = false;
  bool empty_is_missing = true;  ///< an empty word counts as left out
  bool takes_paths = true;       ///< false: Action::paths does not count, its words are ids
  std::string_view idhelper{};   ///< what stands before the words of --idhelper
  bool takes_locker = false;     ///< the first plain word is one, unless --local is given
  /// Options may also stand between the leading plain words, as many as these, and before the next
  /// one. 0: the first plain word ends them.
  unsigned words_among_options = 0;
};

/// One run of one action.
class Call {
 public:
  Call(std::string_view tool, std::vector<std::string> words, const Options& given)
      : options(given),
        log(given.level),
        doubts(log.telling_once()),
        tool_(tool),
        words_(std::move(words)) {}

  const Options& options;
  const Log log;
  const Log doubts;  ///< for who asks about holders: who waits gets the same answer many times

  bool has(std::size_t i) const { return i < words_.size(); }
  const std::string& word(std::size_t i) const { return words_.at(i); }
  Uid id(
      std::size_t i) const;  ///< the word as an id, or a UsageError that says what is wrong with it

  std::chrono::seconds seconds(std::size_t i) const;  ///< the word as a number of them, likewise

  void print(std::string_view line) { output_.append(line).append("\n"); }
  const std::string& output() const { return output_; }

  std::string_view tool() const { return tool_; }

  /// A person sits at the other end of stderr.
  bool has_reader() const;
  /// So it is, or --info was given.
  bool is_talkative() const { return options.level != Log::Level::quiet || has_reader(); }

 private:
  std::string_view tool_;
  std::vector<std::string> words_;
  std::string output_;
};

/// Parses, runs the action, writes its answer. The only place that catches.
///
/// argv[0] says whose rules hold: under a name that ends in ".sh" the tool stands in for a script
/// of the shell package. It then ignores surplus words as that script does, takes each option with
/// every action, takes any word for a path, and prints its help on stderr with 10.
int run_tool(const Tool& tool, int argc, char** argv);

/// An option of the command line that is for some actions only.
struct Given {
  const Option* row;
  std::string value;
};

/// Takes leading options off `words`; the first word that is none ends them, but see
/// Tool::words_among_options. Sets what is for every action, and returns the rest in order.
std::vector<Given> take_options(const Tool& tool, std::vector<std::string>& words,
                                Options& options);

/// Sets those that `action` uses. The others are a UsageError, or left out with `ignores_others`.
void set_options(const Tool& tool, std::string_view action, const std::vector<Given>& given,
                 bool ignores_others, Options& options);

/// For words that another tool's options are made of, and no action is among: sets all of them.
void take_all_options(std::span<const Option> rows, std::vector<std::string>& words,
                      Options& options);

/// The row that `word` names, as --name or --name=value; or nothing.
const Option* find_option(const Tool& tool, std::string_view word);

/// What every tool has: --info, --debug, --help and --version.
std::span<const Option> common_options();

/// The whole help text of a tool that was called by `name`.
std::string usage(const Tool& tool, std::string_view name);

/// What is said of words that make no sense: the cause, with a suggestion if it is a typo, and the
/// usage line of `action`, or of the action that was suggested, or of the tool.
std::string brief_usage(const Tool& tool, const UsageError& error, const Action* action);

/// The one of `names` that `word` is most likely a typo of; empty if none is near enough.
std::string_view nearest(std::string_view word, std::span<const std::string_view> names);

bool needs_checker(const Tool& tool);  ///< of at least one of its actions

}  // namespace holdfast::cli
