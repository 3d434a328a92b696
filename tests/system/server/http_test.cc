/// What is said on the wire: methods, paths, and requests as odd clients send them.

#include <catch2/catch.hpp>
#include <set>

#include "service.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::StartsWith;
using std::chrono::seconds;

namespace {

std::set<std::string> words(const std::string& list) {
  std::set<std::string> found;
  std::string word;
  for (const char c : list + ",") {
    if (c == ',') {
      found.insert(word);
      word.clear();
    } else if (c != ' ') {
      word += c;
    }
  }
  return found;
}

const std::set<std::string> kListMethods{"GET", "HEAD", "OPTIONS", "POST"};
const std::set<std::string> kDetailMethods{"GET", "HEAD", "OPTIONS", "PATCH"};

Request post_request(const std::string& name) {
  return {.method = "POST",
          .target = "/v1/claims/",
          .body = claim_body(name).dump(),
          .headers = kJsonType};
}

std::string chunked(const std::string& text, std::size_t piece) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); at += piece) {
    const std::string part = text.substr(at, piece);
    char size[32];
    std::snprintf(size, sizeof size, "%zx\r\n", part.size());
    out += size + part + "\r\n";
  }
  return out + "0\r\n\r\n";
}

/// Sends the bytes and expects the answer 431, after which the server closes the connection.
void check_too_large(const std::string& bytes) {
  Connection to(service().port());
  to.send(bytes);
  CHECK(to.read("GET", seconds(20)).status == 431);
  CHECK(to.is_closed_within(seconds(10)));
}

void check_serves() {
  CHECK(service().get("/healthz").status == 200);
}

}  // namespace

TEST_CASE("a method that is not offered is refused with those that are", "[server][http]") {
  const std::string method = GENERATE("PUT", "DELETE", "TRACE", "FROB");
  const Reply list = service().send({.method = method, .target = "/v1/claims/"});
  CHECK(list.status == 405);
  CHECK(words(list.header("allow")) == kListMethods);
  CHECK_THAT(list.header("content-type"), StartsWith("application/json"));
  const long id = service().claim(fresh_name());
  const Reply detail = service().send({.method = method, .target = path_of(id)});
  CHECK(detail.status == 405);
  CHECK(words(detail.header("allow")) == kDetailMethods);
  CHECK(service().status(id) == "active");
}

TEST_CASE("a claim is not posted to and the list is not patched", "[server][http]") {
  const long id = service().claim(fresh_name());
  const Reply detail =
      service().send({.method = "POST", .target = path_of(id), .body = "{}", .headers = kJsonType});
  CHECK(detail.status == 405);
  CHECK(words(detail.header("allow")) == kDetailMethods);
  const Reply list = service().send(
      {.method = "PATCH", .target = "/v1/claims/", .body = "{}", .headers = kJsonType});
  CHECK(list.status == 405);
  CHECK(words(list.header("allow")) == kListMethods);
}

TEST_CASE("OPTIONS tells the methods", "[server][http]") {
  const Reply list = service().send({.method = "OPTIONS", .target = "/v1/claims/"});
  CHECK(list.status == 204);
  CHECK(words(list.header("allow")) == kListMethods);
  const Reply detail =
      service().send({.method = "OPTIONS", .target = path_of(service().claim(fresh_name()))});
  CHECK(detail.status == 204);
  CHECK(words(detail.header("allow")) == kDetailMethods);
}

TEST_CASE("HEAD is GET without the body", "[server][http]") {
  const long id = service().claim(fresh_name());
  const std::string target =
      GENERATE_COPY(path_of(id), std::string("/v1/claims/?limit=2"), std::string("/v1/claims/0/"),
                    std::string("/v1/claims/?limit=x"));
  Connection to(service().port());
  REQUIRE(to.send(Request{.method = "HEAD", .target = target}.bytes() +
                  Request{.target = "/healthz"}.bytes()));
  const Reply head = to.read("HEAD");
  CHECK(head.status == service().get(target).status);
  CHECK_THAT(head.header("content-type"), StartsWith("application/json"));
  CHECK(to.read().json() == Json{{"status", "ok"}});  // nothing came in between
}

