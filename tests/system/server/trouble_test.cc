/// A store that fails: full, read-only, gone, of another age, or somebody else's.

#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "postgres.h"
#include "service.h"
#include "support/fault_mount.h"

using namespace holdfast::testing;
using Catch::Contains;
using std::chrono::seconds;

namespace {

/// A small filesystem of its own, where this user may have one.
class SmallDisk {
 public:
  explicit SmallDisk(const std::string& size) {
    mkdir(path().c_str(), 0755);
    is_mounted_ = mount("tmpfs", path().c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  ~SmallDisk() {
    if (is_mounted_) umount2(path().c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }
  std::string path() const { return dir_ / "disk"; }
  std::string operator/(const std::string& name) const { return path() + "/" + name; }

  void fill() const {
    std::string chunk(4096, 'x');
    FILE* file = std::fopen(((*this) / "filler").c_str(), "ab");
    while (std::fwrite(chunk.data(), 1, chunk.size(), file) == chunk.size() &&
           std::fflush(file) == 0) {
    }
    std::fclose(file);
  }
  void make_room() const { unlink(((*this) / "filler").c_str()); }

 private:
  TempDir dir_;
  bool is_mounted_ = false;
};

Reply post(int port, const Json& body) {
  return exchange(
      port, {.method = "POST", .target = "/v1/claims/", .body = body.dump(), .headers = kJsonType});
}

Reply patch(int port, long id, const Json& body) {
  return exchange(
      port, {.method = "PATCH", .target = path_of(id), .body = body.dump(), .headers = kJsonType});
}

Json big(const std::string& name) {
  return {{"resource", name}, {"ttl", 600}, {"user_data", std::string(50000, 'x')}};
}

void check_unavailable(const Reply& reply) {
  INFO(reply.body);
  CHECK(reply.status == 503);
  CHECK(reply.has("retry-after"));
  CHECK(reply.json().value("exception_class", "") == "DatabaseError");
  CHECK_FALSE(reply.json().value("message", "").empty());
}

/// All claims but for what runs.
Json lasting(int port) {
  // Just after a failure memory is made anew from the database, and reads are told so.
  Reply reply;
  REQUIRE(eventually([&] {
    reply = exchange(port, {.target = "/v1/claims/?limit=100000"});
    return reply.status == 200;
  }));
  Json all = reply.json();
  for (Json& claim : all) {
    for (const char* field : {"ttl", "active_duration", "waiting_duration", "url"})
      claim.erase(field);
  }
  return all;
}

/// What a reply says of a database that may only be read, whatever the database calls it.
const auto kSaysReadOnly = Contains("read-only", Catch::CaseSensitive::No);

/// A server whose database may only be read for a while: what it says then, and that it goes on by
/// itself with all as it was.
class ReadOnlyTime {
 public:
  explicit ReadOnlyTime(int port) : port_(port) {
    owner_ = id_of(post(port_, claim_body("held", 600)).json());
    waiter_ = id_of(post(port_, claim_body("held", 600)).json());
    before_ = lasting(port_);
  }

  /// It may only be read from now on, or soon.
  void begin() const {
    const Json renewal{{"ttl", 600}};
    REQUIRE(eventually([&] { return patch(port_, owner_, renewal).status == 503; }));
    for (const Reply& reply :
         {post(port_, claim_body("held", 600)), post(port_, claim_body("other", 600)),
          patch(port_, owner_, {{"status", "released"}}), patch(port_, owner_, {{"ttl", 1}}),
          patch(port_, waiter_, {{"status", "withdrawn"}}), revoke_all()}) {
      check_unavailable(reply);
      CHECK_THAT(reply.json().value("message", ""), kSaysReadOnly);
    }
    const Reply ready = exchange(port_, {.target = "/readyz"});
    CHECK(ready.status == 503);
    CHECK_THAT(ready.json().value("reason", ""), kSaysReadOnly);
    CHECK(exchange(port_, {.target = "/healthz"}).status == 200);
  }

  void check_reads() const {
    CHECK(lasting(port_) == before_);
    CHECK(fence() == 1);
  }

  /// It may be changed again from now on, or soon.
  void end() const {
    CHECK(eventually([&] { return exchange(port_, {.target = "/readyz"}).status == 200; }));
    check_reads();
    const double left = claim(owner_).at("ttl");
    CHECK(left > 540);
    CHECK(left <= 600);
    CHECK(post(port_, claim_body("other", 600)).status == 201);
    CHECK(patch(port_, owner_, {{"status", "released"}}).status == 204);
    CHECK(claim(waiter_).at("status") == "active");
    CHECK(claim(waiter_).at("fence") == 2);
    CHECK(fence() == 2);
  }

 private:
  Json claim(long id) const { return exchange(port_, {.target = path_of(id)}).json(); }
  Json fence() const {
    return exchange(port_, {.target = "/v1/resources/held/fence"}).json().at("fence");
  }
  Reply revoke_all() const {
    return exchange(port_, {.method = "POST",
                            .target = "/v1/admin/revoke",
                            .body = R"({"resource": "held", "reason": "none"})",
                            .headers = kJsonType});
  }

  int port_;
  long owner_ = 0;
  long waiter_ = 0;
  Json before_;
};

/// All of a PostgreSQL, as a standby is, or one that somebody looks after.
void set_read_only(const std::string& store, bool is_so) {
  postgres().sql(store, std::string("ALTER SYSTEM SET default_transaction_read_only = ") +
                            (is_so ? "on" : "off"));
  postgres().sql(store, "SELECT pg_reload_conf()");
}

Result refused(const std::string& store) {
  return run({"holdfastd", "--listen", "127.0.0.1:0", "--store", store}, {.limit = seconds(20)});
}

void raise_schema(const std::string& file) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, "PRAGMA user_version = 9999", nullptr, nullptr, nullptr) == SQLITE_OK);
  sqlite3_close(db);
}

}  // namespace

