#include "server/pg_transaction.h"

#include "server/pg_schema.h"

namespace holdfast::server {
namespace {

constexpr auto kDivisionByZero = "22012";

/// Waits for a step that is being done; in the end this transaction sees what the step did. Only
/// an error keeps what comes behind it in the pipeline from being run.
const std::string& checked_settings() {
  static const std::string sql =
      std::string("SELECT set_config('statement_timeout', '5000', true), ") +
      "set_config('idle_in_transaction_session_timeout', '10000', true), " + kPgDurable +
      ", 1 / (SELECT count(*) FROM holdfast.meta WHERE version = " +
      std::to_string(pg_steps().size()) + ")";
  return sql;
}

std::vector<PgStatement> beginning(PgUse use) {
  const bool looks = use == PgUse::look;
  std::vector<PgStatement> statements{{looks ? "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
                                             : "BEGIN ISOLATION LEVEL READ COMMITTED"},
                                      {"SET LOCAL lock_timeout = 5000"}};
  // To a snapshot that is older than a step, a table that was written anew is empty; the first
  // SELECT takes the snapshot, even if it then waits.
  if (looks) statements.push_back({"LOCK TABLE holdfast.meta IN ACCESS SHARE MODE"});
  statements.push_back({checked_settings()});
  return statements;
}

PgError other_tables(PgConnection& connection) {
  auto why = pg_schema_fault(connection);
  return {why ? *why : "the tables were changed just now", kPgOtherTables};
}

}  // namespace

PgTold<std::vector<PgRows>> pg_begin(PgConnection& connection, PgUse use,
                                     const std::vector<PgStatement>& statements) {
  std::vector<PgStatement> all = beginning(use);
  const std::size_t first = all.size();
  all.insert(all.end(), statements.begin(), statements.end());
  auto told = connection.run(all);
  if (auto* error = std::get_if<PgError>(&told)) {
    connection.roll_back();
    if (error->statement + 1 == first && error->state == kDivisionByZero) {
      return other_tables(connection);
    }
    return *error;
  }
  auto& rows = std::get<0>(told);
  rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(first));
  return told;
}

}  // namespace holdfast::server
