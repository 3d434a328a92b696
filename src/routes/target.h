#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::routes {

/// "%2F" to "/", and with `plus`, as in queries, "+" to a blank. Nothing if it is malformed or no
/// UTF-8.
std::optional<std::string> decode(std::string_view text, bool plus);

/// No name holds a NUL, and a database may take it for the end of the text: what is asked for would
/// be another name.
inline bool has_nul(std::string_view text) {
  return text.find('\0') != std::string_view::npos;
}

/// The query's value for a key, decoded; the last one counts.
class Query {
 public:
  explicit Query(std::string_view text);
  std::optional<std::string> value(std::string_view key) const;

  /// Part of it is badly encoded or holds a NUL; that part is left out.
  bool is_malformed() const { return is_malformed_; }

 private:
  std::vector<std::pair<std::string, std::string>> pairs_;
  bool is_malformed_ = false;
};

/// What a path names.
enum class Place {
  nowhere,
  dashboard,
  claims,
  claim,  ///< argument: what stands in the place of the id
  resources,
  queue,  ///< argument: the resource's name
  fence,  ///< argument: the resource's name
  events,
  revoke,
  stats,
  whoami,
  openapi,
  metrics,
  healthz,
  readyz,
};

struct Target {
  Place place = Place::nowhere;
  std::string argument;
};

/// Runs of slashes are one, and the last one may be missing.
Target find_target(std::string_view path);

}  // namespace holdfast::routes
