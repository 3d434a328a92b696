/// Clients that mean harm: what they send is refused or kept as it is, and nobody else is touched.

#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

#include "service.h"

using namespace holdfast::testing;
using Catch::Contains;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

/// A server that writes a line for each request. Whatever a case does to it, in the end it serves,
/// and its database is sound.
class Besieged {
 public:
  Besieged() = default;
  Besieged(const Besieged&) = delete;
  Besieged& operator=(const Besieged&) = delete;
  ~Besieged() {
    CHECK(service_.get("/readyz").status == 200);
    CHECK(service_.post(claim_body("in the end")).status == 201);
    CHECK(service_.daemon().stop() == 0);
    CHECK(run({"holdfastd", "check", "--store", service_.store()}).code == 0);
  }

  Service* operator->() { return &service_; }

  std::vector<std::string> log() {
    std::vector<std::string> lines;
    std::istringstream text(service_.daemon().complained());
    for (std::string line; std::getline(text, line);) lines.push_back(line);
    return lines;
  }

  /// All that is answered until the server ends the connection.
  std::string answers_to(const std::string& bytes) {
    RawClient client("http://127.0.0.1:" + std::to_string(service_.port()));
    client.send(bytes);
    client.end_sending();
    return client.read_to_end().value_or("still open");
  }

 private:
  Service service_{{"--log", "info", "--max-wait", "1"}, Kept::sqlite};
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

/// A whole request that makes a claim, for behind one that is refused.
std::string smuggled_request() {
  const std::string body = R"({"resource": "smuggled", "ttl": 600})";
  return "POST /v1/claims/ HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
         "Content-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

const std::string kRoot = "/";

/// Texts that would be more than one line, field, event or value if somebody took them as they are.
const std::vector<std::string> kForgeries{
    "a\r\nSet-Cookie: forged=1\r\n\r\nHTTP/1.1 200 OK\r\n\r\nforged",
    "a\nforged: 1",
    "a\rforged: 1",
    "a\n\nevent: claim\nid: 7\ndata: {\"forged\": true}\n\n",
    "a\r\rdata: forged\r\r",
    "a\u2028data: forged\u2029\u0085",
    "a\" status=200 forged=\"1",
    "a\x1b[2Jforged",
    "</script><script>forged()</script>",
    "'); DROP TABLE claims; --",
    "%0d%0aforged: 1",
    "\u202egnp.exe",
};

/// What a reader of server-sent events sees in `stream`: the data of each event.
std::vector<std::string> events_in(const std::string& stream) {
  const std::string lines = std::regex_replace(stream, std::regex("\r\n|\r"), "\n");
  std::vector<std::string> all;
  std::string data;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("data: ")) data += line.substr(6);
    if (!line.empty() || data.empty()) continue;
    all.push_back(std::exchange(data, {}));
  }
  return all;
}

std::string nested(std::size_t depth) {
  return R"({"resource": "deep", "ttl": 1, "user_data": )" + std::string(depth - 1, '[') +
         std::string(depth - 1, ']') + "}";
}

}  // namespace

TEST_CASE("no text of a client becomes a field or a reply", "[server][hostile]") {
  Besieged server;
  for (const std::string& text : kForgeries) {
    CAPTURE(text);
    Json body = claim_body(text);
    body["user_data"] = text;
    const Reply posted = server->post(body, {{"Idempotency-Key", percent(text)}});
    REQUIRE(posted.status == 201);
    CHECK(posted.json().at("resource") == text);
    CHECK(posted.json().at("user_data") == text);
    CHECK(std::regex_match(posted.header("location"),
                           std::regex("http://127\\.0\\.0\\.1/v1/claims/[0-9]+/")));
    const Reply queue = server->get("/v1/resources/" + percent(text) + "/queue");
    CHECK(queue.json().at("name") == text);
    const Reply revoked = server->send({.method = "POST",
                                        .target = "/v1/admin/revoke",
                                        .body = Json{{"resource", text}, {"reason", text}}.dump(),
                                        .headers = kJsonType});
    CHECK(revoked.json().at("revoked") == 1);
    const Json shown = server->show(id_of(posted.json()));
    CHECK(shown.at("status_history").back().at("reason") == text);
    const Reply missing = server->get(kRoot + percent(text));
    CHECK(missing.status == 404);
    for (const Reply& reply : {posted, queue, revoked, missing})
      CHECK_THAT(reply.head, !Contains("forged"));
  }
}

