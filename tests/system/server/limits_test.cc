/// How much of anything a client may ask for, and who may ask at all.

#include <catch2/catch.hpp>
#include <thread>

#include "service.h"

using namespace holdfast::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

/// A server that knows a token for each of these names.
struct Guarded {
  TempDir dir;
  std::map<std::string, std::string> tokens;
  std::unique_ptr<Service> server;

  explicit Guarded(std::vector<std::string> options = {}) {
    for (const auto& [name, scope] :
         {std::pair{"ann", "claim"}, {"bob", "claim"}, {"eve", "read"}, {"root", "admin"}}) {
      const Result made =
          run({"holdfastd", "token", "--tokens", dir / "tokens", name, "--scope", scope});
      REQUIRE(made.code == 0);
      tokens[name] = made.out.substr(0, made.out.find('\n'));
      CHECK_THAT(read_file(dir / "tokens"), !Catch::Contains(tokens[name]));
    }
    options.insert(options.end(), {"--tokens", dir / "tokens"});
    server = std::make_unique<Service>(options);
  }

  Headers as(const std::string& name) { return {{"Authorization", "Bearer " + tokens.at(name)}}; }
};

}  // namespace

TEST_CASE("a queue that is full refuses with 429 and is not longer after", "[server][limits]") {
  Service own({"--max-queue", "3"});
  own.claim("full");
  for (int i = 0; i < 3; ++i) own.claim("full");
  const Reply reply = own.post(claim_body("full"));
  CHECK(reply.status == 429);
  CHECK(reply.has("retry-after"));
  CHECK(own.ids("resource=full&status=waiting").size() == 3);
  CHECK(own.post(claim_body("other")).status == 201);
}

TEST_CASE("a name that is too long is refused as a fault of the name", "[server][limits]") {
  Service own({"--max-name", "100"});
  CHECK(own.post(claim_body(std::string(100, 'x'))).status == 201);
  const Reply reply = own.post(claim_body(std::string(101, 'x')));
  CHECK(reply.status == 400);
  CHECK(reply.json().contains("resource"));
}

TEST_CASE("nesting is limited as configured", "[server][limits]") {
  Service own({"--max-depth", "10"});
  const auto body = [](int levels) {
    const auto size = static_cast<std::size_t>(levels);
    return R"({"resource": "deep", "ttl": 60, "user_data": )" + std::string(size, '[') +
           std::string(size, ']') + "}";
  };
  CHECK(own.post_text(body(9)).status == 201);  // the object around it is the tenth level
  CHECK(own.post_text(body(10)).status == 400);
}

TEST_CASE("bodies are limited as configured", "[server][limits]") {
  Service own({"--max-body", "1000"});
  const auto body_of = [](std::size_t size) {
    const std::size_t rest = claim_body("").dump().size();
    return claim_body(std::string(size - rest, 'x')).dump();
  };
  REQUIRE(body_of(1000).size() == 1000);
  CHECK(own.post_text(body_of(1000)).status == 201);
  CHECK(own.post_text(body_of(1001)).status == 413);
}

TEST_CASE("a peer that asks too often is told to wait", "[server][limits]") {
  Service own({"--rate", "5"});
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    const Reply reply = own.get("/v1/claims/");
    CHECK((reply.status == 200 || reply.status == 429));
    if (reply.status != 429) continue;
    ++refused;
    CHECK(reply.has("retry-after"));
  }
  CHECK(refused > 0);
  CHECK(eventually([&] {
    std::this_thread::sleep_for(milliseconds(300));
    return own.get("/v1/claims/").status == 200;
  }));
}

TEST_CASE("a client that does not finish its head is let go", "[server][limits]") {
  Service own({"--header-timeout", "1"});
  Connection to(own.daemon().port());
  const auto begin = std::chrono::steady_clock::now();
  to.send("GET /healthz HTTP/1.1\r\nHo");
  CHECK(to.read("GET", seconds(20)).status == 408);
  CHECK(to.is_closed_within(seconds(5)));
  CHECK(std::chrono::steady_clock::now() - begin < seconds(8));
}

