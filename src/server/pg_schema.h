#pragma once

#include <optional>
#include <string>

#include "server/pg_connection.h"

namespace holdfast::server {

/// The tables, all in a schema of their own named "holdfast":
///
/// meta       one row: version of the tables, when a server was last seen, the floor of fences
/// resources  a row for each name that has claims; whoever changes its claims locks this row
/// claims     a row for each claim, live and ended keys       of idempotency
///
/// Moments are microseconds since 1970 by the database's clock. Names are found by their SHA-256,
/// because an index entry cannot hold a long one. resources.seen is the latest moment by which
/// anything was decided about it: time never goes back there, even if the clock does.
/// resources.due is when time alone will change something; attempt and origin are random numbers
/// of the transactions that wrote a row last and first, by which a commit is found whose answer
/// was lost.
inline constexpr int kPgSchemaVersion = 1;

/// Makes the tables, or brings those of an earlier version up to this one: in one transaction, so
/// that any number of servers may start at once. Why it cannot be, if so.
std::optional<std::string> prepare_pg_schema(PgConnection& connection);

/// Looks only: why these are not tables that can be used.
std::optional<std::string> pg_schema_fault(PgConnection& connection);

}  // namespace holdfast::server