TEST_CASE("fields that come back are harmless, or they do not", "[server][hostile]") {
  Besieged server;
  for (const std::string bad : {"a b", "a\tb", "a\"b", "a=b", "a,b", "\x80\xff", "a;b", "<b>"}) {
    CAPTURE(bad);
    const Reply reply = server->get("/healthz", {{"X-Request-Id", bad}});
    CHECK(reply.status == 200);
    CHECK(reply.header("x-request-id") != bad);
    CHECK_THAT(reply.head, !Contains(bad + "\r\n"));
  }
  for (const std::string bad : {"a\x7f", "a\tb", "\x80\xff", "\xc3\xa4"}) {
    CAPTURE(bad);
    CHECK(server->post(claim_body("key"), {{"Idempotency-Key", bad}}).status == 400);
  }
  CHECK(server->post(claim_body("key"), {{"Idempotency-Key", std::string(257, 'x')}}).status ==
        400);
  for (const std::string bad : {"a\"b", "a b", "a/b", "a<b>", "a\x80", "a@b", "a,b"}) {
    CAPTURE(bad);
    const Reply reply = server->post(claim_body("host"), {{"Host", bad}});
    CHECK(reply.status == 400);
    CHECK_FALSE(reply.has("location"));
  }
  CHECK(server->list("resource=key").empty());
  CHECK(server->list("resource=host").empty());
}

TEST_CASE("a request is one line of the log, whatever is in it", "[server][hostile]") {
  Besieged server;
  const std::size_t before = server.log().size();
  std::size_t requests = 0;
  for (const std::string& text : kForgeries) {
    (void)server->post(claim_body(text), {{"X-Request-Id", percent(text)}});
    (void)server->get(kRoot + percent(text) + "?" + percent(text));
    requests += 2;
  }
  for (const std::string raw : {"/\"status=200\"", "/\x80\xff\xc2\x85", "/a?b=c&d[]={}|",
                                "/'`$(id)", "/\\n\\r", "/%0a%0dforged"}) {
    (void)server->get(raw);
    ++requests;
  }
  CHECK(server->send({.method = "F\"ORGED=1"}).status == 400);
  CHECK(server->send({.method = "FORGED"}).status == 405);
  CHECK(server->get("/healthz", {{"X-Request-Id", "a status=200"}}).status == 200);
  requests += 2;
  const std::regex shape(
      "request id=[A-Za-z0-9._:-]{1,64} peer=127\\.0\\.0\\.1 method=[^ ]* target=[^ ]* "
      "status=[0-9]{3} bytes=[0-9]+ ms=[0-9]+\\.[0-9]{3}");
  REQUIRE(eventually([&] { return server.log().size() >= before + requests; }));
  const std::vector<std::string> lines = server.log();
  CHECK(lines.size() <= before + requests + 1);  // what is no request may be told of or not
  for (std::size_t i = before; i < lines.size(); ++i) {
    CAPTURE(lines[i]);
    CHECK(std::regex_search(lines[i], shape));
    CHECK(count(lines[i], " status=") == 1);
    for (const char c : lines[i]) CHECK((c >= ' ' && c <= '~'));
  }
}

TEST_CASE("a change is one event, whatever is in the claim", "[server][hostile]") {
  Besieged server;
  Connection to(server->port());
  to.send(Request{.target = "/v1/events"}.bytes());
  REQUIRE(to.read_head().status == 200);
  std::vector<long> ids;
  for (const std::string& text : kForgeries) {
    Json body = claim_body(text);
    body["user_data"] = {{text, text}, {"nul", std::string("a\0b", 3)}};
    ids.push_back(id_of(server->post(body).json()));
  }
  std::string stream;
  while (events_in(stream).size() < ids.size()) {
    const std::string more = to.read_some(seconds(20));
    if (more.empty()) break;
    stream += more;
  }
  const std::vector<std::string> events = events_in(stream);
  REQUIRE(events.size() == ids.size());
  CHECK(count(stream, "event: claim\n") == ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Json claim = Json::parse(events[i], nullptr, false);
    CAPTURE(events[i]);
    REQUIRE(claim.is_object());
    CHECK(claim.at("id") == ids[i]);
    CHECK(claim.at("resource") == kForgeries[i]);
    CHECK(claim.at("user_data").at(kForgeries[i]) == kForgeries[i]);
  }
}

TEST_CASE("a page beyond all numbers is empty or refused", "[server][hostile]") {
  Besieged server;
  (void)server->claim("one");
  const std::vector<std::pair<std::string, bool>> values{
      {"9223372036854775807", true},
      {"9223372036854775808", true},
      {"18446744073709551615", true},
      {"18446744073709551616", false},
      {"340282366920938463463374607431768211457", false},
      {"-1", false},
      {"-0", false},
      {"%2B1", false},
      {"1e3", false},
      {"1.0", false},
      {"0x1", false},
      {"NaN", false},
      {"", false},
      {"1%00", false},
      {"%F0%9D%9F%99", false},
  };
  for (const auto& [value, is_number] : values) {
    CAPTURE(value);
    for (const std::string list : {"/v1/claims/", "/v1/resources/", "/v1/resources/one/queue"}) {
      CAPTURE(list);
      CHECK(server->get(list + "?limit=" + value).status == (is_number ? 200 : 400));
      CHECK(server->get(list + "?offset=" + value).status == (is_number ? 200 : 400));
      CHECK(server->get(list + "?limit=" + value + "&offset=" + value).status ==
            (is_number ? 200 : 400));
    }
    if (is_number) CHECK(server->list("limit=" + value).size() == 1);
    if (is_number) CHECK(server->list("offset=" + value).empty());
  }
}