TEST_CASE("a full disk is told with 503, changes nothing, and is got over", "[server][trouble]") {
  SmallDisk disk("3m");
  if (!disk.is_mounted()) SKIP_TEST("may not mount a small disk");
  Daemon daemon("sqlite:" + disk / "claims.db");
  const int port = daemon.port();
  const long owner = id_of(post(port, claim_body("held", 600)).json());
  const long waiter = id_of(post(port, claim_body("held", 600)).json());
  disk.fill();
  Reply full;
  for (int i = 0; i < 200 && full.status != 503; ++i)
    full = post(port, big("much " + std::to_string(i)));
  check_unavailable(full);
  const Json before = lasting(port);
  for (int i = 0; i < 5; ++i) check_unavailable(post(port, big("held")));
  for (int i = 0; i < 200 && patch(port, owner, {{"ttl", 600}}).status != 503; ++i) {
  }
  check_unavailable(patch(port, owner, {{"status", "released"}}));
  check_unavailable(patch(port, waiter, {{"status", "withdrawn"}}));
  CHECK(lasting(port) == before);
  CHECK(exchange(port, {.target = "/healthz"}).status == 200);

  disk.make_room();
  CHECK(eventually([&] { return post(port, claim_body("later", 600)).status == 201; }));
  CHECK(eventually([&] { return exchange(port, {.target = "/readyz"}).status == 200; }));
  CHECK(patch(port, owner, {{"status", "released"}}).status == 204);
  CHECK(exchange(port, {.target = path_of(waiter)}).json().at("status") == "active");

  const Json last = lasting(port);
  CHECK(last.size() == before.size() + 1);
  daemon.kill();
  daemon.start();
  CHECK(lasting(daemon.port()) == last);
}

TEST_CASE("a database that may only be read is told at once", "[server][trouble]") {
  SmallDisk disk("3m");
  if (!disk.is_mounted()) SKIP_TEST("may not mount a small disk");
  const std::string store = "sqlite:" + disk / "claims.db";
  { Daemon daemon(store); }
  REQUIRE(mount(nullptr, disk.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0);
  const Result result = refused(store);
  CHECK(result.code == 1);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("claims.db") && Contains("Read-only file system"));
}

