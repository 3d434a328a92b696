/// What a client of the server cannot see of its PostgreSQL: lost answers, rivals, time that is
/// missing.

#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <thread>

#include "pg_tables.h"
#include "proxy.h"
#include "server/pg_schema.h"
#include "store_client.h"
#include "support/process.h"

using namespace holdfast;
using namespace holdfast::server;
using namespace holdfast::testing;
using namespace std::chrono_literals;

namespace {

std::string host_of(const std::string& where) {
  const auto begin = where.find("host=") + 5;
  return where.substr(begin, where.find(' ', begin) - begin);
}

/// The same database by another door.
std::string through(const std::string& where, const std::string& host) {
  std::string other = where;
  return other.replace(other.find(host_of(where)), host_of(where).size(), host);
}

std::string numbered(std::string name, std::size_t number) {
  return name += std::to_string(number);
}

NewClaim wish(const std::string& resource, Micros ttl = 1min) {
  NewClaim claim;
  claim.resource = resource;
  claim.ttl = ttl;
  claim.user_data = "null";
  return claim;
}

std::vector<View> all_of(StoreClient& store) {
  ListQuery query;
  query.limit = 100000;
  return store.list(query).value.value();
}

/// A pooler that lends a connection for each transaction, and has fewer of them than a server
/// wants.
class Pooler {
 public:
  static bool is_installed() { return has_program("pgbouncer"); }

  explicit Pooler(const std::string& database_folder) {
    write_file(dir_ / "ini", "[databases]\n* = host=" + database_folder +
                                 " user=holdfast\n[pgbouncer]\nlisten_addr =\nlisten_port = 5432\n"
                                 "unix_socket_dir = " +
                                 dir_.path() +
                                 "\nauth_type = any\npool_mode = transaction\n"
                                 "default_pool_size = 3\n");
    std::vector<std::string> words{"setpriv", "--pdeathsig", "INT"};
    if (is_root()) {
      const passwd* user = getpwnam("postgres");
      if (user == nullptr || chown(dir_.path().c_str(), user->pw_uid, user->pw_gid) != 0 ||
          chmod((dir_ / "ini").c_str(), 0644) != 0) {
        throw std::runtime_error("no user for the pooler");
      }
      for (const char* word : {"--reuid=postgres", "--regid=postgres", "--clear-groups"}) {
        words.emplace_back(word);
      }
    }
    for (const std::string& word : {std::string("pgbouncer"), std::string("-q"), dir_ / "ini"}) {
      words.push_back(word);
    }
    process_ = std::make_unique<Process>(words);
  }

  const std::string& folder() const { return dir_.path(); }

 private:
  TempDir dir_;
  std::unique_ptr<Process> process_;
};

}  // namespace

TEST_CASE("what an answer refers to is let go by the thread that asked PostgreSQL",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  std::unique_ptr<Store> store;
  Loop loop;  // ends first, and what it was given last is the end of the store
  auto opened = open_store(empty_database(), {}, loop, silent_log());
  store = std::move(std::get<0>(opened));
  loop.posts_take_long = true;
  std::thread::id loops_thread;
  loop.post([&] { loops_thread = std::this_thread::get_id(); });
  std::atomic<int> let_go = 0;
  std::atomic<int> elsewhere = 0;
  const auto belonging = [&] {
    return std::shared_ptr<int>(new int, [&](const int* place) {
      if (std::this_thread::get_id() != loops_thread) ++elsewhere;
      ++let_go;
      delete place;
    });
  };
  loop.post([&] {
    store->post(wish("r"), [held = belonging()](const Answer&) {});
    store->patch(1, {}, Caller{}, [held = belonging()](const Answer&) {});
    store->patch(77, {}, Caller{}, [held = belonging()](const Answer&) {});
    store->revoke({}, "because", [held = belonging()](const auto&) {});
    store->claim(1, [held = belonging()](const Answer&) {});
    store->list({}, [held = belonging()](const auto&) {});
    store->totals([held = belonging()](const auto&) {});
    store->close([held = belonging()] {});
  });
  CHECK(eventually([&] { return let_go == 8; }));
  CHECK(elsewhere == 0);
  loop.posts_take_long = false;
  loop.post([&store] { store.reset(); });
}

