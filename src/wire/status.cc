#include "wire/status.h"

namespace holdfast::wire {
namespace {

constexpr std::array<std::string_view, kStatusCount> kStatusWords{
    "waiting", "active", "released", "aborted", "withdrawn", "revoked", "expired"};
constexpr std::array<std::string_view, 3> kModeWords{"exclusive", "shared", "counted"};

}  // namespace

std::string_view word(Status status) {
  return kStatusWords.at(static_cast<std::size_t>(status));
}

std::string_view word(Mode mode) {
  return kModeWords.at(static_cast<std::size_t>(mode));
}

std::optional<Status> to_status(std::string_view word) {
  for (std::size_t i = 0; i < kStatusWords.size(); ++i) {
    if (kStatusWords[i] == word) return static_cast<Status>(i);
  }
  return std::nullopt;
}

}  // namespace holdfast::wire
