#include "server/pg_schema.h"

#include <array>

namespace holdfast::server {
namespace {

constexpr int kOldestServer = 130000;  // knows pg_current_xact_id

/// Any number that other users of the database do not take for a lock of theirs.
constexpr auto kLock = "SELECT pg_advisory_xact_lock(7093169413108525940)";

/// Not by to_regclass, which may remember how things were before another one made the tables.
constexpr auto kFind =
    "SELECT EXISTS (SELECT 1 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n "
    "ON n.oid = c.relnamespace WHERE n.nspname = 'holdfast' AND c.relname = 'meta'), "
    "getdatabaseencoding()";

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

struct Found {
  bool is_there = false;
  int version = 0;
};

PgTold<Found> look(PgConnection& connection) {
  auto told = connection.run({{kFind}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const PgRows& row = std::get<0>(told)[0];
  if (row.text(0, 1) != "UTF8") {
    return PgError{"the database must have the encoding UTF8, not " + std::string(row.text(0, 1))};
  }
  if (!row.flag(0, 0)) return Found{};
  told = connection.run({{"SELECT version FROM holdfast.meta"}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const PgRows& meta = std::get<0>(told)[0];
  if (meta.size() != 1)
    return PgError{"holdfast.meta has no row: this is no database of holdfastd"};
  return Found{true, static_cast<int>(meta.number(0, 0))};
}

std::optional<std::string> fault_of(const Found& found) {
  if (found.version <= kPgSchemaVersion) return std::nullopt;
  return "the tables are of version " + std::to_string(found.version) +
         ", made by a newer holdfastd; this one knows up to version " +
         std::to_string(kPgSchemaVersion);
}

/// Inside the transaction that has the lock.
std::optional<PgError> create(PgConnection& connection) {
  auto found = look(connection);
  if (auto* error = std::get_if<PgError>(&found)) return *error;
  if (std::get<Found>(found).is_there) return std::nullopt;  // another one was faster
  std::vector<PgStatement> statements;
  statements.reserve(kVersion1.size());
  for (const char* sql : kVersion1) statements.push_back({sql});
  auto told = connection.run(statements);
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  return std::nullopt;
}

std::optional<PgError> create_once(PgConnection& connection) {
  auto locked = connection.run({{"BEGIN ISOLATION LEVEL READ COMMITTED"}, {kLock}});
  if (auto* error = std::get_if<PgError>(&locked)) return *error;
  if (auto error = create(connection)) return error;
  auto done = connection.run({{"COMMIT"}});
  if (auto* error = std::get_if<PgError>(&done)) return *error;
  return std::nullopt;
}

}  // namespace

std::optional<std::string> pg_schema_fault(PgConnection& connection) {
  if (connection.server_version() < kOldestServer) return "PostgreSQL 13 or newer is needed";
  auto found = look(connection);
  if (auto* error = std::get_if<PgError>(&found)) return error->why;
  if (!std::get<Found>(found).is_there) return "there are no tables of holdfastd in it";
  return fault_of(std::get<Found>(found));
}

std::optional<std::string> prepare_pg_schema(PgConnection& connection) {
  if (connection.server_version() < kOldestServer) return "PostgreSQL 13 or newer is needed";
  auto found = look(connection);
  if (auto* error = std::get_if<PgError>(&found)) return error->why;
  if (!std::get<Found>(found).is_there) {
    if (auto error = create_once(connection)) {
      connection.roll_back();
      return error->why;
    }
  }
  return pg_schema_fault(connection);
}

}  // namespace holdfast::server