TEST_CASE("a claim lives in PostgreSQL as in any store", "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient store(where);

  const Answer first = store.post("r");
  REQUIRE(first.kind == Answer::Kind::done);
  CHECK(first.outcome == Outcome::active);
  CHECK(first.view.claim.fence == 1);
  const Answer second = store.post("r");
  CHECK(second.outcome == Outcome::waiting);
  CHECK(second.view.position == 1);
  CHECK(second.active_claim == first.view.claim.id);
  CHECK(second.time_to_lapse > 50s);

  const auto queue = store.queue("r").value.value();
  CHECK(queue.resource.active.size() == 1);
  CHECK(queue.waiting.size() == 1);
  CHECK(queue.resource.queue_length == 1);
  CHECK(store.totals().active == 1);
  CHECK(store.totals().waiting == 1);
  CHECK(store.totals().resources == 1);

  CHECK(store.set(second.view.claim.id, Status::active).outcome == Outcome::conflict);
  CHECK(store.set(second.view.claim.id, Status::released).outcome == Outcome::wrong_state);
  CHECK(store.set(first.view.claim.id, Status::released).outcome == Outcome::ended);
  CHECK(store.claim(second.view.claim.id).view.claim.status == Status::active);
  CHECK(eventually([&] { return store.has_heard(second.view.claim.id, Status::active); }));
  CHECK(store.fence("r") == 2);
  CHECK(store.fence("unknown") == 0);

  const auto listed = store.resources({}).value.value();
  REQUIRE(listed.size() == 1);
  CHECK(listed[0].active.size() == 1);
  CHECK(listed[0].fence == 2);

  RevokeFilter filter;
  filter.resource = "r";
  CHECK(store.revoke(filter).value.value() == std::vector<ClaimId>{second.view.claim.id});
  CHECK(store.claim(second.view.claim.id).view.claim.reason == "because");
  CHECK(store.claim(4711).kind == Answer::Kind::not_found);
  CHECK(store.claim(~ClaimId{0}).kind == Answer::Kind::not_found);
  CHECK(store.set(4711, Status::active).kind == Answer::Kind::not_found);
  CHECK(store.set(~ClaimId{0}, Status::active).kind == Answer::Kind::not_found);
  CHECK(store.resources({}).value.value().empty());
  store.close();
  check_sound(where);
}

TEST_CASE("names of any length and any letters are told apart", "[server][postgres]") {
  NEEDS_POSTGRES();
  StoreClient store(empty_database());
  const std::string lengthy(16000, 'x');
  const std::vector<std::string> names{
      "a",           "A",           "\xc3\xa4",        "a\xcc\x88", "q'\"\\{},$1 ",
      lengthy + "1", lengthy + "2", "\xf0\x9f\x94\x92"};
  for (const std::string& name : names) {
    NewClaim posted = wish(name);
    posted.user_data = "{\"text\": \"\\\\ \\\" {} \\u0000 " + lengthy + "\"}";
    posted.key = "key of " + name;
    const Answer answer = store.post(posted);
    CHECK(answer.outcome == Outcome::active);
    const Answer again = store.claim(answer.view.claim.id);
    CHECK(again.view.claim.resource == name);
    CHECK(again.view.claim.user_data == posted.user_data);
    CHECK(again.view.claim.key == posted.key);
    CHECK(store.post(name).outcome == Outcome::waiting);
  }
  ResourceQuery query;
  query.contains = lengthy;
  CHECK(store.resources(query).value.value().size() == 2);
}

TEST_CASE("a change whose COMMIT was not answered is done once and answered",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  using Fault = Proxy::Fault;
  const auto fault = GENERATE(Fault::before, Fault::at_once, Fault::after);
  CAPTURE(static_cast<int>(fault));
  const std::string where = empty_database();
  Proxy proxy(host_of(where));
  StoreClient store(through(where, proxy.folder()));
  StoreClient witness(where);

  proxy.arm(fault);
  const Answer posted = store.post("r");
  CHECK(proxy.was_hit());
  REQUIRE(posted.kind == Answer::Kind::done);
  CHECK(posted.outcome == Outcome::active);
  REQUIRE(all_of(witness).size() == 1);
  CHECK(all_of(witness)[0].claim.id == posted.view.claim.id);

  const Answer waiting = store.post("r");
  proxy.arm(fault);
  CHECK(store.set(posted.view.claim.id, Status::released).outcome == Outcome::ended);
  CHECK(proxy.was_hit());
  CHECK(witness.claim(posted.view.claim.id).view.claim.status == Status::released);
  CHECK(witness.claim(waiting.view.claim.id).view.claim.status == Status::active);
  CHECK(witness.fence("r") == 2);
  CHECK(eventually([&] { return store.has_heard(waiting.view.claim.id, Status::active); }));
  check_sound(where);
}