TEST_CASE("a disk that may only be read is told with 503, changes nothing, and is got over",
          "[server][trouble]") {
  const TempDir dir;
  // A kind that is known to be of this host.
  const FaultMount disk(dir.path(), 0, "fuse-overlayfs");
  if (!disk.why().empty()) SKIP_TEST(disk.why());
  Daemon daemon("sqlite:" + disk.path() + "/claims.db");
  const ReadOnlyTime time(daemon.port());
  disk.set({.call = "change", .kind = "refuse", .number = EROFS}, 1);
  time.begin();
  time.check_reads();
  CHECK(disk.was_hit());
  disk.clear();
  time.end();

  const Json last = lasting(daemon.port());
  daemon.kill();
  daemon.start();
  CHECK(lasting(daemon.port()) == last);
  CHECK(daemon.stop() == 0);
  CHECK(run({"holdfastd", "check", "--store", "sqlite:" + dir / "claims.db"}).code == 0);
}

TEST_CASE("PostgreSQL that may only be read is told with 503, and is got over",
          "[server][trouble]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  Service own({}, Kept::postgres);
  const ReadOnlyTime time(own.port());
  set_read_only(own.store(), true);
  time.begin();
  // No server may say that it is there, so the leases stand still, and nobody knows for how long.
  CHECK(eventually([&] { return own.get("/v1/claims/").status == 503; }));
  check_unavailable(own.get("/v1/claims/"));
  set_read_only(own.store(), false);
  time.end();
  CHECK(run({"holdfastd", "check", "--store", own.store()}).code == 0);
}

TEST_CASE("PostgreSQL without claims that may be changed again is ready before anybody asks",
          "[server][trouble]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  Service own({}, Kept::postgres);
  set_read_only(own.store(), true);
  CHECK(eventually([&] { return own.post(claim_body("first")).status == 503; }));
  CHECK(own.get("/readyz").status == 503);
  set_read_only(own.store(), false);
  CHECK(eventually([&] { return own.get("/readyz").status == 200; }));
  CHECK(own.get("/v1/claims/").json().empty());
}

TEST_CASE("a file put in the place of the database is told with 503 and not used",
          "[server][trouble]") {
  const TempDir dir;
  const std::string file = dir / "claims.db";
  Daemon daemon("sqlite:" + file);
  const int port = daemon.port();
  const long owner = id_of(post(port, claim_body("held", 600)).json());
  const Json before = lasting(port);
  const std::string away = dir / "away.db";
  REQUIRE(rename(file.c_str(), away.c_str()) == 0);
  write_file(file, "");
  const auto end = std::chrono::steady_clock::now() + seconds(3);
  while (std::chrono::steady_clock::now() < end) check_unavailable(post(port, claim_body("held")));
  CHECK(read_file(file).empty());
  REQUIRE(rename(away.c_str(), file.c_str()) == 0);
  CHECK(eventually([&] { return exchange(port, {.target = "/readyz"}).status == 200; }));
  CHECK(lasting(port) == before);
  CHECK(patch(port, owner, {{"status", "released"}}).status == 204);
}

TEST_CASE("a database that is gone is told with 503 until it is back", "[server][trouble]") {
  const TempDir dir;
  const std::string file = dir / "claims.db";
  Daemon daemon("sqlite:" + file);
  const int port = daemon.port();
  const long owner = id_of(post(port, claim_body("held", 600)).json());
  const long waiter = id_of(post(port, claim_body("held", 600)).json());
  const Json before = lasting(port);
  const auto move = [](const std::string& from, const std::string& to) {
    for (const char* part : {"", "-wal", "-shm"})
      rename((from + part).c_str(), (to + part).c_str());
  };
  move(file, dir / "away.db");
  check_unavailable(post(port, claim_body("other", 600)));
  check_unavailable(patch(port, owner, {{"status", "released"}}));
  CHECK(exchange(port, {.target = "/healthz"}).status == 200);
  const Reply ready = exchange(port, {.target = "/readyz"});
  CHECK(ready.status == 503);
  CHECK(ready.json().value("status", "") == "unavailable");
  CHECK_FALSE(ready.json().value("reason", "").empty());

  move(dir / "away.db", file);
  CHECK(eventually([&] { return exchange(port, {.target = "/readyz"}).status == 200; }));
  CHECK(lasting(port) == before);
  CHECK(eventually([&] { return post(port, claim_body("other", 600)).status == 201; }));
  CHECK(patch(port, owner, {{"status", "released"}}).status == 204);
  const Json last = lasting(port);
  daemon.kill();
  daemon.start();
  CHECK(lasting(daemon.port()) == last);
  CHECK(exchange(daemon.port(), {.target = path_of(waiter)}).json().at("status") == "active");
}

