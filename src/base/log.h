#pragma once

#include <fmt/core.h>

#include <memory>
#include <string_view>

namespace holdfast {

/// What a tool tells on stderr besides its answer, in the shell lockers' forms:
///
///     silent            nothing: for programs that use the library
///     quiet (default)   " ERROR - text", and warnings as plain lines
///     info              the same, and events as plain lines: "LOCK locked by ID"
///     debug             the same and single steps, each with `date` output and a space in front
///
/// Formatting and spdlog are paid for only by a line that is really written.
class Log {
 public:
  enum class Level { silent, quiet, info, debug };

  explicit Log(Level level = Level::quiet) : level_(level) {}

  Level level() const { return level_; }

  /// The same, but of its warnings, and those of its copies, each is told once: for one who asks
  /// again and again and gets the same answer. With debug all are told.
  Log telling_once() const;

  template <class... Args>
  void debug(fmt::format_string<Args...> text, Args&&... args) const {
    if (level_ == Level::debug) write(Kind::debug, text, fmt::make_format_args(args...));
  }
  template <class... Args>
  void info(fmt::format_string<Args...> text, Args&&... args) const {
    if (level_ >= Level::info) write(Kind::info, text, fmt::make_format_args(args...));
  }
  /// Could not tell live from stale, and the like: what a person should see even when not asked
  /// for.
  template <class... Args>
  void warn(fmt::format_string<Args...> text, Args&&... args) const {
    if (level_ >= Level::quiet) write(Kind::warn, text, fmt::make_format_args(args...));
  }
  template <class... Args>
  void error(fmt::format_string<Args...> text, Args&&... args) const {
    if (level_ >= Level::quiet) write(Kind::error, text, fmt::make_format_args(args...));
  }

 private:
  enum class Kind { debug, info, warn, error };
  void write(Kind kind, fmt::string_view text, fmt::format_args args) const;

  class Told;

  Level level_;
  std::shared_ptr<Told> told_;
};

const Log& silent_log();

}  // namespace holdfast
