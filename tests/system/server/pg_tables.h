/// The tables of a PostgreSQL store, looked at and changed behind its back.
#pragma once

#include <catch2/catch.hpp>
#include <stdexcept>
#include <string>
#include <variant>

#include "postgres.h"
#include "server/pg_connection.h"
#include "server/store.h"

#define NEEDS_POSTGRES() \
  if (!Postgres::is_installed()) SKIP_TEST("needs PostgreSQL")

namespace holdfast::testing {

inline std::string conninfo_of(const std::string& where) {
  return where.substr(std::string("postgres:").size());
}

inline server::PgConnection connection_to(const std::string& where) {
  auto opened = server::PgConnection::open(conninfo_of(where));
  if (auto* error = std::get_if<server::PgError>(&opened)) throw std::runtime_error(error->why);
  return std::move(std::get<0>(opened));
}

/// The first field of the only row.
inline std::string ask(const std::string& where, const std::string& sql) {
  auto told = connection_to(where).run({{sql}});
  if (auto* error = std::get_if<server::PgError>(&told)) throw std::runtime_error(error->why);
  const server::PgRows& rows = std::get<0>(told)[0];
  return rows.size() == 0 ? "" : std::string(rows.text(0, 0));
}

inline void tell(const std::string& where, const std::string& sql) {
  (void)ask(where, sql);
}

/// Always the same one: a PostgreSQL that has many of them takes long to go.
inline std::string empty_database() {
  static const std::string where = postgres().new_database();
  tell(where, "DROP SCHEMA IF EXISTS holdfast CASCADE");
  return where;
}

/// All that was ever posted there, looked over.
inline void check_sound(const std::string& where) {
  const auto told = server::inspect_store(where, [](const server::Claim&, server::Stamp) {});
  REQUIRE(std::holds_alternative<server::Inspection>(told));
  const auto& faults = std::get<server::Inspection>(told).faults;
  for (const std::string& fault : faults) UNSCOPED_INFO(fault);
  CHECK(faults.empty());
}

}  // namespace holdfast::testing
