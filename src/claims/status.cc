#include "claims/status.h"

namespace holdfast::claims {
namespace {

constexpr std::array<std::string_view, kStatusCount> kStatusWords{
    "waiting", "active", "released", "aborted", "withdrawn", "revoked", "expired"};
constexpr std::array<std::string_view, kModeCount> kModeWords{"exclusive", "shared", "counted"};

/// A database may hold a number that has no word. Showing such a claim must not end the server.
template <std::size_t kSize>
std::string_view word_at(const std::array<std::string_view, kSize>& words, std::size_t place) {
  if (place >= kSize) return "unknown";
  return words[place];
}

template <class T, std::size_t kSize>
std::optional<T> find(const std::array<std::string_view, kSize>& words, std::string_view word) {
  for (std::size_t i = 0; i < kSize; ++i) {
    if (words[i] == word) return static_cast<T>(i);
  }
  return std::nullopt;
}

}  // namespace

std::string_view word(Status status) {
  return word_at(kStatusWords, static_cast<std::size_t>(status));
}

std::string_view word(Mode mode) {
  return word_at(kModeWords, static_cast<std::size_t>(mode));
}

std::optional<Status> to_status(std::string_view word) {
  return find<Status>(kStatusWords, word);
}

std::optional<Mode> to_mode(std::string_view word) {
  return find<Mode>(kModeWords, word);
}

}  // namespace holdfast::claims
