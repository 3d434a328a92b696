#include <catch2/catch.hpp>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

bool has_streams(Rig& rig, std::size_t count) {
  return eventually([&] { return rig.on_loop([&] { return rig.streams.size() == count; }); });
}

bool write(Rig& rig, const std::string& text) {
  return rig.on_loop([&] { return rig.streams.at(0)->write(text); });
}

TEST_CASE("a stream reaches an HTTP/1.1 peer in chunks as it is written", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/stream")));
  REQUIRE(has_streams(rig, 1));
  std::string head;
  while (!head.ends_with("\r\n\r\n")) head += client.read_bytes(1);
  CHECK(head.find("Transfer-Encoding: chunked\r\n") != std::string::npos);
  CHECK(head.find("Content-Type: text/event-stream\r\n") != std::string::npos);
  CHECK(head.find("Content-Length") == std::string::npos);
  REQUIRE(write(rig, "data: 1\n\n"));
  CHECK(client.read_bytes(14) == "9\r\ndata: 1\n\n\r\n");
  REQUIRE(write(rig, "two"));
  CHECK(client.read_bytes(8) == "3\r\ntwo\r\n");
  rig.on_loop([&] { rig.streams.at(0)->close(); });
  CHECK(client.read_bytes(5) == "0\r\n\r\n");
  CHECK_FALSE(write(rig, "more"));
  CHECK(client.ask(raw_request("GET", "/what"))->status == 200);
  CHECK(rig.gone == 0);
}

TEST_CASE("a stream reaches an HTTP/1.0 peer until the connection is closed", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send("GET /stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"));
  REQUIRE(has_streams(rig, 1));
  REQUIRE(write(rig, "one "));
  REQUIRE(write(rig, "two"));
  rig.on_loop([&] { rig.streams.clear(); });
  const auto reply = client.read_reply();
  REQUIRE(reply);
  CHECK(reply->header("connection") == "close");
  CHECK(reply->body == "one two");
}

TEST_CASE("the stream for a HEAD is its head", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const auto reply = client.ask(raw_request("HEAD", "/stream"));
  REQUIRE(reply);
  CHECK(reply->header("content-type") == "text/event-stream");
  CHECK_FALSE(write(rig, "body"));
  CHECK(client.ask(raw_request("GET", "/what"))->status == 200);
}

TEST_CASE("a subscriber that goes away is noticed without writing to it", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/stream")));
  REQUIRE(has_streams(rig, 1));
  client.close();
  CHECK(eventually([&] { return rig.gone == 1; }));
  CHECK_FALSE(write(rig, "x"));
  CHECK(rig.becomes_empty());
}

TEST_CASE("a subscriber too far behind is cut off, others go on", "[http]") {
  Rig rig({.max_backlog = 100000});
  RawClient slow = rig.client(4096);
  REQUIRE(slow.send(raw_request("GET", "/stream")));
  REQUIRE(has_streams(rig, 1));
  RawClient quick = rig.client();
  REQUIRE(quick.send(raw_request("GET", "/stream")));
  REQUIRE(has_streams(rig, 2));
  const std::string event(50000, 'e');
  CHECK(eventually([&] { return !write(rig, event); }));
  CHECK(eventually([&] { return rig.gone == 1; }));
  CHECK_FALSE(write(rig, event));
  CHECK(rig.on_loop([&] { return rig.streams.at(1)->write("still here"); }));
  CHECK(eventually([&] { return rig.connections() == 1; }));
}

TEST_CASE("a subscriber that stops reading is closed after the write timeout", "[http]") {
  Rig rig({.write_timeout = 200ms, .max_backlog = 1U << 30U});
  RawClient slow = rig.client(4096);
  REQUIRE(slow.send(raw_request("GET", "/stream")));
  REQUIRE(has_streams(rig, 1));
  REQUIRE(write(rig, std::string(20000000, 'e')));
  CHECK(eventually([&] { return rig.gone == 1; }));
}

}  // namespace
}  // namespace holdfast::http::testing
