#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "server/rows.h"
#include "server/sqlite_schema.h"

namespace holdfast::server {

/// Rows in an SQLite file.
///
/// Decides:  one transaction per batch, in WAL mode with a sync before the commit returns.
/// Alone:    holds the locks of sqlite_lock.h for as long as it lives, so a second server on one
///           file is refused. Others may read, and copy with SQLite's own backup.
/// Forward:  tables of an earlier version are brought to this one, see sqlite_schema.h.
/// Never:    opens a file on a network filesystem, where neither locks nor syncs can be trusted;
///           one of another program; one of a newer schema: those are not touched. Nor does it
///           load a claim whose status or mode is unknown: load() names it then. A file that was
///           moved away under a running server is noticed before the next commit, not written into
///           the void; another in its place is not served before a restart, for its ids and fences
///           may be older than what was told.
std::variant<std::unique_ptr<Rows>, StoreError> open_sqlite(const std::string& file,
                                                            SqliteSteps steps = sqlite_steps());

/// All of a file's claims, read without serving it, and what is wrong with the file itself. It is
/// not changed; one of an earlier version is told of, and not read.
std::variant<Inspection, StoreError> inspect_sqlite(const std::string& file, const Inspector& each,
                                                    SqliteSteps steps = sqlite_steps());

/// The name of the network filesystem that `path`, or the folder in which it will be, is on; empty
/// if it is on none.
std::string network_filesystem(const std::string& path);

}  // namespace holdfast::server
