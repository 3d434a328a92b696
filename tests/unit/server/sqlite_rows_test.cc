#include "server/sqlite_rows.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <random>
#include <thread>

#include "scene.h"
#include "support/temp_dir.h"

using namespace holdfast::server;
using namespace holdfast::testing;
using namespace std::chrono_literals;
namespace fs = std::filesystem;

namespace {

std::unique_ptr<Rows> opened(const std::string& file) {
  auto result = open_sqlite(file);
  if (const auto* error = std::get_if<StoreError>(&result)) FAIL(error->why);
  return std::move(std::get<std::unique_ptr<Rows>>(result));
}

/// Why it cannot be opened.
std::string refusal(const std::string& file) {
  auto result = open_sqlite(file);
  REQUIRE(std::holds_alternative<StoreError>(result));
  return std::get<StoreError>(result).why;
}

Rows::Contents loaded(Rows& rows) {
  auto result = rows.load();
  if (const auto* error = std::get_if<StoreError>(&result)) FAIL(error->why);
  return std::get<Rows::Contents>(result);
}

void sql(const std::string& file, const std::string& text) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  char* error = nullptr;
  sqlite3_exec(database, text.c_str(), nullptr, nullptr, &error);
  INFO((error == nullptr ? "" : error));
  CHECK(error == nullptr);
  sqlite3_free(error);
  sqlite3_close(database);
}

Claim claim(ClaimId id, const std::string& resource = "r") {
  Claim c;
  c.id = id;
  c.resource = resource;
  c.user_data = "null";
  return c;
}

Claim active(ClaimId id, std::uint64_t fence, const std::string& resource = "r") {
  Claim c = claim(id, resource);
  c.status = Status::active;
  c.fence = fence;
  return c;
}

Rows::Batch batch(const std::vector<Claim>& claims, bool are_new = true) {
  Rows::Batch all;
  for (const Claim& c : claims) all.changed.push_back({{c, 0}, are_new});
  return all;
}

std::vector<std::string> faults(const std::string& file) {
  const auto result = inspect_store("sqlite:" + file, [](const Claim&, Stamp) {});
  if (const auto* error = std::get_if<StoreError>(&result)) return {error->why};
  return std::get<Inspection>(result).faults;
}

}  // namespace

