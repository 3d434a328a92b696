#include <catch2/catch.hpp>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

TEST_CASE("a header above the limit is answered 431, in one piece or many", "[http]") {
  Rig rig({.max_header = 2000});
  RawClient one = rig.client();
  CHECK(one.ask(raw_request("GET", "/what", "", "A: " + std::string(1800, 'a') + "\r\n"))->status ==
        200);
  CHECK(one.ask(raw_request("GET", "/what", "", "A: " + std::string(2000, 'a') + "\r\n"))->status ==
        431);
  CHECK(one.read_to_end() == "");
  RawClient many = rig.client();
  REQUIRE(many.send("GET /what HTTP/1.1\r\nHost: h\r\n"));
  for (int i = 0; i < 1000 && many.is_silent(0ms); ++i) (void)many.send("A: b\r\n");
  CHECK(many.read_reply()->status == 431);
  RawClient line = rig.client();
  CHECK(line.ask("GET /" + std::string(3000, 'x'))->status == 431);
  RawClient chunk = rig.client();
  CHECK(chunk
            .ask("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;" +
                 std::string(3000, 'x'))
            ->status == 431);
}

TEST_CASE("a body above the limit is answered 413 without being read", "[http]") {
  Rig rig({.max_body = 1000});
  const std::string head = "POST /echo HTTP/1.1\r\nHost: h\r\n";
  RawClient fits = rig.client();
  CHECK(fits.ask(raw_request("POST", "/echo", std::string(1000, 'x')))->status == 200);
  RawClient declared = rig.client();
  CHECK(declared.ask(head + "Content-Length: 1001\r\n\r\n")->status == 413);
  RawClient chunked = rig.client();
  CHECK(chunked
            .ask(head + "Transfer-Encoding: chunked\r\n\r\n1F4\r\n" + std::string(500, 'x') +
                 "\r\n1F5\r\n")
            ->status == 413);
  CHECK(rig.handled == 1);
}

TEST_CASE("a client that sends 8 MiB before it reads still gets its 413", "[http]") {
  Rig rig({.max_body = 1000});
  RawClient client = rig.client();
  const auto reply = client.ask(raw_request("POST", "/echo", std::string(8U << 20U, 'x')));
  REQUIRE(reply);
  CHECK(reply->status == 413);
  client.end_sending();
  CHECK(client.read_to_end() == "");
  CHECK(rig.becomes_empty());
}

TEST_CASE("a half-sent header is answered 408, counted from its first byte", "[http]") {
  Rig rig({.header_timeout = 300ms, .idle_timeout = 60s});
  RawClient client = rig.client();
  CHECK(client.is_silent(500ms));  // nothing sent: merely idle
  const auto begin = std::chrono::steady_clock::now();
  // A byte now and then does not help.
  const std::string head = "GET / HTTP/1.1\r\nHost: h\r\nA: " + std::string(1000, 'b');
  std::size_t sent = 0;
  while (sent < head.size() && client.is_silent(20ms)) (void)client.send(head.substr(sent++, 1));
  CHECK(sent < head.size());
  const auto reply = client.read_reply();
  REQUIRE(reply);
  CHECK(reply->status == 408);
  CHECK(std::chrono::steady_clock::now() - begin >= 290ms);
  CHECK(client.read_to_end() == "");
}

TEST_CASE("a half-sent body is answered 408", "[http]") {
  Rig rig({.body_timeout = 200ms});
  RawClient client = rig.client();
  const auto reply = client.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n123");
  REQUIRE(reply);
  CHECK(reply->status == 408);
  CHECK(client.read_to_end() == "");
  client.close();
  CHECK(rig.becomes_empty());
}

TEST_CASE("an idle connection is closed without a word", "[http]") {
  Rig rig({.idle_timeout = 200ms});
  RawClient fresh = rig.client();
  CHECK(fresh.read_to_end() == "");
  RawClient used = rig.client();
  CHECK(used.ask(raw_request("GET", "/what"))->status == 200);
  CHECK(used.read_to_end() == "");
  CHECK(rig.becomes_empty());
}

