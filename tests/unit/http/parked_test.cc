#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

long resident_kib() {
  std::ifstream file("/proc/self/statm");
  long all = 0;
  long resident = 0;
  file >> all >> resident;
  return resident * 4;
}

bool may_open(rlim_t count) {
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur >= count;
}

TEST_CASE("a reply may come from another turn of the loop", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  for (int i = 0; i < 50; ++i) CHECK(client.ask(raw_request("GET", "/later"))->body == "later");
}

TEST_CASE("the second reply to one request is ignored", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  rig.on_loop([&] {
    rig.parked[0]->reply({.body = "first"});
    rig.parked[0]->reply({.body = "second"});
    CHECK_FALSE(rig.parked[0]->stream({})->write("third"));
  });
  CHECK(client.read_reply()->body == "first");
  CHECK(client.ask(raw_request("GET", "/later"))->body == "later");
}

TEST_CASE("an exchange that is dropped unanswered is a 500", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  CHECK(client.ask(raw_request("GET", "/drop"))->status == 500);
  CHECK(client.ask(raw_request("GET", "/what"))->status == 200);
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  rig.on_loop([&] { rig.parked.clear(); });
  CHECK(client.read_reply()->status == 500);
}

TEST_CASE("a peer that goes away while parked is noticed", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  CHECK(rig.gone == 0);
  SECTION("by closing") {
    client.close();
  }
  SECTION("by a reset") {
    client.reset();
  }
  SECTION("with more requests sent ahead") {
    REQUIRE(client.send(raw_request("GET", "/what")));
    client.close();
  }
  CHECK(eventually([&] { return rig.gone == 1; }));
  rig.on_loop([&] { rig.parked.clear(); });
  CHECK(rig.becomes_empty());
  CHECK(rig.gone == 1);
  CHECK(rig.record.has("GET /park 499"));
}

TEST_CASE("a reply after the peer has gone harms nobody", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  SECTION("closed") {
    client.close();
  }
  SECTION("reset") {
    client.reset();
  }
  REQUIRE(eventually([&] { return rig.gone == 1; }));
  CHECK(rig.reply_to_parked(std::string(1000000, 'x')));
  CHECK(rig.becomes_empty());
  CHECK(rig.client().ask(raw_request("GET", "/what"))->status == 200);
}

TEST_CASE("a reply into a connection that is closed meanwhile harms nobody", "[http]") {
  Rig rig;
  for (int i = 0; i < 50; ++i) {
    RawClient client = rig.client();
    REQUIRE(client.send(raw_request("GET", "/park")));
    REQUIRE(rig.has_parked(1));
    client.reset();
    CHECK(rig.reply_to_parked("into the void"));
  }
  CHECK(rig.becomes_empty());
}

TEST_CASE("on_gone is not called once the reply is given", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  REQUIRE(rig.reply_to_parked("done"));
  CHECK(client.read_reply()->body == "done");
  client.close();
  CHECK(rig.becomes_empty());
  CHECK(rig.gone == 0);
}

TEST_CASE("an exchange may outlive its server", "[http]") {
  Rig rig({}, "");
  Observer observer;
  std::shared_ptr<Exchange> kept;
  std::unique_ptr<Server> server;
  const std::string url = rig.on_loop([&] {
    server = std::make_unique<Server>(
        rig.loop, [&](std::shared_ptr<Exchange> exchange) { kept = std::move(exchange); },
        observer);
    (void)server->listen("127.0.0.1:0");
    return server->addresses()[0];
  });
  RawClient client(url);
  REQUIRE(client.send(raw_request("GET", "/x")));
  REQUIRE(eventually([&] { return rig.on_loop([&] { return kept != nullptr; }); }));
  rig.on_loop([&] {
    server.reset();
    CHECK(kept->request().path() == "/x");
    kept->reply({.body = "late"});
    kept.reset();
  });
  CHECK(client.read_to_end() == "");
}

TEST_CASE("a thousand parked requests cost little memory and are all answered", "[http]") {
  if (!may_open(2200)) SKIP_TEST("too few descriptors");
  Rig rig;
  const std::string url = rig.url();
  std::vector<RawClient> clients;
  clients.reserve(1000);
  RawClient first(url);
  CHECK(first.ask(raw_request("GET", "/what"))->status == 200);
  const long before = resident_kib();
  for (int i = 0; i < 1000; ++i) {
    clients.emplace_back(url);
    REQUIRE(clients.back().send(raw_request("POST", "/park", R"({"resource": "r", "ttl": 1})")));
  }
  REQUIRE(rig.has_parked(1000));
  if (!holdfast::testing::kIsSanitized) CHECK(resident_kib() - before < 6000);
  REQUIRE(rig.reply_to_parked("go"));
  for (RawClient& client : clients) REQUIRE(client.read_reply()->body == "go");
  clients.clear();
  CHECK(eventually([&] { return rig.connections() == 1; }));
}

}  // namespace
}  // namespace holdfast::http::testing