TEST_CASE("every field comes back as it was written", "[server][sqlite]") {
  const TempDir dir;
  Claim odd;
  odd.id = 1;
  odd.resource = "'; DROP TABLE claims; -- \" \\ \n \xC3\xA9 \xF0\x9F\x94\x92 \x01\x7F";
  odd.owner = "o'owner";
  odd.key = std::string(300, 'k');
  odd.user_data = "\"" + std::string(1 << 20, 'x') + "\"";
  odd.reason = "\xE2\x80\xAE reason";
  odd.ttl = Micros(10'000'000'000'000'000);
  odd.waiting_ttl = Micros(1);
  odd.mode = Mode::counted;
  odd.status = Status::revoked;
  odd.is_confirmed = true;
  odd.count = 1000000;
  odd.fence = 9'000'000'000'000'000'000ULL;
  odd.queued = {Micros(11), Micros(-12)};
  odd.activated = {Micros(13), Micros(14)};
  odd.ended = {Micros(15), Micros(4'000'000'000'000'000'000)};
  odd.deadline = Micros(-17);
  odd.heard = Micros(18);
  Claim plain = claim(2);
  {
    const auto rows = opened(dir / "db");
    CHECK(loaded(*rows).claims.empty());
    Rows::Batch both = batch({odd, plain});
    both.time = 99us;
    REQUIRE_FALSE(rows->commit(both));
  }
  {
    const auto rows = opened(dir / "db");
    const auto contents = loaded(*rows);
    REQUIRE(contents.claims.size() == 2);
    CHECK(same(contents.claims[0], odd));
    CHECK(same(contents.claims[1], plain));
    CHECK(contents.last_time == 99us);
    // All that may change does.
    plain.status = Status::aborted;
    plain.reason = "enough";
    plain.is_confirmed = true;
    plain.fence = 7;
    plain.activated = {1us, 2us};
    plain.ended = {3us, 4us};
    plain.deadline = 5us;
    plain.heard = 6us;
    REQUIRE_FALSE(rows->commit(batch({plain}, false)));
    Rows::Batch drop;
    drop.dropped = {odd};
    drop.last_id = 2;
    drop.fence_floor = odd.fence;
    REQUIRE_FALSE(rows->commit(drop));
  }
  const auto rows = opened(dir / "db");
  const auto contents = loaded(*rows);
  REQUIRE(contents.claims.size() == 1);
  CHECK(same(contents.claims[0], plain));
  CHECK(contents.last_id == 2);
  CHECK(contents.fence_floor == odd.fence);
  CHECK(contents.last_time == 99us);  // it never goes back
}

TEST_CASE("a commit is all of a batch or nothing", "[server][sqlite]") {
  const TempDir dir;
  const auto rows = opened(dir / "db");
  REQUIRE_FALSE(rows->commit(batch({active(1, 1)})));
  Claim ended = active(1, 1);
  ended.status = Status::released;
  Rows::Batch bad = batch({ended}, false);
  bad.changed.push_back({{claim(2), 0}, true});
  bad.time = 5us;
  SECTION("if a claim is new twice") {
    bad.changed.push_back({{claim(2), 0}, true});
  }
  SECTION("if a claim is changed that is not there") {
    bad.changed.push_back({{claim(3), 0}, false});
  }
  const auto failure = rows->commit(bad);
  REQUIRE(failure);
  CHECK(failure->find("not an error") == std::string::npos);
  const auto contents = loaded(*rows);
  REQUIRE(contents.claims.size() == 1);
  CHECK(contents.claims[0].status == Status::active);
  CHECK(contents.last_time == 0us);
  CHECK_FALSE(rows->probe());
  CHECK_FALSE(rows->commit(batch({claim(2)})));
}

TEST_CASE("a file is served once at a time, by whatever name", "[server][sqlite]") {
  const TempDir dir;
  fs::create_symlink("db", dir / "link");
  fs::create_directory_symlink(dir.path(), dir / "folder");
  auto rows = opened(dir / "db");
  CHECK(refusal(dir / "db").find("already") != std::string::npos);
  CHECK(refusal(dir / "link").find("already") != std::string::npos);
  CHECK(refusal(dir / "folder/db").find("already") != std::string::npos);
  CHECK_FALSE(rows->commit(batch({claim(1)})));
  rows.reset();
  CHECK(loaded(*opened(dir / "link")).claims.size() == 1);
}

TEST_CASE("a file that is not ours is refused and not touched", "[server][sqlite]") {
  const TempDir dir;
  const std::string file = dir / "db";
  std::string why;
  SECTION("of another program") {
    sql(file, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (1)");
    why = "another program";
  }
  SECTION("of a newer schema") {
    opened(file).reset();
    sql(file, "PRAGMA user_version = 1000; PRAGMA journal_mode = DELETE");
    why = "newer";
  }
  SECTION("no database at all") {
    write_file(file, std::string(5000, 'x'));
    why = "not a database";
  }
  const std::string before = read_file(file);
  CHECK(refusal(file).find(why) != std::string::npos);
  CHECK(read_file(file) == before);
}

TEST_CASE("an empty file becomes a database, and a missing folder is told", "[server][sqlite]") {
  const TempDir dir;
  write_file(dir / "db", "");
  CHECK(loaded(*opened(dir / "db")).claims.empty());
  CHECK(refusal(dir / "missing/db").find("missing") != std::string::npos);
  CHECK_FALSE(faults(dir / "nothing").empty());
  CHECK_FALSE(fs::exists(dir / "nothing"));
}

TEST_CASE("a file that is moved away is missed, and found again when it is back",
          "[server][sqlite]") {
  const TempDir dir;
  const auto rows = opened(dir / "db");
  REQUIRE_FALSE(rows->commit(batch({claim(1)})));
  fs::rename(dir / "db", dir / "away");
  CHECK(rows->commit(batch({claim(2)})));
  CHECK(rows->probe());
  CHECK(std::holds_alternative<StoreError>(rows->load()));
  CHECK_FALSE(fs::exists(dir / "db"));
  fs::rename(dir / "away", dir / "db");
  CHECK(loaded(*rows).claims.size() == 1);
  CHECK_FALSE(rows->probe());
  CHECK_FALSE(rows->commit(batch({claim(2)})));
  CHECK(loaded(*rows).claims.size() == 2);
}

TEST_CASE("another file in its place is not taken for it", "[server][sqlite]") {
  const TempDir dir;
  const auto rows = opened(dir / "db");
  REQUIRE_FALSE(rows->commit(batch({claim(1)})));
  opened(dir / "other").reset();
  fs::rename(dir / "db", dir / "away");
  SECTION("an empty one") {
    write_file(dir / "db", "");
  }
  SECTION("an older copy") {
    fs::copy_file(dir / "other", dir / "db");
  }
  const auto failure = rows->commit(batch({claim(2)}));
  REQUIRE(failure);
  CHECK(failure->find("another file") != std::string::npos);
  for (int i = 0; i < 2; ++i) {
    CHECK(rows->probe());
    CHECK(std::holds_alternative<StoreError>(rows->load()));
  }
  fs::remove(dir / "db");
  fs::rename(dir / "away", dir / "db");
  CHECK(loaded(*rows).claims.size() == 1);
  CHECK_FALSE(rows->probe());
}

TEST_CASE("what was committed outlives a kill at any moment", "[server][sqlite]") {
  const TempDir dir;
  std::mt19937 random(9);
  ClaimId told = 0;
  for (int round = 0; round < 25; ++round) {
    int pipe_ends[2];
    REQUIRE(pipe(pipe_ends) == 0);
    const pid_t child = fork();
    if (child == 0) {
      auto result = open_sqlite(dir / "db");
      auto* rows = std::get_if<std::unique_ptr<Rows>>(&result);
      if (rows == nullptr) _exit(1);
      // Each batch: one claim ends, the next is active.
      for (ClaimId id = std::get<Rows::Contents>((*rows)->load()).claims.size() + 1;; ++id) {
        Rows::Batch next = batch({active(id, id)});
        Claim before = active(id - 1, id - 1);
        before.status = Status::released;
        if (id > 1) next.changed.push_back({{before, 0}, false});
        next.time = Micros(static_cast<std::int64_t>(id));
        if ((*rows)->commit(next)) _exit(2);
        if (write(pipe_ends[1], &id, sizeof id) != sizeof id) _exit(3);
      }
    }
    close(pipe_ends[1]);
    // The first word, so that it is in the midst of it, and then some.
    ClaimId last = 0;
    REQUIRE(read(pipe_ends[0], &last, sizeof last) == sizeof last);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 15000));
    kill(child, SIGKILL);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status));
    while (read(pipe_ends[0], &last, sizeof last) == sizeof last) continue;
    close(pipe_ends[0]);
    CHECK(last > told);
    told = last;

    const auto rows = opened(dir / "db");
    const auto contents = loaded(*rows);
    CHECK(contents.claims.size() >= told);
    CHECK(contents.claims.size() <= told + 1);  // one may be kept that was not told
    CHECK(contents.last_time.count() == static_cast<std::int64_t>(contents.claims.size()));
    for (std::size_t i = 0; i < contents.claims.size(); ++i) {
      const Status wanted = i + 1 == contents.claims.size() ? Status::active : Status::released;
      if (contents.claims[i].status != wanted) FAIL("claim " << i + 1 << " of " << told);
    }
  }
  CHECK(faults(dir / "db").empty());
}

