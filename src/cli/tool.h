#pragma once

#include <chrono>
#include <limits>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.h"
#include "base/log.h"
#include "base/uid.h"

namespace holdfast::cli {

/// The words on the command line make no sense: usage on stderr with this cause, exit 10.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// So is a variable of the environment: only the cause is told, exit 10.
class EnvironmentError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// What may stand before the action.
struct Options {
  Log::Level level = Log::Level::quiet;
  bool help = false;
  bool version = false;
  bool strict = false;               ///< --strict: an unlock of what is not ours is a failure
  bool dir_leaf = false;             ///< --dir-leaf
  std::chrono::seconds age{5};       ///< --older-than: for clean
  std::chrono::seconds patience{5};  ///< --wait: for kill
  std::vector<std::string> checker;  ///< CHECKER -s ARG..., of tools that take one; or --checker
  std::optional<std::chrono::seconds> grace;    ///< --grace-seconds
  std::vector<std::string> notifier;            ///< --on-check-fail, word by word
  std::vector<std::string> idhelper;            ///< --idhelper, word by word
  std::optional<std::chrono::seconds> wait;     ///< --wait, of tools that stand in line
  bool nowait = false;                          ///< --nowait
  std::chrono::seconds hold_limit{30};          ///< --hold-limit
  std::string id;                               ///< --id: for whom, if not for who calls
  std::optional<std::string> permits;           ///< --permits
  bool barge = false;                           ///< --barge
  bool prefer_writers = false;                  ///< --prefer-writers
  bool ssh = false;                             ///< --ssh: ids of a cluster
  bool json = false;                            ///< --json
  bool ids_json = false;                        ///< --ids-json
  bool local = false;                           ///< --local
  std::vector<std::string> locker;              ///< LOCKER, of tools that take one
  std::vector<std::string> locker_args;         ///< --locker-arg, word by word
  bool ssh_strict = false;                      ///< --ssh-strict: only hosts with a known key
  bool ssh_insecure = false;                    ///< --ssh-insecure: any key will do
  std::optional<std::chrono::seconds> connect;  ///< --connect-timeout
  std::optional<std::chrono::seconds> total;    ///< --timeout
};

/// Which of them a tool knows, besides --info, --debug, --help and --version.
enum Knows : unsigned {
  knows_strict = 1,
  knows_dir_leaf = 2,
  knows_age = 4,
  knows_patience = 8,
  knows_grace = 16,
  knows_notifier = 32,
  knows_helpers = 64,  ///< --idhelper and --checker
  knows_ssh = 128,     ///< --ssh-strict and --ssh-insecure
  knows_timeouts = 256,
  knows_wait = 1024,      ///< --wait for a lock, not with knows_patience
  knows_several = 16384,  ///< --nowait, --hold-limit and --id
  knows_permits = 32768,  ///< --permits
  knows_order = 2048,     ///< --fair, --barge and --prefer-writers
  knows_cluster = 4096,   ///< --ssh, which the options of lock_ssh may follow
  knows_json = 8192,      ///< --json and --ids-json
  knows_locker = 512,     ///< --local and --locker-arg
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

struct Action {
  std::string_view name;
  std::string_view words;  ///< as the usage shows them
  WordCount count;
  Exit (*run)(Call&);
  CheckerWords checker = CheckerWords::none;
};

struct Tool {
  std::string_view name;
  std::string_view text;  ///< what it is, for the usage
  std::span<const Action> actions;
  unsigned knows = 0;
  bool takes_checker = false;
  bool empty_is_missing = true;  ///< an empty word counts as left out
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

/// `text` as a number of seconds, or a UsageError that begins with `what`.
std::chrono::seconds to_seconds(std::string_view what, const std::string& text);

/// Parses, runs the action, writes its answer. The only place that catches.
///
/// argv[0] says whose rules hold: under a name that ends in ".sh" the tool stands in for a script
/// of the shell package, and ignores surplus words as that script does.
int run_tool(const Tool& tool, int argc, char** argv);

/// Takes leading options off `words`; the first word that is none ends them. For `-s` see
/// Tool::takes_checker.
void take_options(const Tool& tool, std::vector<std::string>& words, Options& options);

}  // namespace holdfast::cli
