/// Sixteen busy clients, and a server or a database that is killed among them.

#include <catch2/catch.hpp>
#include <csignal>
#include <mutex>
#include <random>
#include <set>
#include <thread>

#include "system/server/postgres.h"
#include "system/server/service.h"

using namespace holdfast::testing;
using std::chrono::milliseconds;

namespace {

constexpr int kClients = 16;
constexpr int kResources = 4;

std::string resource(int number) {
  return "busy " + std::to_string(number % kResources);
}

/// What a client was told of a claim.
struct Fact {
  long id = 0;
  std::string resource;
  std::string token;   ///< its user_data
  std::string status;  ///< the last one that was acknowledged
  std::string wanted;  ///< asked for, but not answered; empty if nothing is open
  long fence = 0;      ///< 0: was not told of a grant
};

/// Who believes to hold what. Two at a time for one resource would be one too many.
class Holders {
 public:
  void enter(int number) {
    if (inside_[static_cast<std::size_t>(number % kResources)].fetch_add(1) != 0)
      was_shared_ = true;
  }
  void leave(int number) { inside_[static_cast<std::size_t>(number % kResources)].fetch_sub(1); }
  void forget() {
    for (auto& count : inside_) count = 0;
  }
  bool was_shared() const { return was_shared_; }

 private:
  std::array<std::atomic<int>, kResources> inside_{};
  std::atomic<bool> was_shared_{false};
};

/// One client: claims, waits, renews, releases, until it gets no answer or is told to stop.
class Client {
 public:
  Client(int server_port, int number, std::string stem, Holders& holders)
      : port(server_port),
        to_(server_port),
        number_(number),
        stem_(std::move(stem)),
        holders_(holders) {}

  void run(const std::stop_token& stop) {
    for (int turn = 0; !stop.stop_requested() && is_answered_; ++turn) one_turn(turn);
  }
  bool was_answered() const { return is_answered_; }  ///< every time, and not with 503

  const int port;
  std::vector<Fact> facts;
  std::vector<std::string> odd;  ///< replies that no healthy server gives

 private:
  void one_turn(int turn) {
    const std::string token = stem_ + std::to_string(turn);
    const Reply posted = ask("POST", "/v1/claims/",
                             {{"resource", resource(number_)}, {"ttl", 600}, {"user_data", token}});
    if (!expect(posted, {201, 202})) return;
    facts.push_back(
        {id_of(posted.json()), resource(number_), token, posted.json().at("status"), "", 0});
    if (posted.status == 201) granted(posted);
    for (int tries = 0; is_answered_ && facts.back().status == "waiting"; ++tries) {
      if (tries == 5) return end("withdrawn");
      activate();
    }
    if (!is_answered_) return;
    renew();
    if (is_answered_) end(turn % 3 == 0 ? "aborted" : "released");
  }

  void granted(const Reply& reply) {
    facts.back().status = "active";
    facts.back().fence = reply.json().at("fence");
    holders_.enter(number_);
  }

  void activate() {
    facts.back().wanted = "active";
    const Reply reply = ask("PATCH", path_of(facts.back().id), {{"status", "active"}});
    if (!expect(reply, {200, 409})) return;
    facts.back().wanted.clear();
    if (reply.status == 200) granted(reply);
  }

  void renew() {
    const Reply reply = ask("PATCH", path_of(facts.back().id), {{"ttl", 700}});
    expect(reply, {200});
  }

  void end(const std::string& status) {
    Fact& fact = facts.back();
    fact.wanted = status;
    const bool was_active = fact.status == "active";
    if (was_active) holders_.leave(number_);
    const Reply reply = ask("PATCH", path_of(fact.id), {{"status", status}});
    if (!expect(reply, {204})) return;
    fact.status = status;
    fact.wanted.clear();
  }

  Reply ask(const std::string& method, const std::string& target, const Json& body) {
    to_.send(Request{.method = method, .target = target, .body = body.dump(), .headers = kJsonType}
                 .bytes());
    return to_.read(method);
  }

  bool expect(const Reply& reply, const std::set<int>& codes) {
    if (codes.count(reply.status) != 0) return true;
    is_answered_ = false;
    if (reply.status != 0 && reply.status != 503)
      odd.push_back(std::to_string(reply.status) + " " + reply.body);
    return false;
  }

  Connection to_;
  int number_;
  std::string stem_;
  Holders& holders_;
  bool is_answered_ = true;
};

bool is_allowed(const Fact& fact, const std::string& now) {
  if (now == fact.status || now == fact.wanted) return true;
  return fact.status == "waiting" && now == "active";
}

/// A service under load that is struck again and again; compares what it keeps with what it said.
class Trial {
 public:
  explicit Trial(Service& service) : service_(service) {}

  /// `strike` hurts it in the midst of the work, `mend` brings it back. The server at the port
  /// `survivor` has to answer its clients all the time.
  void round(const std::function<void()>& strike, const std::function<void()>& mend,
             int survivor = 0) {
    ++rounds_;
    std::vector<std::unique_ptr<Client>> clients;
    {
      std::vector<std::jthread> crowd;
      for (int i = 0; i < kClients; ++i) {
        clients.push_back(std::make_unique<Client>(
            service_.port(), i, std::to_string(rounds_) + "." + std::to_string(i) + ".", holders_));
        crowd.emplace_back(
            [client = clients.back().get()](const std::stop_token& stop) { client->run(stop); });
      }
      std::this_thread::sleep_for(milliseconds(100 + static_cast<int>(random_() % 200)));
      strike();
    }
    mend();
    for (const auto& client : clients) {
      if (client->port == survivor) CHECK(client->was_answered());
      for (const std::string& odd : client->odd) FAIL_CHECK("told " << odd);
      facts_.insert(facts_.end(), client->facts.begin(), client->facts.end());
    }
    compare();
    end_all();
  }

