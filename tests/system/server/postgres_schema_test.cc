/// Tables of earlier and of later versions in PostgreSQL, and servers that meet them.

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "pg_tables.h"
#include "server/pg_schema.h"
#include "store_client.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::server;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

using Step = std::vector<const char*>;

/// The steps of this program, and some that a later one could have.
class Steps {
 public:
  explicit Steps(std::vector<Step> further) : further_(std::move(further)) {
    all_.assign(pg_steps().begin(), pg_steps().end());
    for (const Step& step : further_) all_.emplace_back(step);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  operator PgSteps() const { return all_; }

 private:
  std::vector<Step> further_;
  std::vector<PgStep> all_;
};

/// A column, filled from what is there, and a table that tells how often; then a change of the
/// data, for which tables are written anew.
const Step kSecond{"ALTER TABLE holdfast.claims ADD COLUMN note text",
                   "UPDATE holdfast.claims SET note = 'from ' || id",
                   "CREATE TABLE holdfast.done (step integer)",
                   "INSERT INTO holdfast.done VALUES (2)"};
const Step kThird{"UPDATE holdfast.claims SET note = note || '!'",
                  "INSERT INTO holdfast.done VALUES (3)",
                  "ALTER TABLE holdfast.resources ALTER COLUMN due TYPE numeric",
                  "ALTER TABLE holdfast.claims ALTER COLUMN ttl TYPE numeric"};

std::string numbered(std::size_t number) {
  return std::to_string(pg_steps().size() + number);
}

std::string version(const std::string& where) {
  return ask(where, "SELECT version FROM holdfast.meta");
}

std::string done(const std::string& where) {
  return ask(where, "SELECT string_agg(step::text, ' ' ORDER BY step) FROM holdfast.done");
}

/// All that servers have written.
std::string contents(const std::string& where) {
  return ask(where,
             "SELECT (SELECT jsonb_agg(to_jsonb(c) - 'note' ORDER BY id) FROM holdfast.claims c)"
             "::text || (SELECT jsonb_agg(to_jsonb(r) ORDER BY id) FROM holdfast.resources r)"
             "::text || (SELECT jsonb_agg(to_jsonb(k) ORDER BY claim) FROM holdfast.keys k)::text "
             "|| (SELECT jsonb_agg(to_jsonb(m) - 'version') FROM holdfast.meta m)::text");
}

/// Claims of all kinds by a real server, which is gone then.
void fill(const std::string& where) {
  StoreClient store(where);
  for (int i = 0; i < 20; ++i) {
    NewClaim wish;
    wish.resource = "r" + std::to_string(i / 3);
    wish.owner = "anna";
    wish.key = "key" + std::to_string(i);
    wish.ttl = 1h;
    wish.user_data = R"({"text": "\\ ' \" {}"})";
    const Answer answer = store.post(wish);
    REQUIRE(answer.kind == Answer::Kind::done);
    if (i % 5 == 0) (void)store.set(answer.view.claim.id, Status::released);
  }
  store.close();
}

std::optional<std::string> prepare(const std::string& where, PgSteps steps) {
  PgConnection connection = connection_to(where);
  return prepare_pg_schema(connection, steps);
}

/// Why a server cannot be started.
std::string refusal(const std::string& where) {
  try {
    const StoreClient store(where);
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "";
}

/// Whether somebody waits for a lock.
bool is_waited(const std::string& where, const std::string& which) {
  return ask(where,
             "SELECT count(*) > 0 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query "
             "LIKE '%" +
                 which + "%' AND datname = current_database()") == "t";
}

void check_refused(const Answer& answer) {
  CHECK(answer.kind == Answer::Kind::unavailable);
  CHECK_THAT(answer.reason, Contains("version " + numbered(1)) && Contains("newer holdfastd") &&
                                Contains("version " + numbered(0)));
}

template <class T>
void check_refused(const Told<T>& told) {
  CHECK_FALSE(told.value);
  CHECK_THAT(told.reason, Contains("version " + numbered(1)) && Contains("newer holdfastd"));
}

}  // namespace

TEST_CASE("tables are brought forward with all that is in them, and once",
          "[server][postgres][schema]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  fill(where);
  REQUIRE(version(where) == numbered(0));
  const std::string before = contents(where);
  const Steps two({kSecond});
  const Steps three({kSecond, kThird});

  {
    PgConnection connection = connection_to(where);
    CHECK_THAT(pg_schema_fault(connection, two).value_or(""),
               Contains("version " + numbered(0) + ", made by an older") &&
                   Contains("version " + numbered(1)));
    CHECK(version(where) == numbered(0));
  }
  for (int i = 0; i < 2; ++i) {
    CHECK(prepare(where, two).value_or("") == "");
    CHECK(version(where) == numbered(1));
    CHECK(done(where) == "2");
    CHECK(contents(where) == before);
    CHECK(ask(where, "SELECT count(*) FROM holdfast.claims WHERE note = 'from ' || id") == "20");
  }
  CHECK(prepare(where, three).value_or("") == "");
  CHECK(version(where) == numbered(2));
  CHECK(done(where) == "2 3");
  CHECK(contents(where) == before);

  for (const std::string& why : {refusal(where), prepare(where, two).value_or("")}) {
    CHECK_THAT(why, Contains("version " + numbered(2) + ", made by a newer"));
  }
  CHECK_THAT(refusal(where), Contains("up to version " + numbered(0)));
  const auto looked = inspect_store(where, [](const Claim&, Stamp) {});
  REQUIRE(std::holds_alternative<StoreError>(looked));
  CHECK_THAT(std::get<StoreError>(looked).why,
             Contains("version " + numbered(2)) && Contains("version " + numbered(0)));
  CHECK(contents(where) == before);
}

TEST_CASE("new tables get all steps at once", "[server][postgres][schema]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  CHECK(prepare(where, Steps({kSecond, kThird})).value_or("") == "");
  CHECK(version(where) == numbered(2));
  CHECK(done(where) == "2 3");
}

TEST_CASE("of many servers that start at once one does the steps",
          "[server][postgres][schema][race]") {
  NEEDS_POSTGRES();
  const Steps steps({kSecond, kThird});
  for (int round = 0; round < 3; ++round) {
    const std::string where = empty_database();
    fill(where);
    std::atomic<int> started = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 8; ++i) {
        threads.emplace_back([&] {
          auto opened = PgConnection::open(conninfo_of(where));
          auto* connection = std::get_if<0>(&opened);
          if (connection != nullptr && !prepare_pg_schema(*connection, steps)) ++started;
        });
      }
    }
    CHECK(started == 8);
    CHECK(done(where) == "2 3");
    CHECK(ask(where, "SELECT count(*) FROM holdfast.claims WHERE note = 'from ' || id || '!'") ==
          "20");
  }
}

