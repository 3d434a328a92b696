#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

TEST_CASE("posted calls are made in order, from any thread", "[http]") {
  Loop loop;
  std::vector<int> made;
  std::thread other([&] {
    for (int i = 0; i < 1000; ++i) loop.post([&made, i] { made.push_back(i); });
    loop.post([&] { loop.stop(); });
  });
  loop.run();
  other.join();
  REQUIRE(made.size() == 1000);
  CHECK(std::is_sorted(made.begin(), made.end()));
}

TEST_CASE("a timer calls once, in order of time, and not after it is dropped", "[http]") {
  Loop loop;
  std::string made;
  Timer late = loop.after(40ms, [&] {
    made += "late";
    loop.stop();
  });
  Timer early = loop.after(10ms, [&] { made += "early "; });
  Timer dropped = loop.after(5ms, [&] { made += "dropped "; });
  Timer replaced = loop.after(5ms, [&] { made += "replaced "; });
  dropped.cancel();
  replaced = loop.after(20ms, [&] { made += "second "; });
  CHECK(early.is_armed());
  CHECK_FALSE(dropped.is_armed());
  {
    const Timer scoped = loop.after(1ms, [&] { made += "scoped "; });
  }
  const Timer moved = std::move(early);
  loop.run();
  CHECK(made == "early second late");
  CHECK_FALSE(late.is_armed());
}

TEST_CASE("a timer may be dropped and armed again inside its own call", "[http]") {
  Loop loop;
  int calls = 0;
  Timer timer;
  std::function<void()> again = [&] {
    if (++calls == 3) return loop.stop();
    timer = loop.after(1ms, again);
  };
  timer = loop.after(std::chrono::nanoseconds(0), again);
  const Timer never = loop.after(std::chrono::nanoseconds::max(), [&] { calls = 100; });
  loop.run();
  CHECK(calls == 3);
}

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

TEST_CASE("signals come as calls, again and again", "[http]") {
  Loop loop;
  std::vector<int> seen;
  loop.on_signal({SIGUSR1, SIGUSR2}, [&](int number) {
    seen.push_back(number);
    if (seen.size() == 1) (void)::raise(SIGUSR2);
    if (seen.size() == 2) (void)::raise(SIGUSR1);
    if (seen.size() == 3) loop.stop();
  });
  (void)::raise(SIGUSR1);
  loop.run();
  CHECK(seen == std::vector<int>{SIGUSR1, SIGUSR2, SIGUSR1});
}

TEST_CASE("a loop can be stopped and run again", "[http]") {
  Loop loop;
  int calls = 0;
  for (int i = 0; i < 3; ++i) {
    loop.post([&] {
      ++calls;
      loop.stop();
    });
    loop.run();
  }
  CHECK(calls == 3);
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