TEST_CASE("a duration beyond all numbers is refused, or means none at all", "[server][hostile]") {
  Besieged server;
  const std::vector<std::pair<std::string, int>> values{
      {"1e308", 400},
      {"1e309", 400},
      {"1e999999999999", 400},
      {"9223372036854775807", 400},
      {"9223372036854775808", 400},
      {"18446744073709551615", 400},
      {"18446744073709551616", 400},
      {"10000000001", 400},
      {"10000000000", 201},
      {"1e-300", 201},
      {"1e-999999999999", 201},
      {"-0", 201},
      {"-0.0", 201},
      {"-1e-300", 400},
      {"-1", 400},
      {"NaN", 400},
      {"\"NaN\"", 400},
      {"Infinity", 400},
      {"-Infinity", 400},
      {"\"inf\"", 400},
      {"\"0x10\"", 400},
      {"0x10", 400},
      {"01", 400},
      {"1.", 400},
      {"+1", 400},
      {"\"1e308\"", 400},
      {"\"\"", 400},
  };
  for (const auto& [value, status] : values) {
    CAPTURE(value);
    const std::string name = fresh_name();
    const Reply reply =
        server->post_text(R"({"resource": ")" + name + R"(", "ttl": )" + value + "}");
    CAPTURE(reply.body);
    CHECK(reply.status == status);
    CHECK(server->list("resource=" + percent(name)).size() == (status == 201 ? 1 : 0));
    const long id = server->claim(fresh_name());
    CHECK(server->patch_text(id, R"({"ttl": )" + value + "}").status ==
          (status == 201 ? 200 : 400));
    for (const std::string key : {"waiting_ttl", "count"}) {
      std::string body = R"({"resource": "s", "ttl": 1, ")";
      body += key + R"(": )" + value + "}";
      const Reply other = server->post_text(body);
      CAPTURE(key, other.body);
      const bool is_good = key == "waiting_ttl" && value == "10000000000";
      CHECK(other.status == (is_good ? 201 : 400));
    }
  }
}

TEST_CASE("a wait beyond all numbers ends as early as it must", "[server][hostile]") {
  Besieged server;
  (void)server->claim("held");
  const std::vector<std::pair<std::string, bool>> values{
      {"1e308", true},
      {"99999999999999999999999", true},
      {"9223372036854775808", true},
      {"1e309", false},
      {"NaN", false},
      {"inf", false},
      {"-1", false},
      {"-0", false},
      {"1e-300", false},
      {"", false},
      {"0x10", false},
  };
  for (const auto& [value, waits] : values) {
    CAPTURE(value);
    const Reply reply = server->post(claim_body("held"), {{"Prefer", "wait=" + value}});
    CHECK(reply.status == 202);
    CHECK(reply.header("preference-applied") == (waits ? "wait=1" : ""));
  }
}

TEST_CASE("a request whose end is in doubt is refused, and nothing after it is read",
          "[server][hostile]") {
  Besieged server;
  const std::string inner = smuggled_request();
  const std::string size = std::to_string(inner.size());
  const std::string length = "Content-Length: ";
  const std::vector<std::string> all{
      length + "0, " + size + "\r\n",
      length + "0," + size + "\r\n",
      length + "0,0\r\n",
      length + "0\r\n" + length + "0\r\n",
      length + "0\r\n" + length + size + "\r\n",
      length + size + "\r\n" + length + "0\r\n",
      length + "0\r\nTransfer-Encoding: chunked\r\n",
      "Transfer-Encoding: chunked\r\n" + length + size + "\r\n",
      "Transfer-Encoding: chunked, chunked\r\n",
      "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
      "Transfer-Encoding: identity\r\n",
      "Transfer-Encoding: xchunked\r\n",
      "Transfer-Encoding: \x0b"
      "chunked\r\n",
      "Transfer-Encoding : chunked\r\n",
      "Transfer-Encoding:\r\n chunked\r\n",
      length + "+0\r\n",
      length + "-0\r\n",
      length + "-1\r\n",
      length + "0x0\r\n",
      length + "0 0\r\n",
      length + "\r\n",
      length + "\r\n 0\r\n",
      length + "18446744073709551616\r\n",
      "Content-Length : 0\r\n",
      std::string(" ") + length + "0\r\n",
      "A: b\r\n\t" + length + "0\r\n",
      "A: b\n" + length + "0\r\n",
      "A: b\r" + length + "0\r\n",
      std::string("A: ") + std::string(1, '\0') + "\r\n" + length + "0\r\n",
      std::string("A") + std::string(1, '\0') + ": b\r\n" + length + "0\r\n",
      "A B: c\r\n" + length + "0\r\n",
      "Host: other\r\n" + length + "0\r\n",
  };
  for (const std::string& fields : all) {
    CAPTURE(fields);
    const std::string answers = server.answers_to(
        "POST /v1/claims/ HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" + fields +
        "\r\n" + inner);
    CHECK_THAT(answers, Catch::StartsWith("HTTP/1.1 400 "));
    CHECK(count(answers, "HTTP/1.1 ") == 1);
    CHECK_THAT(answers, Contains("Connection: close\r\n"));
    CHECK(server->list("").empty());
  }
}