TEST_CASE("a claim of which nobody knows is withdrawn when the database is back",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  Proxy proxy(host_of(where));
  StoreClient store(through(where, proxy.folder()));
  StoreClient witness(where);

  proxy.arm(Proxy::Fault::after, true);
  const Answer posted = store.post("r");
  CHECK(posted.kind == Answer::Kind::unavailable);
  CHECK(posted.reason.find("not known") != std::string::npos);
  REQUIRE(all_of(witness).size() == 1);
  CHECK(all_of(witness)[0].claim.status == Status::active);

  proxy.open();
  CHECK(eventually([&] { return all_of(witness)[0].claim.status == Status::withdrawn; }));
  CHECK(store.post("r").outcome == Outcome::active);
  check_sound(where);
}

TEST_CASE("two servers never let two in, and serve in the order of ids",
          "[server][postgres][race]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  std::vector<std::unique_ptr<StoreClient>> stores;
  for (int i = 0; i < 2; ++i) stores.push_back(std::make_unique<StoreClient>(where));
  constexpr int kContenders = 8;
  constexpr int kRounds = 12;
  std::atomic<int> inside = 0;
  std::atomic<int> faults = 0;
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, ClaimId>> grants;  // in the order in which they were noticed
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kContenders; ++i) {
      threads.emplace_back([&, i] {
        StoreClient& store = *stores[i % 2];
        for (int round = 0; round < kRounds; ++round) {
          Answer mine = store.post("r");
          const ClaimId id = mine.view.claim.id;
          while (mine.kind == Answer::Kind::done && mine.outcome != Outcome::active) {
            mine = store.set(id, Status::active);
            if (mine.outcome == Outcome::wrong_state) break;
          }
          if (mine.kind != Answer::Kind::done || mine.outcome != Outcome::active) {
            ++faults;
            continue;
          }
          if (inside.fetch_add(1) != 0) ++faults;
          {
            const std::scoped_lock lock(mutex);
            grants.emplace_back(mine.view.claim.fence, id);
          }
          inside.fetch_sub(1);
          if (store.set(id, Status::released).outcome != Outcome::ended) ++faults;
        }
      });
    }
  }
  CHECK(faults == 0);
  REQUIRE(grants.size() == kContenders * kRounds);
  CHECK(std::is_sorted(grants.begin(), grants.end()));
  std::vector<ClaimId> ids;
  for (const auto& [fence, id] : grants) ids.push_back(id);
  CHECK(std::is_sorted(ids.begin(), ids.end()));
  CHECK(grants.front().first == 1);
  CHECK(grants.back().first == kContenders * kRounds);
  check_sound(where);
}

TEST_CASE("servers that hurt each other with many resources all get answers",
          "[server][postgres][race]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient one(where), two(where);
  std::atomic<int> faults = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        std::mt19937 random(static_cast<unsigned>(i));
        StoreClient& store = i % 2 == 0 ? one : two;
        for (int round = 0; round < 20; ++round) {
          NewClaim posted = wish(numbered("r", random() % 4), 20ms);
          posted.mode = random() % 2 == 0 ? Mode::shared : Mode::exclusive;
          posted.waiting_ttl = random() % 2 == 0 ? Micros(30ms) : Micros(0);
          posted.key = random() % 2 == 0 ? std::to_string(random() % 8) : "";
          const Answer answer = store.post(posted);
          if (answer.kind != Answer::Kind::done && answer.kind != Answer::Kind::key_misused) {
            ++faults;
          }
          if (i < 2 && round % 5 == 0) {
            RevokeFilter filter;
            filter.status = Status::waiting;
            if (!store.revoke(filter).value) ++faults;
          }
          ListQuery query;
          if (!store.list(query).value) ++faults;
        }
      });
    }
  }
  CHECK(faults == 0);
  check_sound(where);
}

