#pragma once

#include <vector>

#include "server/pg_connection.h"

namespace holdfast::server {

/// What a transaction is for.
enum class PgUse {
  change,
  look,  ///< all of it sees the tables at one moment
};

/// Begins a transaction with bounds of its own, and runs `statements` in it: all in one round trip.
/// An error ends it.
///
/// Tables:   until its end they stay as they are. If they are not of this program's version,
///           nothing of `statements` is run, a COMMIT neither: the error has the state
///           kPgOtherTables then. See pg_schema.h.
PgTold<std::vector<PgRows>> pg_begin(PgConnection& connection, PgUse use,
                                     const std::vector<PgStatement>& statements);

/// A column that makes the COMMIT of this transaction wait until it is on disk, whatever is usual
/// in the database.
inline constexpr auto kPgDurable =
    "set_config('synchronous_commit', CASE current_setting('synchronous_commit') "
    "WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)";

}  // namespace holdfast::server