TEST_CASE("a chunk whose end is in doubt is refused, and nothing after it is read",
          "[server][hostile]") {
  Besieged server;
  const std::string body = claim_body("chunk").dump();
  std::ostringstream digits;
  digits << std::hex << body.size();
  const std::string hex = digits.str();
  const std::vector<std::string> all{
      std::string("-") + hex + "\r\n" + body + "\r\n0\r\n\r\n",
      std::string("0x") + hex + "\r\n" + body + "\r\n0\r\n\r\n",
      std::string("+") + hex + "\r\n" + body + "\r\n0\r\n\r\n",
      std::string("1") + std::string(16, '0') + "\r\n" + body + "\r\n0\r\n\r\n",
      hex + "\n" + body + "\n0\n\n",
      hex + "\r\n" + body + "0\r\n\r\n",
      hex + "\r\n" + body + "x\r\n0\r\n\r\n",
      "\r\n" + body + "\r\n0\r\n\r\n",
  };
  for (const std::string& chunks : all) {
    CAPTURE(chunks);
    const std::string answers = server.answers_to(
        "POST /v1/claims/ HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n"
        "Transfer-Encoding: chunked\r\n\r\n" +
        chunks + smuggled_request());
    CHECK_THAT(answers, Catch::StartsWith("HTTP/1.1 400 "));
    CHECK(count(answers, "HTTP/1.1 ") == 1);
    CHECK_THAT(answers, Contains("Connection: close\r\n"));
    CHECK(server->list("").empty());
  }
}

TEST_CASE("JSON that is odd is taken in one way or refused", "[server][hostile]") {
  Besieged server;
  CHECK(server->post_text(nested(100)).status == 201);
  CHECK(server->post_text(nested(101)).status == 400);
  CHECK(server->post_text(nested(500000)).status == 400);
  const std::string open = R"({"resource": "deep", "ttl": 1, "user_data": )";
  CHECK(server->post_text(open + std::string(1000000, '[')).status == 400);
  std::string objects = open;
  for (int i = 0; i < 100000; ++i) objects += R"({"a":)";
  CHECK(server->post_text(objects).status == 400);

  const Reply twice = server->post_text(R"({"resource": "a", "ttl": 1, "resource": "b"})");
  CHECK(twice.status == 201);
  CHECK(twice.json().at("resource") == "b");
  const Reply marked = server->post_text("\xEF\xBB\xBF" + claim_body("marked").dump());
  CHECK(marked.status == 201);
  CHECK(marked.json().at("resource") == "marked");

  for (const std::string bad : {R"("\ud800")", R"("\ud800\ud800")", R"("\ud800x")", R"("\udc00")",
                                R"("\u0000")", R"("\u00")", R"("\x41")", "\"\xed\xa0\x80\"",
                                "\"\xc0\xaf\"", "\"\xff\"", "\"\xf4\x90\x80\x80\"", "\"a\nb\"",
                                "'a'", "a", "\xEF\xBB\xBF\"a\"", "[\"a\"]", "{}", "true", "null"}) {
    CAPTURE(bad);
    CHECK(server->post_text(R"({"ttl": 1, "resource": )" + bad + "}").status == 400);
  }
  const std::string good = claim_body("late").dump();
  for (const std::string& bad :
       {good + "{}", good + ",", good + std::string(1, '\0'), "\xEF\xBB\xBF\xEF\xBB\xBF" + good,
        "\xFE\xFF" + good, "/**/" + good, good.substr(0, good.size() - 1), std::string(),
        std::string("[") + good + "]", std::string("\"") + "x"}) {
    CAPTURE(bad);
    CHECK(server->post_text(bad).status == 400);
  }
  CHECK(server->list("limit=100").size() == 3);
}
