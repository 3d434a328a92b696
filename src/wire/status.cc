#include "wire/status.h"

namespace holdfast::wire {
namespace {

constexpr std::array<std::string_view, kStatusCount> kStatusWords{
    "waiting", "active", "released", "aborted", "withdrawn", "revoked", "expired"};
constexpr std::array<std::string_view, kModeCount> kModeWords{"exclusive", "shared", "counted"};

/// A claim that cannot be read must not end the server that shows it.
template <std::size_t kSize>
std::string_view word_at(const std::array<std::string_view, kSize>& words, std::size_t place) {
  if (place >= kSize) return "unknown";
  return words[place];
}

}  // namespace

std::string_view word(Status status) {
  return word_at(kStatusWords, static_cast<std::size_t>(status));
}

std::string_view word(Mode mode) {
  return word_at(kModeWords, static_cast<std::size_t>(mode));
}

std::optional<Status> to_status(std::string_view word) {
  for (std::size_t i = 0; i < kStatusWords.size(); ++i) {
    if (kStatusWords[i] == word) return static_cast<Status>(i);
  }
  return std::nullopt;
}

}  // namespace holdfast::wire
