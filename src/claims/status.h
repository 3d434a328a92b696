#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::claims {

/// Where a claim stands. The numbers are kept in databases, so they never change their meaning.
enum class Status : std::uint8_t {
  waiting = 0,
  active = 1,
  released = 2,
  aborted = 3,
  withdrawn = 4,
  revoked = 5,
  expired = 6,
  unknown = 255,  ///< the number in a database is none of these; never written
};
inline constexpr std::size_t kStatusCount = 7;

/// Which other claims may hold the resource at the same time. The numbers are kept in databases.
enum class Mode : std::uint8_t {
  exclusive = 0,  ///< no other claim
  shared = 1,     ///< other shared claims
  counted = 2,    ///< other counted claims, up to the smallest count among them
  unknown = 255,  ///< the number in a database is none of these; never written
};
inline constexpr std::size_t kModeCount = 3;

/// The claim has ended: its status never changes again.
constexpr bool is_final(Status status) {
  return status >= Status::released;
}

/// The value of a number in a database.
constexpr Status status_of(std::int64_t number) {
  const bool is_known = number >= 0 && number < static_cast<std::int64_t>(kStatusCount);
  return is_known ? static_cast<Status>(number) : Status::unknown;
}
constexpr Mode mode_of(std::int64_t number) {
  const bool is_known = number >= 0 && number < static_cast<std::int64_t>(kModeCount);
  return is_known ? static_cast<Mode>(number) : Mode::unknown;
}

std::string_view word(Status status);
std::string_view word(Mode mode);
std::optional<Status> to_status(std::string_view word);
std::optional<Mode> to_mode(std::string_view word);

}  // namespace holdfast::claims
