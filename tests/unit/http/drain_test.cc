#include <catch2/catch.hpp>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

struct Drain {
  explicit Drain(Rig& rig, std::chrono::nanoseconds limit = 20s) {
    rig.on_loop([&] { rig.server().drain(limit, [this] { ++done; }); });
  }
  std::atomic<int> done{0};
  bool ends() {
    return eventually([this] { return done == 1; });
  }
};

TEST_CASE("drained, a server without connections is done at once and accepts nobody", "[http]") {
  Rig rig;
  const std::string url = rig.url();
  const auto begin = std::chrono::steady_clock::now();
  Drain drain(rig);
  CHECK(drain.ends());
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CHECK_THROWS(RawClient(url));
}

TEST_CASE("drained, idle connections are closed and running requests answered", "[http]") {
  Rig rig;
  RawClient idle = rig.client();
  CHECK(idle.ask(raw_request("GET", "/what"))->status == 200);
  RawClient parked = rig.client();
  REQUIRE(parked.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  RawClient half = rig.client();
  const std::string request = raw_request("POST", "/echo", "half of it");
  REQUIRE(half.send(request.substr(0, request.size() - 3)));
  REQUIRE(eventually([&] { return rig.connections() == 3; }));
  CHECK(half.is_silent(50ms));

  Drain drain(rig);
  CHECK(idle.read_to_end() == "");
  CHECK(drain.done == 0);
  REQUIRE(rig.reply_to_parked("before we go"));
  const auto reply = parked.read_reply();
  REQUIRE(reply);
  CHECK(reply->body == "before we go");
  CHECK(reply->header("connection") == "close");
  CHECK(drain.done == 0);
  CHECK(half.ask(request.substr(request.size() - 3))->body == "half of it");
  CHECK(drain.ends());
}

TEST_CASE("drained, a server ends streams", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/stream")));
  REQUIRE(eventually([&] { return rig.on_loop([&] { return !rig.streams.empty(); }); }));
  Drain drain(rig);
  CHECK(client.read_reply()->body == "");
  CHECK(client.read_to_end() == "");
  CHECK(drain.ends());
  CHECK(eventually([&] { return rig.gone == 1; }));
}

TEST_CASE("a request that arrived before the drain is answered", "[http]") {
  for (int i = 0; i < 20; ++i) {
    Rig rig;
    RawClient client = rig.client();
    CHECK(client.ask(raw_request("GET", "/what"))->status == 200);
    // The bytes are in the socket before the loop gets to hear of either.
    rig.on_loop([&] {
      CHECK(client.send(raw_request("GET", "/what")));
      rig.server().drain(20s, [] {});
    });
    CHECK(client.read_reply()->status == 200);
    CHECK(client.read_to_end() == "");
  }
}

TEST_CASE("a drain is over after its limit, whoever still waits", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park")));
  REQUIRE(rig.has_parked(1));
  Drain drain(rig, 100ms);
  CHECK(drain.ends());
  CHECK(rig.connections() == 0);
  CHECK(client.read_to_end() == "");
  CHECK(rig.reply_to_parked("too late"));
  CHECK(drain.done == 1);
}

}  // namespace
}  // namespace holdfast::http::testing