TEST_CASE("of two posts with one key at two servers there is one claim",
          "[server][postgres][race]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient one(where), two(where);
  for (int round = 0; round < 10; ++round) {
    NewClaim posted = wish(numbered("r", round));
    posted.key = numbered("key", round);
    Answer first, second;
    {
      const std::jthread left([&] { first = one.post(posted); });
      const std::jthread right([&] { second = two.post(posted); });
    }
    REQUIRE(first.kind == Answer::Kind::done);
    REQUIRE(second.kind == Answer::Kind::done);
    CHECK(first.view.claim.id == second.view.claim.id);
    CHECK(second.outcome == Outcome::active);
    posted.resource += "another";
    CHECK(one.post(posted).kind == Answer::Kind::key_misused);
  }
  // A day later the key is free.
  tell(where, "UPDATE holdfast.claims SET queued = queued - 86400000001");
  NewClaim late = wish("late");
  late.key = "key0";
  CHECK(one.post(late).outcome == Outcome::active);
}

TEST_CASE("eight servers that start at once make the tables once", "[server][postgres][race]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  std::atomic<int> started = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        auto opened = PgConnection::open(conninfo_of(where));
        if (auto* connection = std::get_if<0>(&opened)) {
          if (!prepare_pg_schema(*connection)) ++started;
        }
      });
    }
  }
  CHECK(started == 8);
  CHECK(ask(where, "SELECT count(*) FROM holdfast.meta") == "1");
}

TEST_CASE("a database that is not ours to use is refused with the reason", "[server][postgres]") {
  NEEDS_POSTGRES();
  const auto why = [](const std::string& where) {
    Loop loop;
    auto opened = open_store(where, {}, loop, silent_log());
    const auto* error = std::get_if<StoreError>(&opened);
    return error == nullptr ? "" : error->why;
  };
  const std::string where = empty_database();
  CHECK(why(where).empty());
  tell(where, "UPDATE holdfast.meta SET version = 2");
  CHECK(why(where).find("newer holdfastd") != std::string::npos);
  CHECK(std::holds_alternative<StoreError>(inspect_store(where, [](const Claim&, Stamp) {})));

  tell(where, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
  std::string latin = where;
  latin.replace(latin.find("dbname="), std::string::npos, "dbname=latin");
  CHECK(why(latin).find("UTF8") != std::string::npos);

  CHECK(why("postgres:host=/nowhere/at/all password=secret") != "");
  CHECK(why("postgres:host=/nowhere/at/all password=secret").find("secret") == std::string::npos);
  CHECK(why("postgres:secret") == "postgres: the connection string cannot be read");
}

TEST_CASE("time in which no server was there is given back to the leases once",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  ClaimId held = 0, next = 0;
  {
    StoreClient store(where);
    held = store.post("r", 30s).view.claim.id;
    next = store.post("r", 30s).view.claim.id;
    store.close();
  }
  // As if all that had happened a hundred seconds earlier.
  tell(where, "UPDATE holdfast.claims SET deadline = deadline - 100000000");
  tell(where, "UPDATE holdfast.resources SET due = due - 100000000, seen = seen - 100000000");
  tell(where, "UPDATE holdfast.meta SET last_seen = last_seen - 100000000");

  StoreClient one(where), two(where);
  std::vector<Answer> seen(4);
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      threads.emplace_back([&, i] { seen[i] = (i % 2 == 0 ? one : two).claim(held); });
    }
  }
  for (const Answer& answer : seen) {
    CHECK(answer.view.claim.status == Status::active);
    const Micros left = answer.view.claim.deadline - answer.now.time;
    CHECK(left > 20s);
    CHECK(left <= 30s);
  }
  CHECK(one.claim(next).view.claim.status == Status::waiting);
}

