#include "server/pg_schema.h"

#include <array>

#include "server/pg_transaction.h"

namespace holdfast::server {
namespace {

constexpr int kOldestServer = 130000;  // knows pg_current_xact_id
constexpr auto kTooOld = "PostgreSQL 13 or newer is needed";

/// For a step on many rows, and for another one to finish its steps.
constexpr std::chrono::hours kStepPatience(1);

/// While we wait for meta, everybody else does behind us.
constexpr auto kLockLimit = "SET LOCAL lock_timeout = 20000";
constexpr auto kShutOut = "LOCK TABLE holdfast.meta IN ACCESS EXCLUSIVE MODE";

/// Any number that other users of the database do not take for a lock of theirs.
constexpr auto kLock = "SELECT pg_advisory_xact_lock(7093169413108525940)";

/// Not by to_regclass, which may remember how things were before another one made the tables.
constexpr auto kFind =
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = 'holdfast' AND c.relname = 'meta'), "
    "getdatabaseencoding()";

// Never change a step that was released: append one, and a line to kSteps.

constexpr std::array kVersion1{
    "CREATE SCHEMA IF NOT EXISTS holdfast",
    R"(CREATE TABLE holdfast.meta (
         one boolean PRIMARY KEY DEFAULT true CHECK (one),
         version integer NOT NULL,
         last_seen bigint NOT NULL,
         fence_floor bigint NOT NULL))",
    R"(CREATE TABLE holdfast.resources (
         id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
         hash bytea NOT NULL UNIQUE,
         name text COLLATE "C" NOT NULL,
         fence bigint NOT NULL,
         seen bigint NOT NULL,
         due bigint,
         attempt bigint NOT NULL DEFAULT 0) WITH (fillfactor = 70))",
    "CREATE INDEX resources_due ON holdfast.resources (due) WHERE due IS NOT NULL",
    "CREATE SEQUENCE holdfast.claim_ids AS bigint CACHE 1 NO CYCLE",
    R"(CREATE TABLE holdfast.claims (
         id bigint PRIMARY KEY,
         resource bigint NOT NULL REFERENCES holdfast.resources (id),
         owner text NOT NULL,
         key text NOT NULL,
         user_data text NOT NULL,
         reason text NOT NULL,
         ttl bigint NOT NULL,
         waiting_ttl bigint NOT NULL,
         mode smallint NOT NULL,
         status smallint NOT NULL,
         is_confirmed boolean NOT NULL,
         count bigint NOT NULL,
         fence bigint NOT NULL,
         queued bigint NOT NULL,
         activated bigint NOT NULL,
         ended bigint NOT NULL,
         deadline bigint NOT NULL,
         heard bigint NOT NULL,
         origin bigint NOT NULL,
         attempt bigint NOT NULL) WITH (fillfactor = 70))",
    "CREATE INDEX claims_of_resource ON holdfast.claims (resource, id)",
    "CREATE INDEX claims_live ON holdfast.claims (resource, id) WHERE status < 2",
    "CREATE INDEX claims_live_by_id ON holdfast.claims (id) WHERE status < 2",
    "CREATE INDEX claims_ended ON holdfast.claims (ended, id) WHERE status >= 2",
    "CREATE INDEX claims_of_owner ON holdfast.claims USING hash (owner) WHERE status < 2",
    R"(CREATE TABLE holdfast.keys (
         hash bytea PRIMARY KEY,
         claim bigint NOT NULL REFERENCES holdfast.claims (id) ON DELETE CASCADE))",
    "CREATE INDEX keys_of_claim ON holdfast.keys (claim)",
    "INSERT INTO holdfast.meta (version, last_seen, fence_floor) VALUES (1, 0, 0)",
};

constexpr std::array kSteps{PgStep(kVersion1)};

