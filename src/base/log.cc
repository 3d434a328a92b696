#define FMT_HEADER_ONLY  // Debian has no static libfmt, and this is the one file that formats
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <ctime>
#include <memory>
#include <mutex>
#include <set>
#include <string>

namespace holdfast {
namespace {

spdlog::logger& stderr_logger() {
  static spdlog::logger logger = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_st>();
    sink->set_pattern("%v");  // the shell's forms are made in prefix(): no level, no bracket
    spdlog::logger made("holdfast", std::move(sink));
    made.set_level(spdlog::level::trace);
    return made;
  }();
  return logger;
}

/// What `date` prints in the C locale.
std::string date() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[64];
  return std::string(text, std::strftime(text, sizeof text, "%a %b %e %H:%M:%S %Z %Y", &local));
}

}  // namespace

/// Warnings that were told.
class Log::Told {
 public:
  bool is_new(const std::string& line) {
    const std::scoped_lock lock(mutex_);
    return lines_.insert(line).second;
  }

 private:
  std::mutex mutex_;
  std::set<std::string> lines_;
};

Log Log::telling_once() const {
  Log log(level_);
  if (level_ != Level::debug) log.told_ = std::make_shared<Told>();
  return log;
}

void Log::write(Kind kind, fmt::string_view text, fmt::format_args args) const {
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info,
                                                          spdlog::level::warn, spdlog::level::err};
  std::string line = level_ == Level::debug ? date() + " " : std::string();
  if (kind == Kind::error) line += " ERROR - ";
  line += fmt::vformat(text, args);
  for (char& c : line) {
    // ids and records come from others: nothing in them may move a cursor or fake a second line
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = '?';
  }
  if (told_ && kind == Kind::warn && !told_->is_new(line)) return;
  spdlog::logger& logger = stderr_logger();
  logger.log(kLevels[static_cast<int>(kind)], spdlog::string_view_t(line));
  logger.flush();
}

const Log& silent_log() {
  static const Log log(Log::Level::silent);
  return log;
}

}  // namespace holdfast
