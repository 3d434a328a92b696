#pragma once

#include <optional>
#include <span>
#include <string>

#include "server/pg_connection.h"

namespace holdfast::server {

/// The tables, all in a schema of their own named "holdfast":
///
///   meta       one row: version of the tables, when a server was last seen, the floor of fences
///   resources  a row for each name that has claims; whoever changes its claims locks this row
///   claims     a row for each claim, live and ended
///   keys       of idempotency
///
/// Moments are microseconds since 1970 by the database's clock. Names are found by their SHA-256,
/// because an index entry cannot hold a long one. resources.seen is the latest moment by which
/// anything was decided about it: time never goes back there, even if the clock does.
/// resources.due is when time alone will change something; attempt and origin are random numbers
/// of the transactions that wrote a row last and first, by which a commit is found whose answer
/// was lost.
///
/// Version:  the number of steps that were done to the tables. Those that are missing are done by
///           one transaction, with the version. It has a lock that only one has, so of any number
///           of servers that start at once one does them; and it has meta locked for itself alone
///           from before the first step to its end.
/// Others:   a server that was there before goes on with tables that it knows, or not at all. Each
///           of its transactions that decides, writes or answers (single statements only look for
///           work, or for what became of a lost COMMIT) locks meta, shared, before it touches
///           anything else, and looks at the version under that lock (pg_transaction.h). So it has
///           ended before the first step, or begins after the last, finds a version that is not its
///           own and does nothing. Since that lock is the first of both, they do not wait for each
///           other in a circle.
/// Killed:   or failed, the tables are of the version they had, with all that was in them.

/// The statements of one step.
using PgStep = std::span<const char* const>;
using PgSteps = std::span<const PgStep>;

/// Those of this program; the first makes the tables.
PgSteps pg_steps();

/// Makes the tables, or does the steps that they have not had. Why they cannot be used, if so.
std::optional<std::string> prepare_pg_schema(PgConnection& connection, PgSteps steps = pg_steps());

/// Looks only: why these are not tables that can be used as they are.
std::optional<std::string> pg_schema_fault(PgConnection& connection, PgSteps steps = pg_steps());

}  // namespace holdfast::server