/// The version of the tables, 0 if there are none.
PgTold<std::size_t> version_of(PgConnection& connection, std::chrono::seconds patience) {
  auto told = connection.run({{kFind}}, patience);
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const PgRows& row = std::get<0>(told)[0];
  if (row.text(0, 1) != "UTF8") {
    return PgError{"the database must have the encoding UTF8, not " + std::string(row.text(0, 1))};
  }
  if (!row.flag(0, 0)) return std::size_t{0};
  told = connection.run({{"SELECT version FROM holdfast.meta"}}, patience);
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const PgRows& meta = std::get<0>(told)[0];
  if (meta.size() != 1) {
    return PgError{"holdfast.meta has no row: this is no database of holdfastd"};
  }
  return static_cast<std::size_t>(meta.number(0, 0));
}

std::optional<std::string> fault_of(std::size_t version, PgSteps steps) {
  const std::string is = "the tables are of version " + std::to_string(version);
  const std::string known = std::to_string(steps.size());
  if (version > steps.size()) {
    return is + ", made by a newer holdfastd; this one knows up to version " + known;
  }
  if (version == 0) return "there are no tables of holdfastd in it";
  if (version < steps.size()) {
    return is + ", made by an older holdfastd; a server of this one, which is started on them, " +
           "brings them to version " + known;
  }
  return std::nullopt;
}

std::vector<PgStatement> forward(std::size_t version, PgSteps steps) {
  std::vector<PgStatement> statements;
  if (version > 0) statements = {{kLockLimit}, {kShutOut}};
  for (const PgStep& step : steps.subspan(version)) {
    for (const char* sql : step) statements.push_back({sql});
  }
  statements.push_back(
      {"UPDATE holdfast.meta SET version = $1::integer", {std::to_string(steps.size())}});
  return statements;
}

/// What led to `error`, for people.
std::string cannot(std::size_t version, PgSteps steps, const PgError& error) {
  if (version == 0) return "the tables cannot be made: " + error.why;
  return "the tables cannot be brought from version " + std::to_string(version) + " to version " +
         std::to_string(steps.size()) + ": " + error.why;
}

/// Why it could not be; then it has to be rolled back.
std::optional<std::string> bring_forward(PgConnection& connection, PgSteps steps) {
  const std::string settings =
      "SELECT set_config('statement_timeout', '0', true), "
      "set_config('lock_timeout', '0', true), " +
      std::string(kPgDurable);
  auto begun = connection.run({{"BEGIN ISOLATION LEVEL READ COMMITTED"}, {settings}, {kLock}},
                              kStepPatience);
  if (auto* error = std::get_if<PgError>(&begun)) return error->why;
  auto found = version_of(connection, kStepPatience);
  if (auto* error = std::get_if<PgError>(&found)) return error->why;
  const std::size_t version = std::get<0>(found);
  if (version < steps.size()) {  // else another one was faster
    auto done = connection.run(forward(version, steps), kStepPatience);
    if (auto* error = std::get_if<PgError>(&done)) return cannot(version, steps, *error);
  }
  auto ended = connection.run({{"COMMIT"}}, kStepPatience);
  if (auto* error = std::get_if<PgError>(&ended)) return cannot(version, steps, *error);
  return std::nullopt;
}

std::optional<std::string> fault(PgConnection& connection, PgSteps steps,
                                 std::chrono::seconds patience) {
  auto found = version_of(connection, patience);
  if (auto* error = std::get_if<PgError>(&found)) return error->why;
  return fault_of(std::get<0>(found), steps);
}

}  // namespace

PgSteps pg_steps() {
  return kSteps;
}

std::optional<std::string> pg_schema_fault(PgConnection& connection, PgSteps steps) {
  if (connection.server_version() < kOldestServer) return kTooOld;
  return fault(connection, steps, PgConnection::kPatience);
}

std::optional<std::string> prepare_pg_schema(PgConnection& connection, PgSteps steps) {
  if (connection.server_version() < kOldestServer) return kTooOld;
  auto found = version_of(connection, kStepPatience);
  if (auto* error = std::get_if<PgError>(&found)) return error->why;
  if (std::get<0>(found) < steps.size()) {
    if (auto why = bring_forward(connection, steps)) {
      connection.roll_back();
      return why;
    }
  }
  return fault(connection, steps, kStepPatience);
}

}  // namespace holdfast::server
