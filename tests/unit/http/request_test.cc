#include <catch2/catch.hpp>

#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

const std::string kGet = "GET /what?a=%41&b HTTP/1.1\r\nHost: h\r\nX-Test: yes\r\n\r\n";

std::string with_body(const std::string& body, const std::string& more = "") {
  return raw_request("POST", "/echo", body, more);
}

TEST_CASE("a request arrives as it was sent, undecoded", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const auto reply = client.ask(kGet);
  REQUIRE(reply);
  CHECK(reply->status == 200);
  CHECK(reply->body == "GET|/what|a=%41&b|yes|http");
  CHECK(reply->header("x-peer") == "127.0.0.1");
  CHECK(reply->header("content-length") == std::to_string(reply->body.size()));
  CHECK(reply->header("content-type") == "application/json");
  CHECK(reply->header("server") == "holdfastd");
  CHECK(reply->header("date").ends_with(" GMT"));
  CHECK_FALSE(reply->has("connection"));
}

TEST_CASE("a target in absolute form is read as its path", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  CHECK(client.ask("GET http://h:80/what?q HTTP/1.1\r\nHost: h\r\n\r\n")->body ==
        "GET|/what|q||http");
}

TEST_CASE("an HTTP/1.1 connection serves one request after the other", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  for (int i = 0; i < 100; ++i) {
    const std::string body = "body " + std::to_string(i);
    const auto reply = client.ask(with_body(body));
    REQUIRE(reply);
    CHECK(reply->body == body);
  }
  CHECK(rig.connections() == 1);
}

TEST_CASE("Connection: close is followed", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const auto reply = client.ask("GET /what HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  REQUIRE(reply);
  CHECK(reply->header("connection") == "close");
  CHECK(client.read_to_end() == "");
  CHECK(rig.becomes_empty());
}

TEST_CASE("HTTP/1.0 needs no Host and closes, unless it asks to be kept", "[http]") {
  Rig rig;
  RawClient plain = rig.client();
  CHECK(plain.ask("GET /what HTTP/1.0\r\n\r\n")->header("connection") == "close");
  CHECK(plain.read_to_end() == "");
  RawClient kept = rig.client();
  for (int i = 0; i < 3; ++i) {
    const auto reply = kept.ask("GET /what HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    REQUIRE(reply);
    CHECK(reply->header("connection") == "keep-alive");
  }
}

TEST_CASE("pipelined requests are answered in order, also when the first answer comes last",
          "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(raw_request("GET", "/park") + with_body("two") +
                      raw_request("GET", "/later") + with_body("four")));
  REQUIRE(rig.has_parked(1));
  CHECK(client.is_silent(100ms));
  CHECK(rig.handled == 1);
  REQUIRE(rig.reply_to_parked("one"));
  CHECK(client.read_reply()->body == "one");
  CHECK(client.read_reply()->body == "two");
  CHECK(client.read_reply()->body == "later");
  CHECK(client.read_reply()->body == "four");
}

TEST_CASE("ten thousand pipelined requests are answered in order", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const int count = 10000;
  std::thread sender([&] {
    std::string all;
    for (int i = 0; i < count; ++i) all += with_body(std::to_string(i));
    CHECK(client.send(all));
  });
  int right = 0;
  for (int i = 0; i < count; ++i) {
    const auto reply = client.read_reply();
    if (reply && reply->body == std::to_string(i)) ++right;
  }
  sender.join();
  CHECK(right == count);
}

TEST_CASE("a request may come byte by byte", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  for (const char byte : with_body("slowly")) REQUIRE(client.send(std::string(1, byte)));
  CHECK(client.read_reply()->body == "slowly");
}

TEST_CASE("empty lines before a request are skipped", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  CHECK(client.ask("\r\n\r\n" + with_body("a"))->body == "a");
  CHECK(client.ask("\r\n" + with_body("b"))->body == "b");
}

TEST_CASE("a chunked body is put together, its extensions and trailers dropped", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  CHECK(client.ask(head + "3\r\nabc\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n")->body ==
        "abc0123456789");
  CHECK(client.ask(head + "1\r\na\r\n0\r\nX-Request-Id: trailer\r\n\r\n")->header("x-request-id") !=
        "trailer");
  const std::string body = head + "3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n";
  for (const char byte : body) REQUIRE(client.send(std::string(1, byte)));
  CHECK(client.read_reply()->body == "abcdefg");
}

