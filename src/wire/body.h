#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "claims/claim.h"

namespace holdfast::wire {

using claims::Micros;
using claims::Mode;
using claims::Status;

/// What a client did wrong, by parameter; all of it at once. Without a parameter: "message".
using Faults = std::vector<std::pair<std::string, std::string>>;

/// What was asked for, or why it cannot be.
template <class T>
using Parsed = std::variant<T, Faults>;

/// How much of a body is looked at.
struct BodyLimits {
  std::size_t max_name = 16384;
  std::size_t max_depth = 100;
};

/// The body of a POST to the list of claims.
struct NewClaim {
  std::string resource;
  Micros ttl{};
  std::string user_data = "null";  ///< JSON text
  Mode mode = Mode::exclusive;
  std::uint32_t count = 0;  ///< of a counted claim
  Micros waiting_ttl{};     ///< 0: a waiter may be silent for ever
};

/// The body of a PATCH: one of the two.
struct ClaimChange {
  std::optional<Micros> ttl;
  std::optional<Status> status;
};

/// The body of a revoke: every live claim that fits all that is given.
struct Revocation {
  std::string reason;
  std::optional<std::uint64_t> claim;
  std::optional<std::string> resource;
  std::optional<std::string> owner;
  std::optional<Status> status;  ///< waiting or active
};

Parsed<NewClaim> parse_new_claim(std::string_view body, const BodyLimits& limits);
Parsed<ClaimChange> parse_claim_change(std::string_view body, const BodyLimits& limits);
Parsed<Revocation> parse_revocation(std::string_view body, const BodyLimits& limits);

/// A number as clients write it in queries and, some of them, in JSON strings: "60", "1.5", "1e3".
/// No blanks, no hexadecimal, no infinity, not NaN.
std::optional<double> to_real(std::string_view text);

/// The faults as a JSON object.
std::string to_json(const Faults& faults);

}  // namespace holdfast::wire