TEST_CASE("a step that fails midway leaves the tables as they were", "[server][postgres][schema]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  fill(where);
  const std::string before = contents(where);
  Step broken = kThird;
  broken.push_back("UPDATE holdfast.claims SET resource = NULL");

  PgConnection connection = connection_to(where);
  CHECK_THAT(prepare_pg_schema(connection, Steps({kSecond, broken})).value_or(""),
             Contains("from version " + numbered(0) + " to version " + numbered(2) + ":"));
  CHECK(version(where) == numbered(0));
  CHECK(contents(where) == before);
  CHECK(ask(where, "SELECT count(*) FROM pg_tables WHERE tablename = 'done'") == "0");
  CHECK(refusal(where).empty());
  // With the step mended it is done, by the same connection.
  CHECK(prepare_pg_schema(connection, Steps({kSecond, kThird})).value_or("") == "");
  CHECK(done(where) == "2 3");
}

TEST_CASE("when a server dies amid a step the next one does all of it",
          "[server][postgres][schema]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  fill(where);
  const std::string before = contents(where);
  Step slow = kSecond;
  slow.push_back("SELECT pg_sleep(60)");
  std::optional<std::string> first;
  std::optional<std::string> second;
  {
    const std::jthread dying([&] { first = prepare(where, Steps({slow})); });
    REQUIRE(eventually([&] {
      return ask(where, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'") ==
             "1";
    }));
    const std::jthread next([&] { second = prepare(where, Steps({kSecond})); });
    REQUIRE(eventually([&] { return is_waited(where, "holdfast.meta"); }));
    tell(where,
         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'");
  }
  CHECK(first);
  CHECK(second.value_or("") == "");
  CHECK(version(where) == numbered(1));
  CHECK(done(where) == "2");
  CHECK(contents(where) == before);
}

TEST_CASE("a server from before a step refuses everything with the reason, and changes nothing",
          "[server][postgres][schema]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  fill(where);
  StoreClient old(where);
  // Something that is due soon, and somebody to whom it would matter.
  const ClaimId owner = old.post("due", 1s).view.claim.id;
  const ClaimId waiter = old.post("due", 1s).view.claim.id;
  const ClaimId free = old.post("free", 1h).view.claim.id;
  old.watch(waiter);
  Step step;
  SECTION("that only adds to the tables") {
    step = kSecond;
  }
  SECTION("after which its statements would make no sense") {
    step = {"ALTER TABLE holdfast.claims RENAME COLUMN status TO state",
            "ALTER TABLE holdfast.resources RENAME COLUMN fence TO top"};
  }
  REQUIRE(prepare(where, Steps({step})).value_or("") == "");
  const std::string before = contents(where);

  check_refused(old.post("r"));
  check_refused(old.post("due"));
  check_refused(old.set(free, Status::released));
  check_refused(old.set(1, Status::released));  // one whose resource it does not know by heart
  check_refused(old.set(4711, Status::released));
  check_refused(old.claim(free));
  check_refused(old.list({}));
  check_refused(old.resources({}));
  check_refused(old.queue("due"));
  RevokeFilter filter;
  filter.resource = "free";
  check_refused(old.revoke(filter));
  CHECK(eventually(
      [&] { return old.trouble().value_or("").find("newer holdfastd") != std::string::npos; }));
  // It leaves alone what is due, and does not say either that a server lives.
  const std::string end = ask(where, "SELECT extract(epoch FROM clock_timestamp()) + 2.5");
  CHECK(eventually(
      [&] { return ask(where, "SELECT extract(epoch FROM clock_timestamp()) > " + end) == "t"; }));
  CHECK(contents(where) == before);
  CHECK(version(where) == numbered(1));
  CHECK_FALSE(old.has_heard(owner, Status::expired));
}

TEST_CASE("servers at work when a step is done decide nothing after it",
          "[server][postgres][schema][race]") {
  NEEDS_POSTGRES();
  Step step{"CREATE TABLE holdfast.then AS SELECT * FROM holdfast.claims",
            "CREATE TABLE holdfast.then_resources AS SELECT * FROM holdfast.resources",
            "ALTER TABLE holdfast.keys ADD COLUMN more bigint DEFAULT 1",
            "ALTER TABLE holdfast.claims ADD COLUMN more bigint DEFAULT 1",
            "ALTER TABLE holdfast.resources ADD COLUMN more bigint DEFAULT 1",
            "SELECT pg_sleep(0.3)"};
  for (int round = 0; round < 3; ++round) {
    const std::string where = empty_database();
    std::atomic<int> served = 0;
    std::atomic<int> refused = 0;
    {
      StoreClient one(where);
      StoreClient other(where);
      std::vector<std::jthread> threads;
      for (int i = 0; i < 6; ++i) {
        threads.emplace_back([&, i] {
          StoreClient& store = i % 2 == 0 ? one : other;
          for (int turn = 0; refused < 12 && turn < 5000; ++turn) {
            NewClaim wish;
            wish.resource = "r" + std::to_string((i + turn) % 4);
            wish.ttl = 30ms;
            wish.user_data = "null";
            wish.key = std::to_string(i) + "/" + std::to_string(turn);
            const Answer answer = store.post(wish);
            (answer.kind == Answer::Kind::done ? served : refused)++;
            if (answer.kind != Answer::Kind::done) continue;
            if (turn % 3 == 0) (void)store.set(answer.view.claim.id, Status::withdrawn);
            if (turn % 5 == 0) (void)store.list({});
          }
        });
      }
      CHECK(eventually([&] { return served > 100; }));
      CHECK(prepare(where, Steps({step})).value_or("") == "");
    }
    CHECK(refused >= 12);
    CHECK(version(where) == numbered(1));
    const auto changed = [&](const std::string& table, const std::string& then) {
      return ask(where, "SELECT count(*) FROM (SELECT to_jsonb(t) FROM " + then +
                            " t EXCEPT SELECT to_jsonb(t) - 'more' FROM " + table + " t) AS x") +
             " " +
             ask(where, "SELECT count(*) FROM (SELECT to_jsonb(t) - 'more' FROM " + table +
                            " t EXCEPT SELECT to_jsonb(t) FROM " + then + " t) AS x");
    };
    CHECK(changed("holdfast.claims", "holdfast.then") == "0 0");
    CHECK(changed("holdfast.resources", "holdfast.then_resources") == "0 0");
  }
}

TEST_CASE("who looks while a table is written anew does not take it for empty",
          "[server][postgres][schema]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient old(where);
  REQUIRE(old.post("r", 1h).kind == Answer::Kind::done);

  PgConnection newer = connection_to(where);
  const auto run = [&](const std::vector<PgStatement>& statements) {
    REQUIRE(std::holds_alternative<std::vector<PgRows>>(newer.run(statements)));
  };
  run({{"BEGIN"}, {"LOCK TABLE holdfast.meta IN ACCESS EXCLUSIVE MODE"}});
  Told<std::vector<View>> told;
  {
    const std::jthread looks([&] { told = old.list({}); });
    REQUIRE(eventually([&] { return is_waited(where, "holdfast.meta"); }));
    run({{"ALTER TABLE holdfast.claims ALTER COLUMN ttl TYPE numeric"},
         {"UPDATE holdfast.meta SET version = version + 1"},
         {"COMMIT"}});
  }
  check_refused(told);
}