TEST_CASE("a body of 10 MiB passes whole, with a length and in chunks", "[http]") {
  Rig rig({.max_body = 16U << 20U});
  std::string body;
  for (int i = 0; body.size() < (10U << 20U); ++i) body += std::to_string(i) + " ";
  RawClient client = rig.client();
  CHECK((client.ask(with_body(body))->body == body));
  std::string chunked = "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (std::size_t at = 0; at < body.size(); at += 65536) {
    const std::string part = body.substr(at, 65536);
    char size[16];
    (void)std::snprintf(size, sizeof size, "%zx\r\n", part.size());
    chunked += size + part + "\r\n";
  }
  CHECK((client.ask(chunked + "0\r\n\r\n")->body == body));
}

TEST_CASE("100 Continue is sent when the body is wanted, and only then", "[http]") {
  Rig rig({.max_body = 1000});
  const std::string expect = "Expect: 100-continue\r\n";
  const std::string all = with_body("body", expect);
  const std::string head = all.substr(0, all.size() - 4);
  SECTION("before the body") {
    RawClient client = rig.client();
    const auto go = client.ask(head);
    REQUIRE(go);
    CHECK(go->status == 100);
    CHECK(client.ask("body")->body == "body");
    CHECK(client.ask(head)->status == 100);
  }
  SECTION("not when the body is here already") {
    RawClient client = rig.client();
    CHECK(client.ask(all)->status == 200);
  }
  SECTION("not when there is none") {
    RawClient client = rig.client();
    CHECK(client.ask(raw_request("GET", "/what", "", expect))->status == 200);
  }
  SECTION("not when it is too large") {
    RawClient client = rig.client();
    const auto reply =
        client.ask("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1001\r\n" + expect + "\r\n");
    REQUIRE(reply);
    CHECK(reply->status == 413);
  }
  SECTION("not to HTTP/1.0") {
    RawClient client = rig.client();
    REQUIRE(client.send("POST /echo HTTP/1.0\r\nContent-Length: 4\r\n" + expect + "\r\n"));
    CHECK(client.is_silent(50ms));
    CHECK(client.ask("body")->status == 200);
  }
}

TEST_CASE("HEAD gets the fields of GET and no body", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const auto reply = client.ask(raw_request("HEAD", "/big/1234"));
  REQUIRE(reply);
  CHECK(reply->header("content-length") == "1234");
  CHECK(client.ask(with_body("next"))->body == "next");
}

TEST_CASE("204 has neither body nor length", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const auto reply = client.ask(raw_request("GET", "/empty"));
  REQUIRE(reply);
  CHECK(reply->status == 204);
  CHECK_FALSE(reply->has("content-length"));
  CHECK_FALSE(reply->has("content-type"));
  CHECK(client.ask(with_body("next"))->body == "next");
}

TEST_CASE("a harmless request id comes back, any other is replaced", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  const auto id_for = [&](const std::string& sent) {
    return client.ask(raw_request("GET", "/what", "", "X-Request-Id: " + sent + "\r\n"))
        ->header("x-request-id");
  };
  CHECK(id_for("job-7.a:B_c") == "job-7.a:B_c");
  CHECK(id_for(std::string(64, 'x')) == std::string(64, 'x'));
  CHECK(id_for(std::string(65, 'x')).size() < 64);
  CHECK(id_for("a b") != "a b");
  CHECK(id_for("\"q\"") != "\"q\"");
  const std::string made = id_for("");
  CHECK_FALSE(made.empty());
  CHECK(id_for("") != made);
}

