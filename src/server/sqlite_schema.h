#pragma once

#include <optional>
#include <span>
#include <string>

struct sqlite3;

namespace holdfast::server {

/// What brings a file's tables one version further, each; the first makes them. A file's version
/// is the number of steps that were done to it.
using SqliteSteps = std::span<const char* const>;

/// Those of this program.
SqliteSteps sqlite_steps();

/// Why the file must not be touched: it is another program's, or newer than the steps.
std::optional<std::string> why_not_to_serve(sqlite3* database, SqliteSteps steps);

/// Why it cannot be read as it is: the same, or its tables are older, or not made yet.
std::optional<std::string> why_not_to_look(sqlite3* database, SqliteSteps steps);

/// Does the steps that the file has not had.
///
/// Decides:  each step by one commit, which writes the version with it. Which step is next is asked
///           inside that transaction, so of several at once each step is done by one.
/// Killed:   or failed, the file is of the version that it had before the step, whole.
std::optional<std::string> bring_forward(sqlite3* database, SqliteSteps steps);

}  // namespace holdfast::server