TEST_CASE("runs of slashes are one slash", "[server][http]") {
  const std::string name = fresh_name();
  Request request = post_request(name);
  request.target = GENERATE("//v1/claims/", "/v1//claims/", "///v1///claims///");
  const Reply reply = service().send(request);
  REQUIRE(reply.status == 201);
  const long id = id_of(reply.json());
  CHECK(reply.header("location") == "http://127.0.0.1" + path_of(id));
  CHECK(service().get("//v1//claims//" + std::to_string(id) + "//").status == 200);
}

TEST_CASE("a path without the final slash is served, or sent on with its method kept",
          "[server][http]") {
  Request request = post_request(fresh_name());
  request.target = "/v1/claims";
  const Reply posted = service().send(request);
  CHECK((posted.status == 201 || posted.status == 308));
  if (posted.status == 308) CHECK_THAT(posted.header("location"), Catch::EndsWith("/v1/claims/"));

  const long id = service().claim(fresh_name());
  const std::string bare = "/v1/claims/" + std::to_string(id);
  for (const std::string method : {"GET", "PATCH"}) {
    const Reply reply = service().send({.method = method,
                                        .target = bare,
                                        .body = method == "GET" ? "" : R"({"ttl": 60})",
                                        .headers = kJsonType});
    CHECK((reply.status == 200 || reply.status == 308));
    if (reply.status == 308) CHECK_THAT(reply.header("location"), Catch::EndsWith(bare + "/"));
  }
}

TEST_CASE("an unknown path is not found", "[server][http]") {
  const std::string target = GENERATE(
      "/v1/", "/v1", "/v2/claims/", "/claims/", "/v1/claim/", "/v1/claims/1/2/", "/nothing",
      "/../etc/passwd", "/v1/claims/../claims/x/", "/%2e%2e/etc/passwd", "/index.html");
  const Reply reply = service().get(target);
  CHECK(reply.status == 404);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK_FALSE(reply.json().value("message", "").empty());
}

TEST_CASE("what is no id is not found, whatever is wrong with the request besides",
          "[server][http]") {
  const std::string method = GENERATE("PATCH", "PUT", "DELETE", "OPTIONS", "GET");
  CAPTURE(method);
  Connection to(service().port());
  to.send(method + " /v1/claims/x1/ HTTP/1.1\r\nHost: test\r\nContent-Length: 2\r\n\r\n{}");
  CHECK(to.read().status == 404);
}

TEST_CASE("a connection serves many requests", "[server][http]") {
  Connection to(service().port());
  for (int i = 0; i < 20; ++i) {
    REQUIRE(to.send(post_request(fresh_name()).bytes()));
    CHECK(to.read().status == 201);
  }
}

TEST_CASE("Connection: close is heeded", "[server][http]") {
  Connection to(service().port());
  to.send(Request{.target = "/healthz", .headers = {{"Connection", "close"}}}.bytes());
  CHECK(to.read().status == 200);
  CHECK(to.is_closed_within(seconds(10)));
}

TEST_CASE("pipelined requests are answered in their order", "[server][http]") {
  Connection to(service().port());
  std::string all;
  std::vector<std::string> names;
  for (int i = 0; i < 10; ++i) {
    names.push_back(fresh_name());
    all += post_request(names.back()).bytes();
  }
  REQUIRE(to.send(all));
  for (const std::string& name : names) {
    const Reply reply = to.read();
    REQUIRE(reply.status == 201);
    CHECK(reply.json().at("resource") == name);
  }
}

TEST_CASE("HTTP/1.0 is spoken, with and without keeping the connection", "[server][http]") {
  Connection once(service().port());
  Request request = post_request(fresh_name());
  request.version = "HTTP/1.0";
  once.send(request.bytes());
  const Reply posted = once.read();
  REQUIRE(posted.status == 201);
  CHECK_THAT(posted.header("location"), StartsWith("http://"));
  CHECK_FALSE(posted.has("transfer-encoding"));
  CHECK(once.is_closed_within(seconds(10)));

  Connection kept_open(service().port());
  const Request again{
      .target = "/healthz", .headers = {{"Connection", "keep-alive"}}, .version = "HTTP/1.0"};
  for (int i = 0; i < 2; ++i) {
    REQUIRE(kept_open.send(again.bytes()));
    CHECK(kept_open.read().status == 200);
  }
}

