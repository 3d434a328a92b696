/// What a stop, a kill and a start leave of claims and clients.

#include <catch2/catch.hpp>
#include <csignal>
#include <future>
#include <thread>

#include "service.h"

using namespace holdfast::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

bool is_forgetful() {
  return kept() == Kept::memory;
}

/// What a claim is apart from the hour and the door.
Json lasting(Json claim) {
  for (const char* field : {"ttl", "active_duration", "waiting_duration", "url"})
    claim.erase(field);
  return claim;
}

Json lasting_list(Service& service) {
  Json all = Json::array();
  for (const Json& claim : service.list("limit=1000")) all.push_back(lasting(claim));
  return all;
}

void restart(Service& service, bool by_kill) {
  for (auto& daemon : service.daemons()) {
    if (by_kill)
      daemon->kill();
    else
      CHECK(daemon->stop() == 0);
  }
  for (auto& daemon : service.daemons()) daemon->start();
}

}  // namespace

TEST_CASE("a started server says in one line where it listens", "[server][restart]") {
  Service own;
  CHECK(own.daemon().said() ==
        "holdfastd: listening on http://127.0.0.1:" + std::to_string(own.daemon().port()) + "\n");
}

TEST_CASE("claims, queues, keys and ids outlast a restart", "[server][restart]") {
  if (is_forgetful()) return;
  const bool by_kill = GENERATE(false, true);
  Service own;
  const long done = own.claim("a");
  own.patch(done, {{"status", "released"}});
  own.post({{"resource", "a"}, {"ttl", 600}, {"user_data", {{"deep", {1, 2, nullptr}}}}});
  Json counted = claim_body("c", 600);
  counted["count"] = 2;
  Json shared = claim_body("s", 600);
  shared["mode"] = "shared";
  shared["waiting_ttl"] = 500;
  for (int i = 0; i < 3; ++i) {
    own.claim("a", 600);
    own.post(counted);
    own.post(shared);
  }
  const Headers key{{"Idempotency-Key", "k"}};
  const long keyed = id_of(own.post(claim_body("k", 600), key).json());
  const Json before = lasting_list(own);
  restart(own, by_kill);
  CHECK(lasting_list(own) == before);
  CHECK(id_of(own.post(claim_body("k", 600), key).json()) == keyed);
  CHECK(own.claim("new") > keyed);
  const std::vector<long> line = own.ids("resource=a&status=waiting");
  own.patch(own.ids("resource=a&status=active").front(), {{"status", "released"}});
  CHECK(own.ids("resource=a&status=active") == std::vector{line.front()});
}

TEST_CASE("fences grow on over a restart", "[server][restart]") {
  if (is_forgetful()) return;
  Service own;
  long last = 0;
  for (int i = 0; i < 3; ++i) {
    const Reply granted = own.post(claim_body("fenced"));
    REQUIRE(granted.status == 201);
    const long fence = granted.json().at("fence");
    CHECK(fence > last);
    last = fence;
    own.patch(id_of(granted.json()), {{"status", "released"}});
    restart(own, i == 1);
    CHECK(own.get("/v1/resources/fenced/fence").json().at("fence") == last);
  }
}

TEST_CASE("a lease keeps over a downtime what it had left", "[server][restart]") {
  if (kept() != Kept::sqlite)
    return;  // elsewhere the clock is not the server's, or nothing is kept
  const bool by_kill = GENERATE(false, true);
  Service own;
  const long owner = own.claim("kept", 2);
  const long waiter = own.claim("kept");
  const double left = own.show(owner).at("ttl");
  if (by_kill)
    own.daemon().kill();
  else
    own.daemon().stop();
  std::this_thread::sleep_for(milliseconds(2500));
  own.daemon().start();
  const Json claim = own.show(owner);
  CHECK(claim.at("status") == "active");
  // After a kill it goes on from the last commit.
  CHECK(claim.at("ttl").get<double>() <= (by_kill ? 2.0 : left));
  CHECK(claim.at("ttl").get<double>() > -0.5);
  CHECK(own.status(waiter) == "waiting");
  CHECK(eventually([&] { return own.status(waiter) == "active"; }));
}