  void finish() {
    CHECK_FALSE(holders_.was_shared());
    CHECK(facts_.size() >= static_cast<std::size_t>(rounds_) * 4);
    known_ = 0;
    compare();
  }

 private:
  /// Reads what is new since the last look, and all of it after finish().
  void compare() {
    std::map<long, Json> claims;
    std::map<std::string, std::map<long, long>> by_fence;
    std::map<std::string, int> active;
    const Json all = service_.list("limit=1000000&offset=" + std::to_string(known_));
    for (const Json& claim : all) {
      const long id = claim.at("id");
      CHECK(claims.emplace(id, claim).second);
      const std::string name = claim.at("resource");
      if (claim.at("status") == "active") ++active[name];
      if (claim.at("fence").is_null()) continue;
      CHECK(by_fence[name].emplace(claim.at("fence").get<long>(), id).second);
    }
    for (const auto& [name, count] : active) CHECK(count <= 1);
    for (const auto& [name, grants] : by_fence) check_order(name, grants);
    for (const Fact& fact : facts_) {
      if (fact.id <= last_id_) {
        if (known_ != 0) continue;  // compared before, and ended since
      }
      check_fact(fact, claims);
    }
    known_ += all.size();
    if (!claims.empty()) last_id_ = std::max(last_id_, claims.rbegin()->first);
  }

  /// Fences grow with the order of the grants, which is that of the ids.
  void check_order(const std::string& name, const std::map<long, long>& grants) {
    long last = 0;
    for (const auto& [fence, id] : grants) {
      CHECK(id > last);
      last = id;
    }
    if (known_ == 0) return;
    CHECK(grants.begin()->first > highest_[name]);
  }

  void check_fact(const Fact& fact, const std::map<long, Json>& claims) {
    INFO("claim " << fact.id << " said to be " << fact.status << ", asked to be " << fact.wanted);
    const auto found = claims.find(fact.id);
    REQUIRE(found != claims.end());
    const Json& claim = found->second;
    INFO(claim.dump());
    CHECK(claim.at("resource") == fact.resource);
    CHECK(claim.at("user_data") == fact.token);
    CHECK(is_allowed(fact, claim.at("status")));
    if (fact.fence != 0) CHECK(claim.at("fence") == fact.fence);
  }

  /// Makes room for the next round, and takes the last word on every claim down.
  void end_all() {
    holders_.forget();
    for (const char* status : {"waiting", "active"}) {
      for (const long id : service_.ids(std::string("limit=1000&status=") + status))
        CHECK(service_.patch(id, {{"status", "withdrawn"}}).status == 204);
    }
    std::map<long, Fact*> by_id;
    for (Fact& fact : facts_) by_id[fact.id] = &fact;
    for (const Json& claim : service_.list("limit=1000000")) {
      const auto fact = by_id.find(claim.at("id"));
      if (!claim.at("fence").is_null())
        highest_[claim.at("resource")] =
            std::max<long>(highest_[claim.at("resource")], claim.at("fence"));
      if (fact == by_id.end()) continue;
      fact->second->status = claim.at("status");
      fact->second->wanted.clear();
    }
  }

  Service& service_;
  Holders holders_;
  std::vector<Fact> facts_;
  std::size_t known_ = 0;
  long last_id_ = 0;
  int rounds_ = 0;
  std::map<std::string, long> highest_;
  std::minstd_rand random_{20261117};
};

}  // namespace

TEST_CASE("twenty kills of a busy server on SQLite lose nothing that was said", "[server][crash]") {
  Service own({}, Kept::sqlite);
  Trial trial(own);
  for (int i = 0; i < 20; ++i)
    trial.round([&] { own.daemon().kill(); }, [&] { own.daemon().start(); });
  trial.finish();
  CHECK(own.daemon().stop() == 0);
  const Result checked = run({"holdfastd", "check", "--store", own.store()});
  INFO(checked.out << checked.err);
  CHECK(checked.code == 0);
  own.daemon().start();
}

TEST_CASE("a PostgreSQL that is stopped at once and started again loses nothing that was said",
          "[server][crash]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  Service own({}, Kept::postgres);
  Trial trial(own);
  const auto start = [&] {
    postgres().start();
    CHECK(eventually([&] { return own.get("/readyz").status == 200; }, std::chrono::seconds(60)));
  };
  for (int i = 0; i < 5; ++i) {
    // Soon, so that open COMMITs can be asked about; or when all clients have been told 503.
    const bool is_soon = i % 2 == 0;
    trial.round(
        [&] {
          postgres().stop_at_once();
          if (is_soon) start();
        },
        [&] {
          if (!is_soon) start();
        });
  }
  trial.finish();
}

TEST_CASE("one of two servers may be killed while the other serves on", "[server][crash]") {
  if (!Postgres::is_installed()) SKIP_TEST("no PostgreSQL");
  Service own({}, Kept::postgres2);
  Trial trial(own);
  for (int i = 0; i < 10; ++i) {
    Daemon& victim = *own.daemons()[static_cast<std::size_t>(i % 2)];
    trial.round(
        [&] {
          victim.kill();
          std::this_thread::sleep_for(milliseconds(100));  // the others go on
        },
        [&] { victim.start(); }, own.daemons()[static_cast<std::size_t>(1 - i % 2)]->port());
  }
  trial.finish();
}
