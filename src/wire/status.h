#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace holdfast::wire {

/// Where a claim stands. The numbers are kept in databases: they never change their meaning.
enum class Status : std::uint8_t {
  waiting = 0,
  active = 1,
  released = 2,
  aborted = 3,
  withdrawn = 4,
  revoked = 5,
  expired = 6,
};
inline constexpr std::size_t kStatusCount = 7;

/// What a claim lets in beside itself. The numbers are kept in databases.
enum class Mode : std::uint8_t {
  exclusive = 0,  ///< nobody
  shared = 1,     ///< other shared claims
  counted = 2,    ///< other counted ones, until there are as many as the smallest count among them
};

/// Neither waiting nor active any more, for ever.
constexpr bool is_final(Status status) {
  return status >= Status::released;
}

std::string_view word(Status status);
std::string_view word(Mode mode);
std::optional<Status> to_status(std::string_view word);

}  // namespace holdfast::wire
