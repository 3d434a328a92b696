#include "server/sqlite_schema.h"

#include <array>

#include "server/sqlite_statement.h"

namespace holdfast::server {
namespace {

constexpr int kApplicationId = 0x68666431;  // "hfd1"

/// Never change one that was released: append.
constexpr std::array kSteps{
    "CREATE TABLE claims (id INTEGER PRIMARY KEY, resource TEXT NOT NULL, owner TEXT NOT NULL,"
    " key TEXT NOT NULL, user_data TEXT NOT NULL, reason TEXT NOT NULL, ttl INTEGER NOT NULL,"
    " waiting_ttl INTEGER NOT NULL, mode INTEGER NOT NULL, count INTEGER NOT NULL,"
    " status INTEGER NOT NULL, is_confirmed INTEGER NOT NULL, fence INTEGER NOT NULL,"
    " queued_time INTEGER NOT NULL, queued_wall INTEGER NOT NULL, activated_time INTEGER NOT NULL,"
    " activated_wall INTEGER NOT NULL, ended_time INTEGER NOT NULL, ended_wall INTEGER NOT NULL,"
    " deadline INTEGER NOT NULL, heard INTEGER NOT NULL) STRICT;"
    "CREATE TABLE marks (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
    "INSERT INTO marks VALUES ('fence_floor', 0), ('last_id', 0), ('time', 0), ('probe', 0);",
};

std::int64_t version_of(sqlite3* database) {
  return sqlite_ask(database, "PRAGMA user_version");
}

bool is_ours(sqlite3* database) {
  return sqlite_ask(database, "PRAGMA application_id") == kApplicationId;
}

/// What the file is, beside what this program is for.
std::string both(std::int64_t version, SqliteSteps steps) {
  return "(schema " + std::to_string(version) + "; this one knows " + std::to_string(steps.size()) +
         ")";
}

std::optional<std::string> newer(std::int64_t version, SqliteSteps steps) {
  if (version <= static_cast<std::int64_t>(steps.size())) return std::nullopt;
  return "was written by a newer holdfastd " + both(version, steps);
}

/// Inside a transaction that shuts out other writers.
bool do_next(sqlite3* database, std::int64_t version, SqliteSteps steps) {
  return sqlite_tell(database, steps[static_cast<std::size_t>(version)]) &&
         sqlite_tell(database, "PRAGMA application_id = " + std::to_string(kApplicationId)) &&
         sqlite_tell(database, "PRAGMA user_version = " + std::to_string(version + 1));
}

}  // namespace

SqliteSteps sqlite_steps() {
  return kSteps;
}

std::optional<std::string> why_not_to_serve(sqlite3* database, SqliteSteps steps) {
  const auto tables = sqlite_ask(database, "SELECT count(*) FROM sqlite_schema");
  if (tables < 0) return sqlite3_errmsg(database);
  if (tables > 0 && !is_ours(database)) return "is a database of another program";
  return newer(version_of(database), steps);
}

std::optional<std::string> why_not_to_look(sqlite3* database, SqliteSteps steps) {
  if (sqlite_ask(database, "SELECT count(*) FROM sqlite_schema") < 0) {
    return sqlite3_errmsg(database);
  }
  if (!is_ours(database)) return "is not a database of holdfastd";
  const auto version = version_of(database);
  if (auto why = newer(version, steps)) return why;
  if (version == static_cast<std::int64_t>(steps.size())) return std::nullopt;
  return "was written by an older holdfastd " + both(version, steps) +
         "; a server that is started on it brings it forward";
}

std::optional<std::string> bring_forward(sqlite3* database, SqliteSteps steps) {
  const auto last = static_cast<std::int64_t>(steps.size());
  std::int64_t version = version_of(database);
  while (version >= 0 && version < last) {
    if (!sqlite_tell(database, "BEGIN IMMEDIATE")) return sqlite3_errmsg(database);
    version = version_of(database);  // another one may have been faster
    const bool is_due = version >= 0 && version < last;
    if ((is_due && !do_next(database, version, steps)) || !sqlite_tell(database, "COMMIT")) {
      std::string why = "cannot be brought from schema " + std::to_string(version) + " to " +
                        std::to_string(version + 1) + ": " + sqlite3_errmsg(database);
      (void)sqlite_tell(database, "ROLLBACK");  // some failures have done that already
      return why;
    }
    if (is_due) ++version;
  }
  if (version < 0) return sqlite3_errmsg(database);
  return newer(version, steps);
}

}  // namespace holdfast::server
