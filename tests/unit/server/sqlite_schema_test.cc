/// Files of earlier and of later versions.

#include "server/sqlite_schema.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "scene.h"
#include "server/sqlite_rows.h"
#include "stage.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::server;
using namespace holdfast::testing;
using namespace std::chrono_literals;
using Catch::Contains;
namespace fs = std::filesystem;

namespace {

using Steps = std::vector<const char*>;

/// What a later holdfastd could do: a column, filled from what is there, and a table that tells
/// how often; then a change of the data.
constexpr auto kSecond =
    "ALTER TABLE claims ADD COLUMN note TEXT NOT NULL DEFAULT 'new';"
    "UPDATE claims SET note = 'from ' || resource;"
    "CREATE TABLE done (step INTEGER) STRICT; INSERT INTO done VALUES (2);";
constexpr auto kThird =
    "UPDATE claims SET note = note || '!'; INSERT INTO done VALUES (3);"
    "CREATE INDEX by_note ON claims (note);";

Steps with(const Steps& further) {
  Steps all(sqlite_steps().begin(), sqlite_steps().end());
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

std::string numbered(std::size_t number) {
  return std::to_string(sqlite_steps().size() + number);
}

/// A database by itself.
class File {
 public:
  explicit File(const std::string& path) {
    REQUIRE(sqlite3_open(path.c_str(), &database_) == SQLITE_OK);
    sqlite3_busy_timeout(database_, 20000);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { sqlite3_close(database_); }

  sqlite3* get() const { return database_; }

  void sql(const std::string& text) const {
    char* error = nullptr;
    sqlite3_exec(database_, text.c_str(), nullptr, nullptr, &error);
    if (error != nullptr) FAIL(error);
  }

  /// All rows, fields by a blank, rows by a bar.
  std::string ask(const std::string& question) const {
    std::string all;
    const auto put = [](void* into, int columns, char** values, char**) {
      auto& text = *static_cast<std::string*>(into);
      if (!text.empty()) text += '|';
      for (int i = 0; i < columns; ++i) text += std::string(i == 0 ? "" : " ") + values[i];
      return 0;
    };
    char* error = nullptr;
    sqlite3_exec(database_, question.c_str(), put, &all, &error);
    if (error != nullptr) FAIL(error);
    return all;
  }

 private:
  sqlite3* database_ = nullptr;
};

std::string ask(const std::string& file, const std::string& question) {
  return File(file).ask(question);
}

std::unique_ptr<Rows> opened(const std::string& file, SqliteSteps steps = sqlite_steps()) {
  auto result = open_sqlite(file, steps);
  if (const auto* error = std::get_if<StoreError>(&result)) FAIL(error->why);
  return std::move(std::get<std::unique_ptr<Rows>>(result));
}

std::string refusal(const std::string& file, SqliteSteps steps = sqlite_steps()) {
  auto result = open_sqlite(file, steps);
  const auto* error = std::get_if<StoreError>(&result);
  return error == nullptr ? "" : error->why;
}

/// Of one who only looks.
std::string refusal_to_look(const std::string& file, SqliteSteps steps = sqlite_steps()) {
  auto result = inspect_sqlite(
      file, [](const Claim&, Stamp) {}, steps);
  const auto* error = std::get_if<StoreError>(&result);
  return error == nullptr ? "" : error->why;
}

Rows::Contents loaded(Rows& rows) {
  auto result = rows.load();
  if (const auto* error = std::get_if<StoreError>(&result)) FAIL(error->why);
  return std::get<Rows::Contents>(result);
}

std::string told(const Rows::Contents& contents) {
  std::string text;
  for (const Claim& claim : contents.claims) text += server::told(claim) + '\n';
  return text + std::to_string(contents.last_id) + ' ' + std::to_string(contents.fence_floor) +
         ' ' + std::to_string(contents.last_time.count());
}

Claim claim(ClaimId id) {
  Claim one;
  one.id = id;
  one.resource = "r" + std::to_string(id);
  one.user_data = R"({"a": "b"})";
  one.status = Status::active;
  one.fence = id + 10;
  one.ttl = 10s;
  one.deadline = 20s;
  return one;
}

/// A database of today, with claims and marks that a server wrote.
void fill(const std::string& file, ClaimId claims) {
  const auto rows = opened(file);
  Rows::Batch batch;
  for (ClaimId id = 1; id <= claims; ++id) batch.changed.push_back({{claim(id), 0}, true});
  REQUIRE_FALSE(rows->commit(batch));
  Rows::Batch drop;
  drop.dropped = {claim(1)};
  drop.last_id = claims + 5;
  drop.fence_floor = 7;
  drop.time = 99s;
  REQUIRE_FALSE(rows->commit(drop));
}

}  // namespace

TEST_CASE("a file is brought forward when it is served, with all that is in it, and once",
          "[server][sqlite][schema]") {
  const TempDir dir;
  const std::string file = dir / "db";
  fill(file, 5);
  const std::string before = told(loaded(*opened(file)));
  const Steps steps = with({kSecond, kThird});

  {
    const auto rows = opened(file, steps);
    CHECK(told(loaded(*rows)) == before);
    CHECK(ask(file, "PRAGMA user_version") == numbered(2));
    CHECK(ask(file, "SELECT note FROM claims ORDER BY id") ==
          "from r2!|from r3!|from r4!|from r5!");
    Rows::Batch more;
    more.changed.push_back({{claim(20), 0}, true});
    CHECK_FALSE(rows->commit(more));
  }
  CHECK(loaded(*opened(file, steps)).claims.size() == 5);
  CHECK(ask(file, "SELECT step FROM done ORDER BY rowid") == "2|3");
  CHECK(ask(file, "SELECT note FROM claims WHERE id = 20") == "new");
  CHECK(refusal_to_look(file, steps).empty());
}

TEST_CASE("a new file gets all steps, and is the same as one that was brought forward",
          "[server][sqlite][schema]") {
  const TempDir dir;
  const Steps steps = with({kSecond, kThird});
  opened(dir / "old").reset();
  opened(dir / "old", steps).reset();
  opened(dir / "new", steps).reset();
  const std::string all = "SELECT type, name, sql FROM sqlite_schema WHERE sql NOT NULL";
  CHECK(ask(dir / "new", all) == ask(dir / "old", all));
  CHECK(ask(dir / "new", "PRAGMA user_version") == numbered(2));
}

TEST_CASE("a newer file is refused with both versions and not touched",
          "[server][sqlite][schema]") {
  const TempDir dir;
  const std::string file = dir / "db";
  opened(file, with({kSecond, kThird})).reset();
  const std::string before = read_file(file);
  for (const std::string& why : {refusal(file), refusal_to_look(file)}) {
    CHECK_THAT(why, Contains("newer") && Contains("schema " + numbered(2) + ";") &&
                        Contains("knows " + numbered(0) + ")"));
  }
  CHECK(read_file(file) == before);
}

TEST_CASE("who only looks at an older file is told so, and leaves it", "[server][sqlite][schema]") {
  const TempDir dir;
  const std::string file = dir / "db";
  fill(file, 3);
  const std::string before = read_file(file);
  CHECK_THAT(refusal_to_look(file, with({kSecond})), Contains("older") &&
                                                         Contains("schema " + numbered(0) + ";") &&
                                                         Contains("knows " + numbered(1) + ")"));
  CHECK(read_file(file) == before);
  CHECK(ask(file, "PRAGMA user_version") == numbered(0));
}

TEST_CASE("of several at once each step is done by one", "[server][sqlite][schema][race]") {
  const TempDir dir;
  const Steps steps = with({kSecond, kThird});
  for (int round = 0; round < 10; ++round) {
    const std::string file = dir / std::to_string(round);
    fill(file, 50);
    std::atomic<int> done = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i) {
        threads.emplace_back([&] {
          sqlite3* database = nullptr;
          if (sqlite3_open(file.c_str(), &database) == SQLITE_OK) {
            sqlite3_busy_timeout(database, 20000);
            if (!bring_forward(database, steps)) ++done;
          }
          sqlite3_close(database);
        });
      }
    }
    CHECK(done == 4);
    CHECK(ask(file, "PRAGMA user_version") == numbered(2));
    CHECK(ask(file, "SELECT step FROM done ORDER BY rowid") == "2|3");
    CHECK(ask(file, "SELECT note FROM claims WHERE id = 2") == "from r2!");
  }
}