TEST_CASE("a lease that began after a server was last noted is no longer after a gap",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  ClaimId held = 0, next = 0;
  {
    StoreClient store(where);
    held = store.post("r", 30s).view.claim.id;
    next = store.post("r", 30s).view.claim.id;
    store.close();
  }
  // Two seconds after the note, a hundred seconds ago.
  tell(where, "UPDATE holdfast.claims SET deadline = deadline - 100000000");
  tell(where, "UPDATE holdfast.resources SET due = due - 100000000, seen = seen - 100000000");
  tell(where, "UPDATE holdfast.meta SET last_seen = last_seen - 102000000");

  StoreClient store(where);
  const Answer told = store.claim(held);
  CHECK(told.view.claim.status == Status::active);
  CHECK(told.view.claim.deadline - told.now.time > 20s);
  CHECK(told.view.claim.deadline - told.now.time <= 30s);
  CHECK(store.claim(next).view.claim.status == Status::waiting);
  // And what time alone will do is due when the lease is over.
  tell(where, "UPDATE holdfast.claims SET deadline = deadline - 29000000 WHERE status < 2");
  tell(where, "UPDATE holdfast.resources SET due = due - 29000000");
  CHECK(eventually([&] { return store.has_heard(next, Status::active); }, 10s));
}

TEST_CASE("a gap is noticed though the database's clock was stepped back before",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  ClaimId held = 0, next = 0;
  {
    StoreClient store(where);
    store.post("other");
    // As if it had been a hundred seconds ahead until now.
    tell(where, "UPDATE holdfast.meta SET last_seen = last_seen + 100000000");
    held = store.post("r", 30s).view.claim.id;
    next = store.post("r", 30s).view.claim.id;
    store.close();
  }
  // A minute without a server.
  tell(where, "UPDATE holdfast.claims SET deadline = deadline - 60000000");
  tell(where, "UPDATE holdfast.resources SET due = due - 60000000, seen = seen - 60000000");
  tell(where, "UPDATE holdfast.meta SET last_seen = last_seen - 60000000");

  StoreClient store(where);
  const Answer told = store.claim(held);
  CHECK(told.view.claim.status == Status::active);
  CHECK(told.view.claim.deadline - told.now.time > 20s);
  CHECK(told.view.claim.deadline - told.now.time <= 30s);
  CHECK(store.claim(next).view.claim.status == Status::waiting);
}

TEST_CASE("after a quiet time a new lease is as long as it was asked for", "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient store(where);
  const ClaimId first = store.post("r", 500ms).view.claim.id;
  const ClaimId second = store.post("r", 1min).view.claim.id;
  CHECK(eventually([&] { return store.claim(second).view.claim.status == Status::active; }, 3s));
  const Answer now = store.claim(second);
  CHECK(now.view.claim.deadline - now.now.time > 50s);
  CHECK(now.view.claim.deadline - now.now.time <= 1min);
  CHECK(store.claim(first).view.claim.status == Status::expired);
  CHECK(eventually([&] { return store.counters().expired == 1; }));
  CHECK(store.counters().granted == 2);
}

TEST_CASE("what is due happens without anybody asking, whichever server is left",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient one(where);
  ClaimId waiter = 0, silent = 0;
  {
    StoreClient two(where);
    (void)two.post("r", 1500ms);
    NewClaim posted = wish("r");
    posted.waiting_ttl = 300ms;
    silent = two.post(posted).view.claim.id;
    waiter = two.post("r").view.claim.id;
    one.watch(waiter);
    one.watch(silent);
  }
  CHECK(eventually([&] { return one.has_heard(waiter, Status::active); }));
  CHECK(eventually([&] { return one.has_heard(silent, Status::withdrawn); }));
  CHECK(ask(where, "SELECT status FROM holdfast.claims WHERE id = " + std::to_string(waiter)) ==
        "1");
}

TEST_CASE("what another server did to a watched claim is heard of", "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient one(where), two(where);
  const ClaimId held = one.post("r").view.claim.id;
  NewClaim posted = wish("r");
  posted.user_data = "{\"told\": true}";
  const ClaimId waiter = two.post(posted).view.claim.id;
  two.watch(waiter);
  CHECK(one.set(held, Status::released).outcome == Outcome::ended);
  CHECK(eventually([&] { return two.has_heard(waiter, Status::active); }));
  CHECK(two.news_of(waiter).claim.user_data == posted.user_data);
  CHECK(one.set(waiter, Status::revoked).outcome == Outcome::ended);
  CHECK(eventually([&] { return two.has_heard(waiter, Status::revoked); }));
  two.watch(waiter);  // one that comes too late hears at once
  CHECK(eventually([&] { return two.has_heard(waiter, Status::revoked); }));
}