TEST_CASE("a server that is told to stop answers those who wait", "[server][restart]") {
  Service own;
  own.claim("held");
  const long waiter = own.claim("held");
  auto posted = std::async(std::launch::async, [&] {
    return own.post(claim_body("held"), {{"Prefer", "wait=60"}});
  });
  auto patched = std::async(std::launch::async, [&] {
    return own.patch(waiter, {{"status", "active"}}, {{"Prefer", "wait=60"}});
  });
  REQUIRE(eventually([&] { return own.ids("status=waiting").size() == 2; }));
  REQUIRE(eventually([&] {
    int parked = 0;
    for (auto& daemon : own.daemons())
      parked += exchange(daemon->port(), {.target = "/v1/stats"}).json().at("parked").get<int>();
    return parked == 2;
  }));
  const auto begin = std::chrono::steady_clock::now();
  for (auto& daemon : own.daemons()) daemon->signal(SIGTERM);
  CHECK(posted.get().status == 202);
  CHECK(patched.get().status == 409);
  for (auto& daemon : own.daemons()) CHECK(daemon->stop() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(15));
  for (auto& daemon : own.daemons()) daemon->start();
  if (!is_forgetful()) CHECK(own.ids("status=waiting").size() == 2);
}

TEST_CASE("a stopped server ends its event streams", "[server][restart]") {
  Service own;
  Connection events(own.daemon().port());
  events.send(Request{.target = "/v1/events"}.bytes());
  CHECK(events.read_head().status == 200);
  const auto begin = std::chrono::steady_clock::now();
  CHECK(own.daemon().stop() == 0);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(15));
  CHECK(events.is_closed_within(seconds(5)));
  own.daemon().start();
}

TEST_CASE("a waiter is promoted after a restart without asking", "[server][restart]") {
  if (is_forgetful()) return;
  Service own;
  const long owner = own.claim("short", 1);
  const long waiter = own.claim("short");
  restart(own, true);
  CHECK(eventually([&] { return own.status(waiter) == "active"; }));
  CHECK(own.status(owner) == "expired");
}

TEST_CASE("check and export read a database that is not served", "[server][restart]") {
  if (is_forgetful()) return;
  Service own;
  const long id = own.claim("exported");
  own.claim("exported");
  for (auto& daemon : own.daemons()) daemon->stop();
  const Result checked = run({"holdfastd", "check", "--store", own.store()});
  INFO(checked.out << checked.err);
  CHECK(checked.code == 0);
  const Result exported = run({"holdfastd", "export", "--store", own.store()});
  CHECK(exported.code == 0);
  std::vector<Json> lines;
  std::istringstream text(exported.out);
  for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].at("id") == id);
  CHECK(lines[0].at("resource") == "exported");
  CHECK(lines[0].at("status") == "active");
  CHECK(lines[1].at("status") == "waiting");
  for (auto& daemon : own.daemons()) daemon->start();
}

TEST_CASE("a wrong command line is told as such", "[server][restart]") {
  const auto words = GENERATE(values<std::vector<std::string>>({
      {"holdfastd", "--colour", "red"},
      {"holdfastd", "--store", "paper:"},
      {"holdfastd", "--listen", "nonsense"},
      {"holdfastd", "--max-wait", "x", "--store", "memory:"},
      {"holdfastd", "frobnicate"},
  }));
  CAPTURE(words);
  const Result result = run(words, {.limit = seconds(20)});
  CHECK(result.code == (words.back() == "paper:" ? 1 : 10));
  CHECK(result.out.empty());
  CHECK_FALSE(result.err.empty());
}

TEST_CASE("a door to the world needs tokens or an explicit word", "[server][restart]") {
  const Result result =
      run({"holdfastd", "--listen", "0.0.0.0:0", "--store", "memory:"}, {.limit = seconds(20)});
  CHECK(result.code == 10);
  CHECK_THAT(result.err, Catch::Contains("--no-auth"));
}
