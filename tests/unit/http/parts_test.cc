#include <catch2/catch.hpp>

#include "http/address.h"
#include "http/message.h"
#include "http/parser.h"
#include "http/rate.h"

namespace holdfast::http::testing {
namespace {

TEST_CASE("addresses are read, and nonsense refused", "[http]") {
  const auto [text, host, port] = GENERATE(table<std::string, std::string, int>({
      {"127.0.0.1:8420", "127.0.0.1", 8420},
      {"0.0.0.0:0", "0.0.0.0", 0},
      {"[::1]:80", "::1", 80},
      {"[2001:db8::7]:65535", "2001:db8::7", 65535},
      {"localhost:1", "127.0.0.1", 1},
  }));
  const auto address = parse_address(text);
  REQUIRE(address);
  CHECK(address->host == host);
  CHECK(address->port == port);
  CHECK_FALSE(address->is_unix);
  const auto bad = GENERATE(values<std::string>({"", "127.0.0.1", ":80", "127.0.0.1:", "1.2.3:80",
                                                 "::1:80", "[127.0.0.1]:80", "[::1]", "h:80",
                                                 "127.0.0.1:65536", "127.0.0.1:-1", "unix:"}));
  CAPTURE(bad);
  CHECK_FALSE(parse_address(bad));
}

TEST_CASE("only loopback and unix addresses are for this host alone", "[http]") {
  const auto [text, is_loopback] = GENERATE(table<std::string, bool>({
      {"127.0.0.1:1", true},
      {"127.9.8.7:1", true},
      {"[::1]:1", true},
      {"unix:/s", true},
      {"0.0.0.0:1", false},
      {"[::]:1", false},
      {"192.0.2.1:1", false},
  }));
  CHECK(parse_address(text)->is_loopback() == is_loopback);
}

TEST_CASE("a request finds its fields in any case, the first of a name", "[http]") {
  Request request;
  request.start("GET", "/p?q=1?2", 11);
  request.add_header("Content-Type", "a");
  request.add_header("content-type", "b");
  request.add_header("Empty", "");
  CHECK(request.path() == "/p");
  CHECK(request.query() == "q=1?2");
  CHECK(request.header("CONTENT-type") == "a");
  CHECK(request.has_header("empty"));
  CHECK_FALSE(request.has_header("Content-Typ"));
  CHECK(request.header("none").empty());
  request.start("PUT", "/", 10);
  CHECK_FALSE(request.has_header("Empty"));
  CHECK(request.query().empty());
}

/// All of `text` through the parser in pieces of `size`, as the connection would do it.
Parser::Step parse(Parser& parser, const std::string& text, std::size_t size) {
  std::string ahead;
  for (std::size_t at = 0; at < text.size(); at += size) {
    ahead += text.substr(at, size);
    std::string_view left = ahead;
    Parser::Step step = Parser::Step::head;
    while (step == Parser::Step::head) step = parser.put(left);
    if (step != Parser::Step::more) return step;
    ahead.erase(0, ahead.size() - left.size());
  }
  return Parser::Step::more;
}

TEST_CASE("a request means the same in whatever pieces it comes", "[http]") {
  const std::string text =
      "POST /a/b?c HTTP/1.1\r\nHost: h\r\nX-One:  1 \r\nTransfer-Encoding: chunked\r\n"
      "Two: a  b\r\n\r\n"
      "5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nTrailer: t\r\n\r\n";
  for (std::size_t size = 1; size <= text.size(); ++size) {
    Parser parser;
    Request request;
    parser.start(request, 1000, 1000);
    CAPTURE(size);
    REQUIRE(parse(parser, text, size) == Parser::Step::whole);
    CHECK(request.method() == "POST");
    CHECK(request.target() == "/a/b?c");
    CHECK(request.header("x-one") == "1");
    CHECK(request.header("two") == "a  b");
    CHECK_FALSE(request.has_header("trailer"));
    CHECK(request.body() == "hello world");
    CHECK(parser.is_keep_alive());
  }
}

TEST_CASE("every beginning of a request asks for more", "[http]") {
  const std::string text = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc";
  for (std::size_t size = 1; size < text.size(); ++size) {
    Parser parser;
    Request request;
    parser.start(request, 1000, 1000);
    CHECK(parse(parser, text.substr(0, size), 7) == Parser::Step::more);
  }
}

TEST_CASE("bytes of any kind end in a verdict or in a wait, never beyond the limits", "[http]") {
  std::uint32_t state = 1;
  const auto next = [&state] { return state = state * 1664525U + 1013904223U; };
  const std::string text =
      "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nA: b\r\n\r\n"
      "5\r\nhello\r\n0\r\n\r\n";
  for (int round = 0; round < 20000; ++round) {
    std::string broken = text;
    for (int i = 0; i < 3; ++i)
      broken[(next() >> 8U) % broken.size()] = static_cast<char>(next() >> 24U);
    Parser parser;
    Request request;
    parser.start(request, 100, 50);
    const Parser::Step step = parse(parser, broken, 1 + (next() >> 8U) % 40);
    if (step == Parser::Step::fault) {
      const int status = parser.status();
      CHECK((status == 400 || status == 413 || status == 431 || status == 417));
    }
    CHECK(request.body().size() <= 50);
  }
}

TEST_CASE("a peer has its rate, with a second's worth saved up, whatever others do", "[http]") {
  RateLimit limit(10);
  RateLimit::Time now{};
  const auto burst = [&](const std::string& peer) {
    int count = 0;
    while (limit.admit(peer, now)) ++count;
    return count;
  };
  CHECK(burst("a") == 10);
  CHECK(burst("a") == 0);
  CHECK(burst("b") == 10);
  now += std::chrono::milliseconds(500);
  CHECK(burst("a") == 5);
  now += std::chrono::hours(1);
  CHECK(burst("a") == 10);
}

TEST_CASE("a rate below one still admits one", "[http]") {
  RateLimit limit(0.5);
  RateLimit::Time now{};
  CHECK(limit.admit("a", now));
  CHECK_FALSE(limit.admit("a", now + std::chrono::seconds(1)));
  CHECK(limit.admit("a", now + std::chrono::seconds(2)));
}

TEST_CASE("peers that are quiet are forgotten", "[http]") {
  RateLimit limit(1);
  RateLimit::Time now{};
  for (int i = 0; i < 100000; ++i) {
    CHECK(limit.admit(std::to_string(i), now));
    now += std::chrono::milliseconds(10);
  }
  CHECK(limit.known_peers() < 5000);
}

}  // namespace
}  // namespace holdfast::http::testing
