#pragma once

#include <string>
#include <vector>

#include "server/claim.h"
#include "server/pg_connection.h"

namespace holdfast::server {

/// The database's clock in microseconds since 1970, as SQL.
inline constexpr auto kPgClock = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint";

/// The hash by which a name or a key, given as this parameter, is found.
inline std::string pg_hash(const std::string& parameter) {
  return "sha256(convert_to(" + parameter + "::text, 'UTF8'))";
}

/// "$1" and so on.
inline std::string pg_place(std::size_t number) {
  std::string place(1, '$');
  return place += std::to_string(number);
}

/// Columns of `holdfast.claims c JOIN holdfast.resources r ON r.id = c.resource`, for to_claim.
inline constexpr auto kPgClaim =
    "c.id, c.resource, r.name, c.key, c.user_data, c.reason, c.owner, c.ttl, c.waiting_ttl, "
    "c.mode, "
    "c.status, c.is_confirmed, c.count, c.fence, c.queued, c.activated, c.ended, c.deadline, "
    "c.heard";

/// The same of `holdfast.claims c` alone, without what may be long.
inline constexpr auto kPgLightClaim =
    "c.id, c.resource, '', '', '', '', c.owner, c.ttl, c.waiting_ttl, c.mode, "
    "c.status, c.is_confirmed, c.count, c.fence, c.queued, c.activated, c.ended, c.deadline, "
    "c.heard";
inline constexpr int kPgClaimColumns = 19;
inline constexpr int kPgResourceColumn = 1;
inline constexpr int kPgModeColumn = 9;
inline constexpr int kPgStatusColumn = 10;

/// Whether the claim in that row has an unknown status or mode.
bool is_unknown(const PgRows& rows, std::size_t row);

/// From the columns that begin at `first`.
Claim to_claim(const PgRows& rows, std::size_t row, int first = 0);

Stamp to_stamp(std::int64_t micros);

/// New rows, all of one resource, written by the transaction `attempt`.
PgStatement insert_claims(std::int64_t resource, const std::vector<const Claim*>& claims,
                          std::int64_t attempt);

/// All that may change about a claim.
PgStatement update_claims(const std::vector<const Claim*>& claims, std::int64_t attempt);

}  // namespace holdfast::server