TEST_CASE("a pooler of transactions may stand between", "[server][postgres]") {
  NEEDS_POSTGRES();
  if (!Pooler::is_installed()) SKIP_TEST("needs pgbouncer");
  const std::string where = empty_database();
  const Pooler pooler(host_of(where));
  const std::string pooled = through(where, pooler.folder());
  REQUIRE(eventually([&] { return PgConnection::open(conninfo_of(pooled)).index() == 0; }));
  StoreClient one(pooled), two(pooled);
  std::atomic<int> faults = 0;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&, i] {
        StoreClient& store = i % 2 == 0 ? one : two;
        for (int round = 0; round < 10; ++round) {
          const Answer mine = store.post(numbered("r", static_cast<std::size_t>(round % 3)));
          if (mine.kind != Answer::Kind::done) ++faults;
          if (!store.list({}).value) ++faults;
          const Answer ended = store.set(mine.view.claim.id, Status::withdrawn);
          if (ended.kind != Answer::Kind::done || ended.outcome != Outcome::ended) ++faults;
        }
      });
    }
  }
  CHECK(faults == 0);
  const ClaimId held = one.post("r").view.claim.id;
  const ClaimId waiter = two.post("r").view.claim.id;
  two.watch(waiter);
  CHECK(one.set(held, Status::released).outcome == Outcome::ended);
  CHECK(eventually([&] { return two.has_heard(waiter, Status::active); }));
  check_sound(where);
}

TEST_CASE("while the database is away calls are answered soon, and it is found again",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  Proxy proxy(host_of(where));
  StoreClient store(through(where, proxy.folder()));
  const ClaimId held = store.post("r").view.claim.id;
  CHECK_FALSE(store.trouble());

  proxy.shut();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 20; ++i) {
    const Answer refused = store.post("r");
    CHECK(refused.kind == Answer::Kind::unavailable);
    CHECK_FALSE(refused.reason.empty());
  }
  CHECK_FALSE(store.list({}).value);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CHECK(eventually([&] { return store.trouble().has_value(); }));

  proxy.open();
  CHECK(eventually([&] { return !store.trouble(); }));
  CHECK(eventually([&] { return store.claim(held).view.claim.status == Status::active; }));
  CHECK(store.totals().waiting == 0);
  check_sound(where);
}

TEST_CASE("a database that falls silent does not hold a call for ever", "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  Proxy proxy(host_of(where));
  StoreClient store(through(where, proxy.folder()));
  (void)store.post("r");
  proxy.silence();
  CHECK(store.post("r").kind ==
        Answer::Kind::unavailable);  // the client waits for a minute at most
  proxy.open();
  CHECK(eventually([&] { return store.post("s").kind == Answer::Kind::done; }));
}

TEST_CASE("connections that were closed while idle are not noticed by anybody",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient store(where);
  for (int round = 0; round < 5; ++round) {
    CHECK(store.post(numbered("r", round)).kind == Answer::Kind::done);
    tell(where,
         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
         "WHERE pid <> pg_backend_pid() AND datname = current_database()");
  }
  CHECK(store.list({}).value.has_value());
}

TEST_CASE("fences go on where a dropped resource ended, and the dropped are in the archive",
          "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  const TempDir dir;
  Rules rules;
  rules.archive = dir / "archive";
  StoreClient store(where, rules);
  NewClaim keyed = wish("r");
  keyed.key = "key";
  ClaimId last = 0;
  for (int i = 0; i < 5; ++i) {
    last = store.post(i == 4 ? keyed : wish("r")).view.claim.id;
    (void)store.set(last, Status::released);
  }
  CHECK(store.fence("r") == 5);
  rules.retain_claims = 2;
  store.set_rules(rules);
  CHECK(eventually([&] { return store.totals().claims == 2; }));
  CHECK(store.post(keyed).view.claim.id == last);
  rules.retain = 0s;
  store.set_rules(rules);
  CHECK(eventually([&] { return store.totals().claims == 0; }));
  CHECK(ask(where, "SELECT count(*) FROM holdfast.resources") == "0");
  CHECK(ask(where, "SELECT count(*) FROM holdfast.keys") == "0");
  CHECK(store.fence("r") == 5);
  CHECK(store.post("r").view.claim.fence == 6);

  const std::string archived = read_file(rules.archive);
  CHECK(std::count(archived.begin(), archived.end(), '\n') == 5);
  CHECK(archived.find("\"id\": " + std::to_string(last)) != std::string::npos);
}