TEST_CASE("a chunked body is taken, or its length asked for", "[server][http]") {
  const std::size_t piece = GENERATE(1, 7, 100000);
  const std::string name = fresh_name();
  Request request = post_request(name);
  request.headers.emplace_back("Transfer-Encoding", "chunked");
  request.body = chunked(request.body, piece);
  const Reply reply = service().send(request);
  CHECK((reply.status == 201 || reply.status == 411));
  if (reply.status == 201) CHECK(reply.json().at("resource") == name);
}

TEST_CASE("a chunked body without end is refused by its size", "[server][http]") {
  Connection to(service().port());
  to.send(
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Transfer-Encoding: chunked\r\n\r\n");
  bool is_refused = false;
  for (int i = 0; i < 20 && !is_refused; ++i)
    is_refused = !to.send("100000\r\n" + std::string(0x100000, ' ') + "\r\n");
  CHECK(to.read().status == 413);
  check_serves();
}

TEST_CASE("who expects 100-continue is told to go on", "[server][http]") {
  Connection to(service().port());
  const std::string name = fresh_name();
  Request request = post_request(name);
  request.headers.emplace_back("Expect", "100-continue");
  const std::string bytes = request.bytes();
  const std::size_t head = bytes.size() - request.body.size();
  REQUIRE(to.send(bytes.substr(0, head)));
  CHECK(to.read("GET", seconds(10)).status == 100);
  REQUIRE(to.send(request.body));
  const Reply reply = to.read();
  CHECK(reply.status == 201);
  CHECK(reply.json().value("resource", "") == name);
}

TEST_CASE("who expects 100-continue may send the body unasked", "[server][http]") {
  Connection to(service().port());
  Request request = post_request(fresh_name());
  request.headers.emplace_back("Expect", "100-continue");
  REQUIRE(to.send(request.bytes()));
  Reply reply = to.read();
  if (reply.status == 100) reply = to.read();
  CHECK(reply.status == 201);
}

TEST_CASE("a request in small pieces is understood", "[server][http]") {
  Connection to(service().port());
  for (const char c : post_request(fresh_name()).bytes()) REQUIRE(to.send(std::string(1, c)));
  CHECK(to.read().status == 201);
}

TEST_CASE("half-sent requests hold up nobody", "[server][http]") {
  const int port = service().port();
  std::vector<std::unique_ptr<Connection>> stalled;
  for (int i = 0; i < 200; ++i) {
    stalled.push_back(std::make_unique<Connection>(port));
    stalled.back()->send(
        i % 2 ? "POST /v1/claims/ HT"
              : "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                "Content-Length: 100\r\n\r\n{\"resource\"");
  }
  const auto begin = std::chrono::steady_clock::now();
  CHECK(service().post(claim_body(fresh_name())).status == 201);
  CHECK(std::chrono::steady_clock::now() - begin < seconds(5));
}

TEST_CASE("a request that is cut off changes nothing", "[server][http]") {
  const std::string name = fresh_name();
  {
    Connection to(service().port());
    const std::string bytes = post_request(name).bytes();
    to.send(bytes.substr(0, bytes.size() - 1));
    to.finish_sending();
    const Reply reply = to.read("GET", seconds(10));
    CHECK((reply.status == 0 || reply.status == 400 || reply.status == 408));
  }
  CHECK(service().list("resource=" + percent(name)).empty());
}

TEST_CASE("nonsense is refused as the client's fault", "[server][http]") {
  const std::string bytes = GENERATE_COPY(from_range(std::vector<std::string>{
      "nonsense\r\n\r\n", "\r\n\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
      std::string(100, '\0'), "GET /v1/claims/ HTTP/1.1\r\nHost x\r\n\r\n",
      std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11),  // as TLS begins
      "GET /v1/claims/\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1e3\r\n\r\n",
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999999\r\n\r\n",
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\n{}   ",
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n"}));
  CAPTURE(bytes);
  Connection to(service().port());
  to.send(bytes);
  to.finish_sending();
  const Reply reply = to.read("GET", seconds(20));
  const bool is_empty = bytes == "\r\n\r\n\r\n";  // empty lines before a request are allowed
  CHECK(reply.status == (is_empty ? 0 : 400));
  CHECK(to.is_closed_within(seconds(10)));
  check_serves();
}

TEST_CASE("bytes that are no UTF-8 in a path are never the server's fault", "[server][http]") {
  const auto [target, status] = GENERATE(table<std::string, int>({
      {"/v1/claims/\xff/", 404},
      {"/v1/claims/?resource=%ff", 400},
      {"/v1/claims/?resource=\xff", 400},
      {"/v1/claims/?%ff=%fe", 400},
      {"/v1/claims/?resource=%", 400},
      {"/v1/claims/?resource=%zz", 400},
      {"/v1/resources/%ff/fence", 404},
  }));
  CAPTURE(target);
  CHECK(service().get(target).status == status);
  check_serves();
}

TEST_CASE("a NUL in a query or in the name of a resource is refused with 400", "[server][http]") {
  const std::string name = fresh_name();
  (void)service().claim(name);
  const std::string cut = percent(name) + "%00" + percent("rest");
  const std::string before = "%00" + percent(name);
  for (const std::string& text : {cut, before, std::string("%00")}) {
    for (const std::string& target :
         {"/v1/claims/?resource=" + text, "/v1/claims/?other=" + text, "/v1/claims/?" + text + "=1",
          "/v1/resources/?q=" + text, "/v1/resources/one/queue?limit=1&other=" + text,
          "/v1/events?resource=" + text, "/v1/resources/" + text + "/queue",
          "/v1/resources/" + text + "/fence"}) {
      CAPTURE(target);
      const Reply reply = service().get(target);
      CHECK(reply.status == 400);
      CHECK_THAT(reply.json().value("message", ""), Catch::Contains("NUL"));
    }
  }
  // There is no claim with such an id, whoever asks.
  CHECK(service().get("/v1/claims/1%00/").status == 404);
}

TEST_CASE("a head that is too large is refused with 431, whatever makes it so", "[server][http]") {
  check_too_large("GET /healthz HTTP/1.1\r\nHost: x\r\nX-Much: " + std::string(1U << 20U, 'x') +
                  "\r\n\r\n");
  check_too_large("GET /" + std::string(1U << 20U, 'x') + " HTTP/1.1\r\nHost: x\r\n\r\n");
  std::string many = "GET /healthz HTTP/1.1\r\nHost: x\r\n";
  for (int i = 0; i < 20000; ++i) many += "X-" + std::to_string(i) + ": y\r\n";
  check_too_large(many + "\r\n");
  check_serves();
}

TEST_CASE("a client that leaves before its answer harms nobody", "[server][http]") {
  for (int i = 0; i < 100; ++i) {
    Connection to(service().port());
    to.send(Request{.target = "/v1/claims/?limit=1000"}.bytes());
  }
  check_serves();
}

TEST_CASE("every reply has a request id and the server's name", "[server][http]") {
  for (const char* target : {"/v1/claims/", "/v1/claims/0/", "/nothing", "/healthz"}) {
    const Reply reply = service().get(target);
    CHECK_FALSE(reply.header("x-request-id").empty());
    CHECK_THAT(reply.header("server"), StartsWith("holdfastd"));
  }
  CHECK(service().get("/healthz").header("x-request-id") !=
        service().get("/healthz").header("x-request-id"));
}

TEST_CASE("a harmless request id is given back, another is not", "[server][http]") {
  CHECK(service().get("/healthz", {{"X-Request-Id", "job-17.a_b"}}).header("x-request-id") ==
        "job-17.a_b");
  const std::string harmful =
      GENERATE_COPY(std::string("a\"b c"), std::string(5000, 'x'), std::string("\xc3\xa9\x1b[31m"));
  const std::string answered =
      service().get("/healthz", {{"X-Request-Id", harmful}}).header("x-request-id");
  CHECK(answered != harmful);
}
