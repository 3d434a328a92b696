#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"

namespace holdfast::cli {

/// The words on the command line make no sense: exit 10, with this cause and a line of usage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The same for a word that is no action or option of the tool, and perhaps a typo of one.
class UnknownWord : public UsageError {
 public:
  UnknownWord(const std::string& cause, std::string word)
      : UsageError(cause), word_(std::move(word)) {}

  const std::string& word() const { return word_; }

 private:
  std::string word_;
};

/// What the options of a command line ask for.
struct Options {
  Log::Level level = Log::Level::quiet;
  bool help = false;
  bool version = false;
  bool strict = false;                             ///< --strict
  bool dir_leaf = false;                           ///< --dir-leaf
  std::optional<std::chrono::seconds> older_than;  ///< --older-than
  std::chrono::seconds patience{5};                ///< --wait of kill
  std::vector<std::string> checker;                ///< CHECKER -s ARG..., or --checker
  std::optional<std::chrono::seconds> grace;       ///< --grace-seconds
  std::vector<std::string> notifier;               ///< --on-check-fail, word by word
  std::vector<std::string> idhelper;               ///< --idhelper, word by word
  std::optional<std::chrono::milliseconds> wait;   ///< --wait for a lock
  bool nowait = false;                             ///< --nowait
  std::chrono::seconds hold_limit{30};             ///< --hold-limit
  std::string id;                                  ///< --id: the holder, if not the caller
  std::optional<std::string> permits;              ///< --permits
  bool barge = false;                              ///< --barge
  bool prefer_writers = false;                     ///< --prefer-writers
  bool ssh = false;                                ///< --ssh: ids of a cluster
  bool json = false;                               ///< --json
  bool ids_json = false;                           ///< --ids-json
  bool local = false;                              ///< --local
  std::vector<std::string> locker;                 ///< LOCKER, of tools that take one
  std::vector<std::string> locker_args;            ///< --locker-arg, word by word
  bool ssh_strict = false;                         ///< --ssh-strict: only hosts with a known key
  bool ssh_insecure = false;                       ///< --ssh-insecure: any key will do
  std::optional<std::chrono::seconds> connect;     ///< --connect-timeout
  std::optional<std::chrono::seconds> total;       ///< --timeout

  /// How long an attempt must have been left untouched for `clean` to remove it.
  std::chrono::seconds age() const { return older_than.value_or(std::chrono::seconds(5)); }
};

/// One option of a tool. The parser, the usage text and the refusal of an option that the action
/// does not use all come from this row; tests/system/pages compares it with the manual page.
///
/// An option that says what an action does lists its actions, and is refused with any other. An
/// option that says what the lock is (whose ids, which checker, which host keys) goes with every
/// action, because scripts keep it in one variable: LOCKER="lock_ssh --grace-seconds 5".
struct Option {
  std::string_view names;    ///< "-w, --wait"
  std::string_view value;    ///< "<duration>"; empty: a flag
  std::string_view actions;  ///< names with a blank between two; empty: every action
  std::string_view help;     ///< empty: the usage does not show it
  /// `name` is the long one of `names`, for messages.
  void (*set)(Options& options, const std::string& name, const std::string& value);

  std::string_view long_name() const { return names.substr(names.find("--")); }
  bool takes_value() const { return !value.empty(); }
  bool is_named(std::string_view name) const;  ///< by any of `names`
  bool is_for(std::string_view action) const;
};

/// `text` as a number of seconds, or a UsageError that begins with `what`.
std::chrono::seconds to_seconds(std::string_view what, const std::string& text);

/// `text` as a duration (500ms, 3, 3s, 1m, 2h or forever), or a UsageError that begins with `what`.
std::chrono::milliseconds to_duration(std::string_view what, const std::string& text);

/// What "forever" stands for: longer than any process lives, and far from an overflow.
inline constexpr std::chrono::hours kForever{24 * 365 * 100};

template <auto Member>
void set_flag(Options& options, const std::string&, const std::string&) {
  options.*Member = true;
}
template <auto Member>
void set_text(Options& options, const std::string&, const std::string& value) {
  options.*Member = value;
}
template <auto Member>
void set_seconds(Options& options, const std::string& name, const std::string& value) {
  options.*Member = to_seconds(name, value);
}
template <auto Member>
void set_duration(Options& options, const std::string& name, const std::string& value) {
  options.*Member = to_duration(name, value);
}
template <auto Member>
void add_word(Options& options, const std::string&, const std::string& value) {
  (options.*Member).push_back(value);
}

/// Rows that several tools have.
namespace rows {

constexpr Option strict(std::string_view actions) {
  return {"--strict", "", actions, "an error if it is not held", set_flag<&Options::strict>};
}
constexpr Option dir_leaf(std::string_view actions) {
  return {"--dir-leaf", "", actions, "mark the holder by a folder, not by a file",
          set_flag<&Options::dir_leaf>};
}
constexpr Option older_than(std::string_view actions) {
  return {"--older-than", "<seconds>", actions, "attempts untouched for so long are removed (5)",
          set_seconds<&Options::older_than>};
}

/// Of tools that wait for a lock. `help` says what happens without --wait.
constexpr Option wait(std::string_view actions, std::string_view help) {
  return {"-w, --wait", "<duration>", actions, help, set_duration<&Options::wait>};
}
constexpr Option nowait(std::string_view actions, std::string_view help) {
  return {"-n, --nowait", "", actions, help, set_flag<&Options::nowait>};
}
inline constexpr std::string_view kWaitHelp =
    "wait so long: 500ms, 3 (seconds), 1m, forever (not at all)";
inline constexpr std::string_view kNowaitHelp = "try once (default)";

/// Of tools that signal a process: a row of its own beside wait(). The hosts of a cluster count
/// whole seconds.
constexpr Option kill_wait(std::string_view actions) {
  return {"-w, --wait", "<duration>", actions, "how long to wait for the end of the process (5)",
          [](Options& options, const std::string& name, const std::string& value) {
            options.patience = std::chrono::ceil<std::chrono::seconds>(to_duration(name, value));
          }};
}

constexpr Option grace(std::string_view help) {
  return {"--grace-seconds", "<seconds>", "", help, set_seconds<&Options::grace>};
}
inline constexpr Option kNotifier{"--on-check-fail", "<word>", "",
                                  "once per word: a command to run when nobody can tell",
                                  add_word<&Options::notifier>};
inline constexpr Option kCheckerArg{"-s, --checker-arg", "<arg>", "",
                                    "one more word for the stale checker",
                                    add_word<&Options::checker>};
inline constexpr Option kIdHelper{"--idhelper", "<word>", "",
                                  "once per word: the command that makes ids, as ssh_id does",
                                  add_word<&Options::idhelper>};
inline constexpr Option kChecker{"--checker", "<word>", "",
                                 "once per word: the command that checks ids, if not the id helper",
                                 add_word<&Options::checker>};
inline constexpr Option kSsh{"--ssh", "", "", "the ids are processes of any host, as for lock_ssh",
                             set_flag<&Options::ssh>};
inline constexpr Option kSshStrict{"--ssh-strict", "", "", "ask only hosts whose key is known",
                                   set_flag<&Options::ssh_strict>};
inline constexpr Option kSshInsecure{"--ssh-insecure", "", "", "ask any host, whatever its key",
                                     set_flag<&Options::ssh_insecure>};

}  // namespace rows
}  // namespace holdfast::cli