TEST_CASE("PostgreSQL that is away is told with 503 until it is back", "[server][trouble]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  Service own({}, Kept::postgres);
  const long owner = own.claim("held", 600);
  const long waiter = own.claim("held", 600);
  const Json before = lasting(own.port());
  postgres().stop_at_once();
  check_unavailable(own.post(claim_body("other")));
  check_unavailable(own.patch(owner, {{"status", "released"}}));
  check_unavailable(own.get(path_of(owner)));
  check_unavailable(own.get("/v1/claims/"));
  CHECK(own.get("/healthz").status == 200);
  CHECK(own.get("/readyz").status == 503);
  postgres().start();
  CHECK(eventually([&] { return own.get("/readyz").status == 200; }, seconds(60)));
  CHECK(eventually([&] { return own.get("/v1/claims/").status == 200; }, seconds(60)));
  CHECK(lasting(own.port()) == before);
  CHECK(own.patch(owner, {{"status", "released"}}).status == 204);
  CHECK(own.status(waiter) == "active");
}

TEST_CASE("a second server on one SQLite file is refused and harms nothing", "[server][trouble]") {
  Service own({}, Kept::sqlite);
  const long id = own.claim("held");
  const Result second = refused(own.store());
  CHECK(second.code == 1);
  CHECK(second.out.empty());
  CHECK_THAT(second.err, Contains(own.file()));
  CHECK(own.status(id) == "active");
  CHECK(own.patch(id, {{"status", "released"}}).status == 204);
}

TEST_CASE("a second server on a hard link of the database is refused", "[server][trouble]") {
  Service own({}, Kept::sqlite);
  const long id = own.claim("held");
  const std::string other = own.file() + ".other";
  REQUIRE(link(own.file().c_str(), other.c_str()) == 0);
  const Result second = refused("sqlite:" + other);
  CHECK(second.code == 1);
  CHECK(second.out.empty());
  CHECK_THAT(second.err, Contains(other) && Contains("2 hard links"));
  CHECK(own.status(id) == "active");
  own.daemon().stop();

  // Nobody serves it, but under the other name a second server could be started later.
  const Result alone = refused(own.store());
  CHECK(alone.code == 1);
  CHECK_THAT(alone.err, Contains("2 hard links"));
  REQUIRE(unlink(other.c_str()) == 0);
  own.daemon().start();
  CHECK(own.status(id) == "active");
}

TEST_CASE("a second server is refused though the lock file was removed or the database renamed",
          "[server][trouble]") {
  Service own({}, Kept::sqlite);
  const long id = own.claim("held");
  REQUIRE(unlink((own.file() + "-lock").c_str()) == 0);
  const Result second = refused(own.store());
  CHECK(second.code == 1);
  CHECK(second.out.empty());
  CHECK_THAT(second.err, Contains("another holdfastd serves it already"));
  CHECK(own.status(id) == "active");
  CHECK(own.claim("new") > id);

  const std::string moved = own.file() + ".moved";
  REQUIRE(rename(own.file().c_str(), moved.c_str()) == 0);
  const Result third = refused("sqlite:" + moved);
  CHECK(third.code == 1);
  CHECK_THAT(third.err, Contains("another holdfastd serves it already"));
  REQUIRE(rename(moved.c_str(), own.file().c_str()) == 0);
  CHECK(own.status(id) == "active");
}

TEST_CASE("SQLite's own locks survive readers, check and refused servers beside the server",
          "[server][trouble]") {
  Service own({}, Kept::sqlite);
  const long first = own.claim("held");
  const auto reads = [&] {
    return run({"/usr/bin/env", "python3", "-c",
                "import sqlite3, sys\n"
                "database = sqlite3.connect(sys.argv[1])\n"
                "print(database.execute('SELECT count(*) FROM claims').fetchone()[0])\n"
                "database.close()\n",
                own.file()});
  };
  CHECK(reads().out == "1\n");
  CHECK(run({"holdfastd", "check", "--store", own.store()}).out == "1 claims, 0 faults\n");
  REQUIRE(unlink((own.file() + "-lock").c_str()) == 0);
  CHECK(refused(own.store()).code == 1);
  CHECK(reads().out == "1\n");
  // If a reader found no lock it would take itself for the last one and remove the journal, and
  // what the server commits from then on would go with it.
  CHECK(access((own.file() + "-wal").c_str(), F_OK) == 0);
  const long last = own.claim("other");
  own.daemon().kill();
  own.daemon().start();
  CHECK(own.status(first) == "active");
  CHECK(own.status(last) == "active");
  CHECK(run({"holdfastd", "check", "--store", own.store()}).out == "2 claims, 0 faults\n");
}

