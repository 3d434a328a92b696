/// Rows that no server of this version can have written: what they do to a start and to a server
/// that runs.

#include <sqlite3.h>

#include <catch2/catch.hpp>

#include "postgres.h"
#include "service.h"

using namespace holdfast::testing;
using Catch::Contains;
using std::chrono::seconds;

namespace {

/// 256 and 257 are waiting and active to somebody who looks at the last eight bits.
const std::string kUnknown[] = {
    "status = 77", "status = -1", "status = 256", "status = 257",
    "mode = 3",    "mode = -1",   "mode = 256",   "status = 7, mode = 9"};

void change_sqlite(const std::string& file, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  CHECK(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(database);
}

void check_refused(const std::string& store, long id) {
  const std::string row = "claim " + std::to_string(id) + " of \"held\"";
  for (int i = 0; i < 2; ++i) {
    const Result started =
        run({"holdfastd", "--listen", "127.0.0.1:0", "--store", store}, {.limit = seconds(20)});
    CHECK(started.code == 1);
    CHECK(started.out.empty());
    CHECK_THAT(started.err, Contains(row) && Contains("unknown") && Contains("holdfastd check"));
  }
  const Result checked = run({"holdfastd", "check", "--store", store});
  CHECK(checked.code == 1);
  CHECK_THAT(checked.out, Contains(row + ": its status or mode is unknown"));
}

/// What holdfastd(8) says about such a row, in NOTES.
void repair(Service& own, long id) {
  const std::string row = " WHERE id = " + std::to_string(id);
  if (own.store().starts_with("sqlite:")) {
    change_sqlite(own.file(),
                  "UPDATE claims SET status = 5, mode = 0, ended_time = (SELECT value FROM marks "
                  "WHERE name = 'time')" +
                      row);
  } else {
    postgres().sql(own.store(),
                   "UPDATE holdfast.claims SET status = 5, mode = 0, ended = (extract(epoch FROM "
                   "clock_timestamp()) * 1000000)::bigint" +
                       row);
  }
}

void change(Service& own, long id, const std::string& columns) {
  const std::string set = " SET " + columns + " WHERE id = " + std::to_string(id);
  if (own.store().starts_with("sqlite:")) {
    change_sqlite(own.file(), "UPDATE claims" + set);
  } else {
    postgres().sql(own.store(), "UPDATE holdfast.claims" + set);
  }
}

}  // namespace

TEST_CASE("a claim of unknown status or mode keeps a server from starting until it is repaired",
          "[server][trouble]") {
  const Kept where = GENERATE(Kept::sqlite, Kept::postgres);
  if (where == Kept::postgres && !Postgres::is_installed()) SKIP_TEST("needs PostgreSQL");
  Service own({}, where);
  const long id = own.claim("held");
  own.daemon().stop();
  for (const std::string& columns : kUnknown) {
    INFO(columns);
    change(own, id, "status = 1, mode = 0");
    change(own, id, columns);
    check_refused(own.store(), id);
  }
  repair(own, id);
  own.daemon().start();
  CHECK(own.status(id) == "revoked");
  const Reply next = own.post(claim_body("held"));
  CHECK(next.status == 201);
  CHECK(next.json()["fence"] == 2);
  CHECK(run({"holdfastd", "check", "--store", own.store()}).code == 0);
}

TEST_CASE("a claim of unknown status or mode ends no running server and frees nothing",
          "[server][trouble]") {
  if (!Postgres::is_installed()) SKIP_TEST("needs PostgreSQL");
  Service own({"--retain", "0"}, Kept::postgres);
  const long id = own.claim("held", 0.5);
  for (const std::string& columns : kUnknown) {
    INFO(columns);
    change(own, id, columns);
    for (const std::string& target :
         {path_of(id), std::string("/v1/claims/"), std::string("/v1/resources/"),
          std::string("/v1/resources/held/queue"), std::string("/v1/stats")}) {
      CHECK(own.get(target).status == 200);
    }
    CHECK_THAT(own.get(path_of(id)).body, Contains("\"unknown\""));
    for (const Reply& reply : {own.post(claim_body("held")), own.patch(id, {{"ttl", 60}}),
                               own.patch(id, {{"status", "released"}})}) {
      CHECK(reply.status == 503);
      CHECK_THAT(reply.body, Contains("claim " + std::to_string(id) + " of \\\"held\\\"") &&
                                 Contains("unknown"));
    }
    // Other resources are served: a lease expires, and what has ended is dropped.
    const std::string other = fresh_name();
    const long first = own.claim(other, 0.1);
    const long second = own.claim(other);
    CHECK(eventually([&] { return own.get(path_of(first)).status == 404; }));
    CHECK(own.status(second) == "active");
    CHECK(own.get(path_of(id)).status == 200);
    change(own, id, "status = 1, mode = 0");
  }
  CHECK(own.status(id) == "active");
  CHECK(own.patch(id, {{"ttl", 60}}).status == 200);
  CHECK(own.post(claim_body("held")).status == 202);
}
