#include <catch2/catch.hpp>
#include <fstream>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

TEST_CASE("deferred calls come after all requests that had arrived", "[http]") {
  Rig rig({}, "");
  Observer observer;
  std::vector<std::size_t> batches;
  std::vector<std::shared_ptr<Exchange>> batch;
  std::unique_ptr<Server> server;
  const std::string url = rig.on_loop([&] {
    server = std::make_unique<Server>(
        rig.loop,
        [&](std::shared_ptr<Exchange> exchange) {
          batch.push_back(std::move(exchange));
          if (batch.size() > 1) return;
          rig.loop.defer([&] {
            batches.push_back(batch.size());
            for (const auto& one : batch) one->reply({.body = "ok"});
            batch.clear();
          });
        },
        observer);
    (void)server->listen("127.0.0.1:0");
    return server->addresses()[0];
  });
  std::vector<RawClient> clients;
  for (int i = 0; i < 20; ++i) clients.emplace_back(url);
  REQUIRE(eventually([&] { return rig.on_loop([&] { return server->connections() == 20; }); }));
  rig.on_loop([&] {
    for (RawClient& client : clients) CHECK(client.send(raw_request("GET", "/")));
  });
  for (RawClient& client : clients) CHECK(client.read_reply()->body == "ok");
  rig.on_loop([&] {
    CHECK(batches == std::vector<std::size_t>{20});
    server.reset();
  });
}

long switches(long tid) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/status");
  const std::string name = "voluntary_ctxt_switches:";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(name)) return std::stol(line.substr(name.size()));
  }
  return -1;
}

TEST_CASE("nothing wakes a server to whom nobody is connected, or only parked", "[http]") {
  Rig rig({.idle_timeout = 200ms});
  { CHECK(rig.client().ask(raw_request("GET", "/what"))->status == 200); }
  RawClient parked = rig.client();
  REQUIRE(parked.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  REQUIRE(eventually([&] { return rig.connections() == 1; }));
  // The timer of the connection that has gone may come once.
  CHECK(parked.is_silent(300ms));
  const long before = switches(rig.tid);
  REQUIRE(before > 0);
  CHECK(parked.is_silent(600ms));
  CHECK(switches(rig.tid) - before == 0);
}

}  // namespace
}  // namespace holdfast::http::testing