TEST_CASE("limits hold, within one batch too", "[server][postgres]") {
  NEEDS_POSTGRES();
  Rules rules;
  rules.max_queue = 2;
  rules.max_claims_per_owner = 4;
  StoreClient store(empty_database(), rules);
  const auto burst = [&](NewClaim posted) {
    std::map<Answer::Kind, int> kinds;
    std::mutex mutex;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        const Answer answer = store.post(posted);
        const std::scoped_lock lock(mutex);
        ++kinds[answer.kind];
      });
    }
    threads.clear();
    return kinds;
  };
  auto kinds = burst(wish("r"));
  CHECK(kinds[Answer::Kind::done] == 3);
  CHECK(kinds[Answer::Kind::queue_full] == 5);
  NewClaim owned = wish("s");
  owned.owner = "alice";
  owned.mode = Mode::shared;
  kinds = burst(owned);
  CHECK(kinds[Answer::Kind::done] == 4);
  CHECK(kinds[Answer::Kind::too_many] == 4);
}

TEST_CASE("a list in SQL has what ListQuery fits", "[server][postgres]") {
  NEEDS_POSTGRES();
  const std::string where = empty_database();
  StoreClient store(where);
  std::mt19937 random(7);
  for (int i = 0; i < 60; ++i) {
    NewClaim posted = wish(numbered("r", random() % 5), Micros(random() % 3'000'000));
    posted.mode = static_cast<Mode>(random() % 3);
    posted.count = posted.mode == Mode::counted ? 2 : 0;
    const ClaimId id = store.post(posted).view.claim.id;
    if (random() % 2 == 0) {
      const std::vector<Status> ends{Status::released, Status::aborted, Status::withdrawn};
      (void)store.set(id, ends[random() % ends.size()]);
    }
  }
  const auto some = [&](ListQuery::Range<Micros>& range, Micros around) {
    if (random() % 3 != 0) return;
    if (random() % 2 == 0) range.minimum = around - Micros(random() % 2'000'000);
    if (random() % 2 == 0) range.maximum = around + Micros(random() % 2'000'000);
  };
  int matched = 0;
  for (int i = 0; i < 100; ++i) {
    ListQuery query;
    query.limit = 1000;
    if (random() % 3 == 0) query.resource = numbered("r", random() % 6);
    if (random() % 3 == 0) query.status = static_cast<Status>(random() % 7);
    if (random() % 3 == 0) query.mode = static_cast<Mode>(random() % 3);
    const auto everything = store.list({{}, {}, {}, {}, {}, {}, {}, 1000, 0});
    some(query.ttl, 0s);
    some(query.active_duration, 1s);
    some(query.waiting_duration, 1s);
    some(query.created, everything.now.wall - 2s);
    const auto told = store.list(query);
    const auto again = all_of(store);
    std::vector<ClaimId> listed, wanted;
    for (const View& view : told.value.value()) listed.push_back(view.claim.id);
    for (const View& view : again) {
      if (query.fits(view.claim, told.now.time)) wanted.push_back(view.claim.id);
    }
    // What moved on between the two looks says nothing.
    const auto before = everything.value.value();
    const bool is_still =
        std::equal(before.begin(), before.end(), again.begin(), again.end(),
                   [](const View& a, const View& b) { return a.claim.status == b.claim.status; });
    if (!is_still) continue;
    CHECK(listed == wanted);
    matched += static_cast<int>(wanted.size());
    query.limit = 3;
    query.offset = 2;
    const auto page = store.list(query);
    CHECK(page.value.value().size() <= 3);
  }
  CHECK(matched > 100);
  for (int i = 0; i < 5; ++i) (void)store.post("line");
  ListQuery line;
  line.resource = "line";
  std::size_t place = 0;
  const auto queued = store.list(line).value.value();
  for (const View& view : queued) CHECK(view.position == place++);
  CHECK(place == 5);
  CHECK(store.queue("line").value.value().waiting.back().position == 4);
}