TEST_CASE("an inspection finds what no server could have written", "[server][sqlite]") {
  const TempDir dir;
  const std::string file = dir / "db";
  std::vector<Claim> claims;
  for (ClaimId id = 1; id <= 300; ++id) {
    claims.push_back(active(id, 1, "r" + std::to_string(id) + std::string(500, 'n')));
  }
  claims.push_back(active(301, 1, "planted"));
  Claim waiter = claim(302, "planted");
  waiter.status = Status::waiting;
  claims.push_back(waiter);
  REQUIRE_FALSE(opened(file)->commit(batch(claims)));
  REQUIRE(faults(file).empty());

  const auto planted = [&](const std::string& change, const std::string& fault) {
    sql(file, change);
    const auto found = faults(file);
    REQUIRE(found.size() == 1);
    INFO(found[0]);
    CHECK(found[0].find(fault) != std::string::npos);
  };
  SECTION("two owners") {
    planted("UPDATE claims SET status = 1, fence = 2 WHERE id = 302", "exclude");
  }
  SECTION("a fence twice") {
    planted("UPDATE claims SET status = 2, fence = 1 WHERE id = 302", "same fence");
  }
  SECTION("an owner without a fence") {
    planted("UPDATE claims SET fence = 0 WHERE id = 301", "without a fence");
  }
  SECTION("a waiter with a fence") {
    planted("UPDATE claims SET fence = 9 WHERE id = 302", "with a fence");
  }
  SECTION("a status that does not exist") {
    planted("UPDATE claims SET status = 77 WHERE id = 302", "unknown");
  }
  SECTION("too many counted claims") {
    planted(
        "UPDATE claims SET mode = 2, count = 1 WHERE id >= 301;"
        "UPDATE claims SET status = 1, fence = 2 WHERE id = 302",
        "exclude");
  }
  SECTION("no name") {
    planted("UPDATE claims SET resource = '' WHERE id = 302", "no resource");
  }
  SECTION("a broken page") {
    sql(file, "PRAGMA journal_mode = DELETE");
    std::string bytes = read_file(file);
    REQUIRE(bytes.size() > 40000);
    for (std::size_t i = 20480; i < 24576; ++i) bytes[i] = static_cast<char>(i * 7);
    write_file(file, bytes);
    CHECK_FALSE(faults(file).empty());
  }
}

TEST_CASE("an inspection works beside a server", "[server][sqlite]") {
  const TempDir dir;
  const auto rows = opened(dir / "db");
  REQUIRE_FALSE(rows->commit(batch({active(1, 1), claim(2)})));
  std::size_t seen = 0;
  const auto result = inspect_store("sqlite:" + (dir / "db"), [&](const Claim&, Stamp) { ++seen; });
  REQUIRE(std::holds_alternative<Inspection>(result));
  CHECK(std::get<Inspection>(result).claims == 2);
  CHECK(seen == 2);
  CHECK_FALSE(rows->commit(batch({claim(3)})));
}

TEST_CASE("a local folder is no network filesystem", "[server][sqlite]") {
  const TempDir dir;
  CHECK(network_filesystem(dir.path()).empty());
  CHECK(network_filesystem(dir / "not/yet/there").empty());
  CHECK(network_filesystem("not-yet-there").empty());
  CHECK(network_filesystem("/").empty());
}