TEST_CASE("what is no request is answered 400, and the connection closed", "[http]") {
  const auto bytes = GENERATE(values<std::string>({
      "nonsense\r\n\r\n",
      "GET\r\n\r\n",
      "GET /what\r\n\r\n",
      "GET /what HTTP/2.0\r\nHost: h\r\n\r\n",
      "GET /what HTTP/0.9\r\nHost: h\r\n\r\n",
      "GET /a b HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET  /what HTTP/1.1\r\nHost: h\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET /what HTTP/1.1\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: a b\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: a/b\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA: " + std::string(1, '\0') + "\r\n\r\n",
      "GET /what HTTP/1.1\nHost: h\n\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551621\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 0x5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5 5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5,5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5,\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5.0\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length:  \r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n 5\r\n\r\nhello",
      "GET /what HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA: b\r\n\tTransfer-Encoding: chunked\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA:\r\n \r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA: b\r\n \r\n\r\n",
      "GET /what HTTP/1.1\r\n Host: h\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA: b\rB: c\r\n\r\n",
      "GET /what HTTP/1.1\rHost: h\r\r",
      "GET /what HTTP/1.1\r\nHost: h\nA: b\r\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA: b\n\r\n",
      "GET /what HTTP/1.1\r\nHost: h\r\nA" + std::string(1, '\0') + ": b\r\n\r\n",
      "GET /wh" + std::string(1, '\0') + "at HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0b"
      "chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked;a=b\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
      "Transfer-Encoding: chunked\r\n\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
  }));
  Rig rig;
  RawClient client = rig.client();
  const auto reply = client.ask(bytes);
  CAPTURE(bytes);
  REQUIRE(reply);
  CHECK(reply->status == 400);
  CHECK(reply->header("connection") == "close");
  CHECK(reply->header("content-type") == "application/json");
  CHECK(reply->body.starts_with("{\"message\": \""));
  CHECK(client.read_to_end() == "");
  CHECK(rig.handled == 0);
}

TEST_CASE("an unknown expectation is answered 417", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  CHECK(client.ask(with_body("body", "Expect: 200-maybe\r\n"))->status == 417);
  CHECK(client.read_to_end() == "");
}

TEST_CASE("a TLS greeting on a plain port is answered 400 like any noise", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  CHECK(client
            .ask(std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11) +
                 std::string(200, '\0'))
            ->status == 400);
}

TEST_CASE("requests before a broken one are answered, what follows it is not", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(with_body("one") + "broken\r\n\r\n" + with_body("three")));
  CHECK(client.read_reply()->body == "one");
  CHECK(client.read_reply()->status == 400);
  CHECK(client.read_to_end() == "");
  CHECK(rig.handled == 1);
}

TEST_CASE("a client that has closed its sending side still gets all answers", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  REQUIRE(client.send(with_body("one") + raw_request("GET", "/later") + with_body("three")));
  client.end_sending();
  CHECK(client.read_reply()->body == "one");
  CHECK(client.read_reply()->body == "later");
  CHECK(client.read_reply()->body == "three");
  CHECK(client.read_to_end() == "");
  CHECK(rig.becomes_empty());
}

TEST_CASE("a field that could forge another one is not sent", "[http]") {
  Rig rig({}, "");
  Observer observer;
  std::unique_ptr<Server> forging;
  const std::string url = rig.on_loop([&] {
    forging = std::make_unique<Server>(
        rig.loop,
        [](const std::shared_ptr<Exchange>& exchange) {
          exchange->reply({.headers = {{"A", "b\r\nSet-Cookie: c"}, {"D", "e"}}, .body = "f"});
        },
        observer);
    (void)forging->listen("127.0.0.1:0");
    return forging->addresses()[0];
  });
  const auto reply = RawClient(url).ask(raw_request("GET", "/"));
  REQUIRE(reply);
  CHECK_FALSE(reply->has("a"));
  CHECK_FALSE(reply->has("set-cookie"));
  CHECK(reply->header("d") == "e");
  rig.on_loop([&] { forging.reset(); });
}

TEST_CASE("every reply is told to the observer", "[http]") {
  Rig rig;
  RawClient client = rig.client();
  (void)client.ask(raw_request("GET", "/empty"));
  (void)client.ask("GET /x HTTP/1.1\r\n\r\n");
  CHECK(eventually([&] { return rig.record.has("GET /empty 204"); }));
  CHECK(eventually([&] { return rig.record.has("GET /x 400"); }));
}

}  // namespace
}  // namespace holdfast::http::testing