TEST_CASE("a parked request outlives every timeout", "[http]") {
  Rig rig(
      {.header_timeout = 50ms, .body_timeout = 50ms, .idle_timeout = 50ms, .write_timeout = 50ms});
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park")));
  CHECK(client.is_silent(400ms));
  REQUIRE(rig.reply_to_parked("at last"));
  CHECK(client.read_reply()->body == "at last");
}

TEST_CASE("a client that does not read its answer is closed", "[http]") {
  Rig rig({.write_timeout = 300ms});
  RawClient client = rig.client(4096);
  REQUIRE(client.send(raw_request("GET", "/big/30000000")));
  CHECK(eventually([&] { return rig.connections() == 1; }));
  CHECK(rig.becomes_empty());
  const auto got = client.read_to_end();
  REQUIRE(got);
  CHECK(got->size() < 30000000);
}

TEST_CASE("a client that reads 30 MB in its own time gets them", "[http]") {
  Rig rig({.write_timeout = 2s});
  RawClient client = rig.client(65536);
  CHECK(client.ask(raw_request("GET", "/big/30000000"))->body.size() == 30000000);
  CHECK(client.ask(raw_request("GET", "/what"))->status == 200);
}

TEST_CASE("two hundred half-sent requests do not hold up another client", "[http]") {
  Rig rig({.header_timeout = 60s});
  std::vector<RawClient> slow;
  for (int i = 0; i < 200; ++i) {
    slow.push_back(rig.client());
    REQUIRE(slow.back().send(i % 2 == 0
                                 ? "GET /what HTTP/1.1\r\nHo"
                                 : "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n1"));
  }
  const auto begin = std::chrono::steady_clock::now();
  RawClient quick = rig.client();
  for (int i = 0; i < 100; ++i) REQUIRE(quick.ask(raw_request("GET", "/what"))->status == 200);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
  CHECK(rig.connections() == 201);
  CHECK(slow[1].ask("23456789")->body == "123456789");
}

TEST_CASE("too many connections are told so with 503, and places are free again after a close",
          "[http]") {
  Rig rig({.max_connections = 2});
  RawClient one = rig.client();
  auto two = std::make_unique<RawClient>(rig.client());
  CHECK(one.ask(raw_request("GET", "/what"))->status == 200);
  CHECK(two->ask(raw_request("GET", "/what"))->status == 200);
  RawClient three = rig.client();
  const auto refused = three.ask(raw_request("GET", "/what"));
  REQUIRE(refused);
  CHECK(refused->status == 503);
  CHECK(refused->has("retry-after"));
  three.close();
  two.reset();
  CHECK(eventually([&] { return rig.connections() == 1; }));
  CHECK(rig.client().ask(raw_request("GET", "/what"))->status == 200);
}

TEST_CASE("requests above the rate are answered 429 on a connection that stays", "[http]") {
  Rig rig({.rate = 5});
  RawClient client = rig.client();
  int admitted = 0;
  for (int i = 0; i < 20; ++i) {
    const auto reply = client.ask(raw_request("GET", "/what"));
    REQUIRE(reply);
    if (reply->status == 200) {
      ++admitted;
    } else {
      CHECK(reply->status == 429);
      CHECK(reply->has("retry-after"));
    }
  }
  CHECK(admitted >= 5);
  CHECK(admitted < 20);
  CHECK(eventually([&] { return client.ask(raw_request("GET", "/what"))->status == 200; }));
}

TEST_CASE("limits can be changed while the server runs", "[http]") {
  Rig rig({.max_body = 10});
  RawClient client = rig.client();
  CHECK(client.ask(raw_request("POST", "/echo", "0123456789"))->status == 200);
  rig.on_loop([&] { rig.server().set_limits({.max_body = 20}); });
  CHECK(client.ask(raw_request("POST", "/echo", "0123456789abc"))->status == 200);
}

}  // namespace
}  // namespace holdfast::http::testing
