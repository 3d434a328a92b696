/// What contenders do inside a lock, and the traces it leaves for the judge.
///
///     WORK/inside/<pid>:<start>   a witness: there while that process is inside
///     WORK/counter                one number, read and written back inside
///     WORK/log/<pid>:<start>      an entry at the begin and at the end of each section
///     WORK/violations             a line for each broken promise
#pragma once

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace holdfast::testing {

struct Entry {
  enum Kind : std::uint64_t { begin = 1, end = 2, failed_attempt = 3 };
  std::uint64_t kind;
  std::uint64_t counter;  ///< as read at the begin of the section
};

/// Start time of a process that lives; nothing for one that is dead, reaped or not.
inline std::optional<std::string> start_of(const std::string& pid) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + pid + "/stat").rdbuf();
  const std::string stat = text.str();
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(stat.substr(name_end + 1));
  std::string field;
  fields >> field;  // 3, the state
  if (field == "Z" || field == "X") return std::nullopt;
  for (int number = 4; number <= 22; ++number) fields >> field;
  return field;
}

/// Whether the process that a witness is named after still lives.
inline bool is_living(const std::string& witness) {
  const std::size_t colon = witness.find(':');
  return colon != std::string::npos &&
         start_of(witness.substr(0, colon)) == witness.substr(colon + 1);
}

}  // namespace holdfast::testing