TEST_CASE("a step that fails midway leaves the version before it, whole",
          "[server][sqlite][schema]") {
  const TempDir dir;
  const std::string file = dir / "db";
  fill(file, 5);
  const std::string before = told(loaded(*opened(file)));
  const std::string broken = std::string(kThird) + "INSERT INTO claims (id) VALUES (2);";

  CHECK_THAT(refusal(file, with({kSecond, broken.c_str()})),
             Contains(file) && Contains("from schema " + numbered(1) + " to " + numbered(2) + ":"));
  CHECK(ask(file, "PRAGMA user_version") == numbered(1));
  CHECK(ask(file, "SELECT step FROM done ORDER BY rowid") == "2");
  CHECK(ask(file, "SELECT note FROM claims WHERE id = 2") == "from r2");
  CHECK(ask(file, "SELECT count(*) FROM sqlite_schema WHERE name = 'by_note'") == "0");
  CHECK(told(loaded(*opened(file, with({kSecond})))) == before);
  // With the step mended it goes on from there.
  CHECK(told(loaded(*opened(file, with({kSecond, kThird})))) == before);
  CHECK(ask(file, "SELECT step FROM done ORDER BY rowid") == "2|3");
}

TEST_CASE("one who is killed while it brings a file forward leaves a whole version",
          "[server][sqlite][schema]") {
  const TempDir dir;
  fill(dir / "db", 30);
  const std::string before = told(loaded(*opened(dir / "db")));
  const Steps steps = with({kSecond, kThird});
  std::map<std::string, int> left;  // how often which version
  bool is_over = false;
  for (int ticks = 1; !is_over; ticks += 17) {
    const std::string file = dir / "copy";
    for (const char* tail : {"", "-wal", "-shm"}) fs::remove(file + tail);
    fs::copy_file(dir / "db", file);
    const pid_t child = fork();
    if (child == 0) {
      sqlite3* database = nullptr;
      if (sqlite3_open(file.c_str(), &database) != SQLITE_OK) _exit(1);
      sqlite3_progress_handler(
          database, 1,
          [](void* count) {
            if (--*static_cast<int*>(count) == 0) kill(getpid(), SIGKILL);
            return 0;
          },
          &ticks);
      _exit(bring_forward(database, steps) ? 2 : 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    is_over = WIFEXITED(status);
    if (is_over) CHECK(WEXITSTATUS(status) == 0);

    const File found(file);
    const std::string version = found.ask("PRAGMA user_version");
    CAPTURE(ticks, version);
    ++left[version];
    const bool is_second = version != numbered(0);
    const bool is_third = version == numbered(2);
    CHECK(found.ask("SELECT count(*) FROM pragma_table_info('claims') WHERE name = 'note'") ==
          (is_second ? "1" : "0"));
    if (is_second) {
      CHECK(found.ask("SELECT DISTINCT step FROM done") == (is_third ? "2|3" : "2"));
      CHECK(found.ask(std::string("SELECT count(*) FROM claims WHERE note = 'from ' || resource") +
                      (is_third ? "|| '!'" : "")) == "29");
    }
    CHECK(found.ask("SELECT count(*) FROM sqlite_schema WHERE name = 'by_note'") ==
          (is_third ? "1" : "0"));
    // The next one goes on from there.
    CHECK(told(loaded(*opened(file, steps))) == before);
    CHECK(found.ask("SELECT step FROM done ORDER BY rowid") == "2|3");
    CHECK(found.ask("PRAGMA integrity_check") == "ok");
  }
  CHECK(left[numbered(0)] > 5);
  CHECK(left[numbered(1)] > 5);
  CHECK(left[numbered(2)] >= 1);
  CHECK(left.size() == 3);
}

TEST_CASE("a database of version 1 is served with its claims, fences and marks",
          "[server][sqlite][schema]") {
  const TempDir dir;
  const std::string file = dir / "db";
  File(file).sql(read_file(source_dir() + "/tests/unit/server/version1.sql"));
  REQUIRE(ask(file, "PRAGMA user_version") == "1");

  {
    const auto rows = opened(file);
    const Rows::Contents contents = loaded(*rows);
    CHECK(contents.last_id == 21);
    CHECK(contents.fence_floor == 3);
    CHECK(contents.last_time == 3093463us);
    std::vector<std::string> claims;
    for (const Claim& one : contents.claims) {
      claims.push_back(std::to_string(one.id) + " " + one.resource + " " +
                       std::string(claims::word(one.status)) + " " + std::to_string(one.fence));
    }
    CHECK(claims == std::vector<std::string>{
                        "4 once released 4", "5 once released 5", "6 disk/a active 1",
                        "7 disk/a waiting 0", "8 disk/a waiting 0", "9 readers released 1",
                        "10 readers active 2", "11 readers waiting 0", "12 pool active 1",
                        "13 pool active 2", "14 pool waiting 0", "15 gone expired 1",
                        "16 gone withdrawn 0", "17 back aborted 1", "18 line\nbreak active 2",
                        "19 revoked revoked 2", "20 gone active 2", "21 back active 2"});
    CHECK(server::told(contents.claims[2]) ==
          "id='6' resource='disk/a' owner='anna' key='key-1' "
          "user_data='{\"n\":[1,2.5,null],\"text\":\"it's \\\"quoted\\\" \\\\ \xC3\xB6 "
          "\xF0\x9F\x94\x92\"}' reason='' mode='exclusive' status='active' confirmed='1' "
          "ttl='600000000' waiting_ttl='0' count='0' fence='1' queued='579878' "
          "queued.wall='1794910144314787' activated='579878' activated.wall='1794910144314787' "
          "ended='0' ended.wall='0' deadline='600579878' heard='579878' ");
    CHECK(server::told(contents.claims[10]) ==
          "id='14' resource='pool' owner='bert' key='' user_data='null' reason='' mode='counted' "
          "status='waiting' confirmed='0' ttl='132000000' waiting_ttl='0' count='3' fence='0' "
          "queued='971373' queued.wall='1794910144706283' activated='0' activated.wall='0' "
          "ended='0' ended.wall='0' deadline='0' heard='971373' ");
    CHECK(contents.claims[3].waiting_ttl == 1h);
    CHECK(contents.claims[15].reason == "it was late");
  }
  CHECK(refusal_to_look(file).empty());

  FakeClocks clocks;
  ManualScheduler scheduler(clocks);
  auto result = open_store("sqlite:" + file, {}, scheduler, silent_log());
  REQUIRE(std::holds_alternative<std::unique_ptr<Store>>(result));
  Store& store = *std::get<0>(result);
  const auto answer = [&](auto ask) {
    std::optional<Answer> told;
    ask([&told](Answer one) { told = std::move(one); });
    REQUIRE(scheduler.run_until([&] { return told.has_value(); }));
    return *told;
  };
  const auto post = [&](const std::string& resource, const std::string& owner,
                        const std::string& key) {
    NewClaim wish;
    wish.resource = resource;
    wish.owner = owner;
    wish.key = key;
    wish.ttl = 1min;
    return answer([&](Store::Done done) { store.post(wish, std::move(done)); });
  };
  const Answer first = post("never seen", "anna", "");
  CHECK(first.view.claim.id == 22);
  CHECK(first.view.claim.fence == 4);  // above the floor
  CHECK(post("once", "anna", "").view.claim.fence == 6);
  CHECK(post("disk/a", "bert", "key-1").view.claim.id == 8);
  Change release;
  release.status = Status::released;
  CHECK(answer([&](Store::Done done) {
          store.patch(6, release, Caller{}, std::move(done));
        }).outcome == Outcome::ended);
  const Answer next = answer([&](Store::Done done) { store.claim(7, std::move(done)); });
  CHECK(next.view.claim.status == Status::active);
  CHECK(next.view.claim.fence == 4);
}