TEST_CASE("a database of a newer holdfastd is refused and left alone", "[server][trouble]") {
  const TempDir dir;
  const std::string file = dir / "claims.db";
  { Daemon daemon("sqlite:" + file); }
  raise_schema(file);
  const std::string before = read_file(file);
  const Result result = refused("sqlite:" + file);
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("9999") && Contains("newer"));
  CHECK((read_file(file) == before));  // in parentheses: Catch need not print the bytes
}

TEST_CASE("tables of a newer holdfastd in PostgreSQL are refused", "[server][trouble]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  const std::string store = postgres().new_database();
  { Daemon daemon(store); }
  postgres().sql(store, "UPDATE holdfast.meta SET version = 9999");
  const Result result = refused(store);
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("9999") && Contains("newer"));
}

TEST_CASE("a server whose tables a newer holdfastd has brought forward says so with 503",
          "[server][trouble]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  const std::string store = postgres().new_database();
  Daemon daemon(store);
  const int port = daemon.port();
  const long id = id_of(post(port, claim_body("held", 600)).json());
  postgres().sql(store, "UPDATE holdfast.meta SET version = 9999");
  for (const Reply& reply :
       {post(port, claim_body("held", 600)), patch(port, id, {{"status", "released"}}),
        exchange(port, {.target = "/v1/claims/"})}) {
    check_unavailable(reply);
    CHECK_THAT(reply.json().value("message", ""), Contains("9999") && Contains("newer"));
  }
  CHECK(eventually([&] {
    const Reply ready = exchange(port, {.target = "/readyz"});
    return ready.status == 503 && ready.body.find("9999") != std::string::npos;
  }));
}

TEST_CASE("a file that is no database is refused and left alone", "[server][trouble]") {
  const TempDir dir;
  const std::string text(10000, 'x');
  write_file(dir / "notes.txt", text);
  const Result result = refused("sqlite:" + dir / "notes.txt");
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("notes.txt"));
  CHECK(read_file(dir / "notes.txt") == text);
}

TEST_CASE("a database of some other program is refused and left alone", "[server][trouble]") {
  const TempDir dir;
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open((dir / "other.db").c_str(), &db) == SQLITE_OK);
  CHECK(sqlite3_exec(db, "CREATE TABLE claims (mine TEXT)", nullptr, nullptr, nullptr) ==
        SQLITE_OK);
  sqlite3_close(db);
  const std::string before = read_file(dir / "other.db");
  CHECK(refused("sqlite:" + dir / "other.db").code == 1);
  CHECK(read_file(dir / "other.db") == before);
}

TEST_CASE("a database on a network filesystem is refused with the reason", "[server][trouble]") {
  const TempDir dir;
  const FaultMount mounted(dir.path());
  if (!mounted.why().empty()) SKIP_TEST(mounted.why());
  const Result result = refused("sqlite:" + mounted.path() + "/claims.db");
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("network") || Contains("filesystem"));
  CHECK(tree(dir.path()).empty());
}

TEST_CASE("a damaged database is found by check", "[server][trouble]") {
  const TempDir dir;
  const std::string file = dir / "claims.db";
  {
    Daemon daemon("sqlite:" + file);
    for (int i = 0; i < 50; ++i) post(daemon.port(), big("name " + std::to_string(i)));
  }
  CHECK(run({"holdfastd", "check", "--store", "sqlite:" + file}).code == 0);
  std::string bytes = read_file(file);
  REQUIRE(bytes.size() > 100000);
  for (std::size_t at = 4096; at < 40960; ++at) bytes[at] = 'x';
  write_file(file, bytes);
  const Result result = run({"holdfastd", "check", "--store", "sqlite:" + file});
  CHECK(result.code == 1);
  CHECK_FALSE((result.out + result.err).empty());
}