TEST_CASE("a client that drips its head is let go all the same", "[server][limits]") {
  Service own({"--header-timeout", "1"});
  Connection to(own.daemon().port());
  to.send("GET /healthz HTTP/1.1\r\n");
  const auto end = std::chrono::steady_clock::now() + seconds(8);
  bool is_gone = false;
  while (!is_gone && std::chrono::steady_clock::now() < end) {
    is_gone = !to.send("X: y\r\n") || to.is_closed_within(milliseconds(100));
  }
  CHECK(is_gone);
}

TEST_CASE("a client that does not finish its body is let go", "[server][limits]") {
  Service own({"--body-timeout", "1"});
  Connection to(own.daemon().port());
  to.send(
      "POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
      "Content-Length: 100\r\n\r\n{");
  CHECK(to.read("GET", seconds(20)).status == 408);
  CHECK(to.is_closed_within(seconds(10)));
  CHECK(own.list("limit=10").empty());
}

TEST_CASE("an idle connection is closed, a waiting one is not", "[server][limits]") {
  Service own({"--idle-timeout", "1", "--header-timeout", "1", "--body-timeout", "1"});
  Connection idle(own.daemon().port());
  idle.send(Request{.target = "/healthz"}.bytes());
  CHECK(idle.read().status == 200);
  own.claim("held");
  const Reply reply = own.post(claim_body("held"), {{"Prefer", "wait=3"}});
  CHECK(reply.status == 202);
  CHECK(reply.header("preference-applied") == "wait=3");
  CHECK(idle.is_closed_within(seconds(10)));
}

TEST_CASE("a wait is no longer than the server allows", "[server][limits]") {
  Service own({"--max-wait", "1"});
  own.claim("held");
  const auto begin = std::chrono::steady_clock::now();
  const Reply reply = own.post(claim_body("held"), {{"Prefer", "wait=100"}});
  CHECK(reply.status == 202);
  CHECK(reply.header("preference-applied") == "wait=1");
  CHECK(std::chrono::steady_clock::now() - begin < seconds(15));
}

TEST_CASE("connections are limited, and a place that is free again is given", "[server][limits]") {
  Service own({"--max-connections", "5"});
  const int port = own.daemon().port();
  {
    std::vector<std::unique_ptr<Connection>> crowd;
    for (int i = 0; i < 20; ++i) {
      crowd.push_back(std::make_unique<Connection>(port));
      crowd.back()->send("GET /healthz HTTP/1.1\r\n");
    }
    for (std::size_t i = 0; i < crowd.size(); ++i) {
      CAPTURE(i);
      const bool has_place = i < 5;  // its request is not whole, so the server says nothing yet
      const Reply reply = crowd[i]->read("GET", has_place ? milliseconds(100) : seconds(10));
      CHECK(reply.status == (has_place ? 0 : 503));
      CHECK(crowd[i]->is_closed_within(has_place ? milliseconds(0) : seconds(10)) != has_place);
    }
  }
  CHECK(eventually([&] { return exchange(port, {.target = "/healthz"}).status == 200; }));
}

TEST_CASE("a promoted claim is held for the grant grace", "[server][limits]") {
  Service own({"--grant-grace", "30"});
  const long owner = own.claim("graced", 60);
  const long head = own.claim("graced", 1);
  own.claim("graced", 1);
  own.patch(owner, {{"status", "released"}});
  CHECK(own.show(head).at("ttl").get<double>() > 20);
  CHECK(own.patch(head, {{"status", "active"}}).json().at("ttl").get<double>() <= 1);
}

TEST_CASE("ended claims are dropped in time, and their fence is not forgotten",
          "[server][limits]") {
  Service own({"--retain", "1"});
  const Reply granted = own.post(claim_body("dropped"));
  const long id = id_of(granted.json());
  own.patch(id, {{"status", "released"}});
  CHECK(eventually([&] { return own.get(path_of(id)).status == 404; }, seconds(30)));
  const Reply next = own.post(claim_body("dropped"));
  CHECK(id_of(next.json()) > id);
  CHECK(next.json().at("fence") > granted.json().at("fence"));
}

TEST_CASE("without a token nothing but the open paths is shown", "[server][auth]") {
  Guarded guarded;
  Service& own = *guarded.server;
  for (const char* open : {"/", "/healthz", "/readyz", "/v1/openapi.json"})
    CHECK(own.get(open).status == 200);
  for (const Headers& with :
       {Headers{}, Headers{{"Authorization", "Bearer wrong"}},
        Headers{{"Authorization", "Basic cm9vdDpyb290"}}, Headers{{"Authorization", "Bearer"}}}) {
    for (const char* closed : {"/v1/claims/", "/v1/claims/1/", "/v1/resources/", "/v1/events",
                               "/v1/stats", "/metrics", "/v1/whoami"}) {
      CAPTURE(closed);
      const Reply reply = own.get(closed, with);
      CHECK(reply.status == 401);
      CHECK(reply.header("www-authenticate") == "Bearer realm=\"holdfast\"");
      CHECK(reply.json().contains("message"));
    }
    CHECK(own.post(claim_body("x"), with).status == 401);
    CHECK(own.patch(1, {{"status", "released"}}, with).status == 401);
  }
}

TEST_CASE("a scope allows what it says and no more", "[server][auth]") {
  Guarded guarded;
  Service& own = *guarded.server;
  CHECK(own.get("/v1/claims/", guarded.as("eve")).status == 200);
  CHECK(own.post(claim_body("x"), guarded.as("eve")).status == 403);
  const Reply posted = own.post(claim_body("x"), guarded.as("ann"));
  CHECK(posted.status == 201);
  CHECK(posted.json().at("owner") == "ann");
  CHECK(own.get("/v1/claims/", guarded.as("ann")).status == 200);
  const Json who = own.get("/v1/whoami", guarded.as("ann")).json();
  CHECK(who.at("name") == "ann");
  CHECK(who.at("auth") == true);
  const auto revoke_as = [&](const std::string& name) {
    Headers headers = guarded.as(name);
    headers.push_back(kJsonType.front());
    return own.send({.method = "POST",
                     .target = "/v1/admin/revoke",
                     .body = R"({"owner": "ann", "reason": "left"})",
                     .headers = headers});
  };
  CHECK(revoke_as("bob").status == 403);
  CHECK(revoke_as("eve").status == 403);
  CHECK(revoke_as("root").json().at("revoked") == 1);
}

TEST_CASE("a claim is changed only by its creator or an administrator", "[server][auth]") {
  Guarded guarded;
  Service& own = *guarded.server;
  const long id = id_of(own.post(claim_body("x"), guarded.as("ann")).json());
  for (const Json& change :
       {Json{{"status", "released"}}, Json{{"ttl", 5}}, Json{{"status", "active"}}})
    CHECK(own.patch(id, change, guarded.as("bob")).status == 403);
  CHECK(own.get(path_of(id), guarded.as("bob")).json().at("status") == "active");
  CHECK(own.patch(id, {{"ttl", 5}}, guarded.as("ann")).status == 200);
  CHECK(own.patch(id, {{"status", "aborted"}}, guarded.as("root")).status == 204);
}

TEST_CASE("an owner has no more live claims than allowed", "[server][auth]") {
  Guarded guarded({"--max-claims-per-owner", "2"});
  Service& own = *guarded.server;
  CHECK(own.post(claim_body("a"), guarded.as("ann")).status == 201);
  const Reply second = own.post(claim_body("b"), guarded.as("ann"));
  CHECK(second.status == 201);
  const Reply third = own.post(claim_body("c"), guarded.as("ann"));
  CHECK(third.status == 429);
  CHECK(third.has("retry-after"));
  CHECK(own.post(claim_body("c"), guarded.as("bob")).status == 201);
  CHECK(own.patch(id_of(second.json()), {{"status", "released"}}, guarded.as("ann")).status == 204);
  CHECK(own.post(claim_body("d"), guarded.as("ann")).status == 201);
}
