/// The OpenAPI file and the server say the same: requests of every kind are sent to the built
/// holdfastd, and each answer is held against the file.

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <thread>

#include "api_file.h"
#include "support/process.h"
#include "support/temp_dir.h"
#include "system/server/daemon.h"
#include "system/server/http.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

const Headers kJsonBody{{"Content-Type", "application/json"}};

Json load_file() {
  return Json::parse(read_file(source_dir() + "/man/holdfastd.openapi.json"));
}

/// Sends requests and looks at each answer.
class Client {
 public:
  Client(ApiFile& file, const Daemon& daemon, Headers headers = {})
      : file_(file), port_(daemon.port()), headers_(std::move(headers)) {}

  /// `path` as the file has it; `target` if that has arguments in it.
  Reply get(const std::string& path, const std::string& target = "", Headers more = {}) {
    return send({"GET", target.empty() ? path : target, "", with(std::move(more))}, path);
  }
  Reply post(const std::string& path, const Json& body, Headers more = {}) {
    return send_json("POST", path, path, body, std::move(more));
  }
  Reply claim(const std::string& resource, double ttl = 60, Headers more = {}) {
    return post("/v1/claims/", {{"resource", resource}, {"ttl", ttl}}, std::move(more));
  }
  Reply patch(const std::string& id, const Json& body, Headers more = {}) {
    return send_json("PATCH", "/v1/claims/{id}/", "/v1/claims/" + id + "/", body, std::move(more));
  }
  Reply end(const Reply& claim, const std::string& status) {
    return patch(id_of(claim), {{"status", status}});
  }

  Reply send(const Request& request, const std::string& path) {
    return looked_at(exchange(port_, request), request.method, path);
  }

  /// Bytes as they are, to see what comes of them.
  Reply send_raw(const std::string& bytes, const std::string& method, const std::string& path) {
    Connection to(port_);
    to.send(bytes);
    return looked_at(to.read(method), method, path);
  }

  static std::string id_of(const Reply& claim) { return claim.json().at("id").dump(); }

 private:
  Headers with(Headers more) const {
    more.insert(more.end(), headers_.begin(), headers_.end());
    return more;
  }

  Reply send_json(const std::string& method, const std::string& path, const std::string& target,
                  const Json& body, Headers more) {
    more.insert(more.end(), kJsonBody.begin(), kJsonBody.end());
    Reply reply = send({method, target, body.dump(), with(std::move(more))}, path);
    if (reply.status < 300) CHECK(file_.look_body(small(method), path, body) == Complaints{});
    return reply;
  }

  static std::string small(const std::string& method) {
    return method == "GET" ? "get" : method == "POST" ? "post" : "patch";
  }

  Reply looked_at(Reply reply, const std::string& method, const std::string& path) {
    CHECK(file_.look(small(method), path, reply) == Complaints{});
    return reply;
  }

  ApiFile& file_;
  int port_;
  Headers headers_;
};

void drive_claims(Client& client) {
  const Reply first = client.claim("gpu0");
  REQUIRE(first.status == 201);
  CHECK(first.header("claim-fence") == "1");
  const Reply second = client.claim("gpu0", 60, {{"Idempotency-Key", "k"}});
  REQUIRE(second.status == 202);
  CHECK(second.has("retry-after"));
  CHECK(client.claim("gpu0", 60, {{"Idempotency-Key", "k"}}).status == 202);
  CHECK(client.claim("gpu1", 60, {{"Idempotency-Key", "k"}}).status == 400);
  CHECK(client.claim("gpu0", 60, {{"Prefer", "wait=0.05"}}).has("preference-applied"));
  CHECK(client.claim("", -1).status == 400);
  CHECK(
      client
          .post("/v1/claims/", {{"resource", "disk"},
                                {"ttl", "60"},
                                {"count", 2},
                                {"waiting_ttl", 5},
                                {"user_data", {{"job", 4711}, {"on", Json::array({1, nullptr})}}}})
          .status == 201);
  CHECK(client.post("/v1/claims/", {{"resource", 4711}, {"ttl", 1.5}, {"mode", "shared"}}).status ==
        201);

  const std::string id = Client::id_of(first);
  CHECK(client.get("/v1/claims/{id}/", "/v1/claims/" + id + "/").status == 200);
  CHECK(client.get("/v1/claims/{id}/", "/v1/claims/999999/").status == 404);
  CHECK(client.patch(id, {{"status", "active"}}).status == 200);
  CHECK(client.patch(id, {{"ttl", 90}}).status == 200);
  CHECK(client.patch(id, {{"ttl", 90}, {"status", "active"}}).status == 400);
  CHECK(client.patch(Client::id_of(second), {{"ttl", 90}}).status == 400);
  CHECK(client.patch(Client::id_of(second), {{"status", "active"}}).status == 409);
  CHECK(client.patch(Client::id_of(second), {{"status", "active"}}, {{"Prefer", "wait=0.05"}})
            .has("preference-applied"));
  CHECK(client.patch("999999", {{"status", "active"}}).status == 404);
  CHECK(client.patch("x", {{"status", "active"}}).status == 404);
  for (const char* status : {"released", "released"})
    CHECK(client.end(first, status).status == 204);
  CHECK(client.end(first, "aborted").status == 400);
  CHECK(client.end(second, "withdrawn").status == 204);
  CHECK(client.claim("gpu0", 60, {{"Idempotency-Key", "k"}}).json().at("status") == "withdrawn");

  CHECK(client.get("/v1/claims/", "/v1/claims/?limit=100").json().size() == 5);
  CHECK(client.get("/v1/claims/", "/v1/claims/?limit=-1").status == 400);
}

void drive_resources(Client& client) {
  REQUIRE(client.claim("a/b").status == 201);
  REQUIRE(client.claim("a/b").status == 202);
  CHECK(client.get("/v1/resources/", "/v1/resources/?q=a/&all=1").json().size() == 1);
  CHECK(client.get("/v1/resources/", "/v1/resources/?offset=x").status == 400);
  const Json queue = client.get("/v1/resources/{name}/queue", "/v1/resources/a%2Fb/queue").json();
  CHECK(queue.at("waiting").size() == 1);
  CHECK(client.get("/v1/resources/{name}/queue", "/v1/resources/a/b/queue").json().at("fence") ==
        1);
  CHECK(client.get("/v1/resources/{name}/queue", "/v1/resources/none/queue").status == 200);
  CHECK(client.get("/v1/resources/{name}/fence", "/v1/resources/a/b/fence").status == 200);
  CHECK(client.get("/v1/resources/{name}/fence", "/v1/resources/%ff/fence").status == 404);
  CHECK(client.post("/v1/admin/revoke", {{"reason", "a test"}, {"resource", "a/b"}})
            .json()
            .at("revoked") == 2);
  CHECK(client.post("/v1/admin/revoke", {{"reason", "a test"}}).status == 400);
  CHECK(client.get("/v1/resources/{name}/queue", "/v1/resources/a/b/queue").status == 200);
}

void drive_pages(Client& client) {
  for (const char* path :
       {"/v1/stats", "/v1/whoami", "/v1/openapi.json", "/metrics", "/healthz", "/readyz", "/"}) {
    CAPTURE(path);
    CHECK(client.get(path).status == 200);
  }
}

std::multimap<std::string, std::string> fields_of(const std::string& head) {
  std::multimap<std::string, std::string> fields;
  std::istringstream lines(head);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": ");
    if (colon == std::string::npos) continue;
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    fields.emplace(name, line.substr(colon + 2, line.find('\r') - colon - 2));
  }
  return fields;
}

/// Each event is a claim as the file has it.
void drive_events(ApiFile& file, Client& client, const Daemon& daemon) {
  Connection stream(daemon.port());
  REQUIRE(stream.send(Request{.target = "/v1/events?resource=seen"}.bytes()));
  Reply reply = stream.read_head();
  reply.headers = fields_of(reply.head);
  CHECK(file.look("get", "/v1/events", reply) == Complaints{});
  std::string text = stream.read_some(Connection::kLimit);
  REQUIRE(client.claim("not seen").status == 201);
  REQUIRE(client.claim("seen").status == 201);
  while (text.find("data: ") == std::string::npos || !text.ends_with("\n\n")) {
    const std::string more = stream.read_some(Connection::kLimit);
    REQUIRE_FALSE(more.empty());
    text += more;
  }
  const std::size_t from = text.find("data: ") + 6;
  const Json claim = Json::parse(text.substr(from, text.find('\n', from) - from));
  CHECK(file.look_at(file.schema("Claim"), claim) == Complaints{});
  CHECK(claim.at("resource") == "seen");
}

/// Other paths and methods, which the file describes once for all.
void drive_elsewhere(ApiFile& file, const Daemon& daemon) {
  for (const char* target : {"/nowhere", "/v1/claims/x/", "/v1/resources/a"}) {
    const Reply reply = exchange(daemon.port(), {.target = target});
    CHECK(reply.status == 404);
    CHECK(file.look_shared("NotFound", reply) == Complaints{});
  }
  for (const auto& [path, methods] : file.json().at("paths").items()) {
    if (path.find('{') != std::string::npos) continue;
    const Reply reply = exchange(daemon.port(), {.method = "DELETE", .target = path});
    CAPTURE(path);
    CHECK(reply.status == 405);
    CHECK(file.look_shared("MethodNotAllowed", reply) == Complaints{});
    const std::string allow = reply.header("allow");
    CHECK((allow.find("GET") != std::string::npos) == methods.contains("get"));
    CHECK((allow.find("POST") != std::string::npos) == methods.contains("post"));
  }
}

std::string token(const std::string& file, const std::string& name, const std::string& scope) {
  const Result made = run({"holdfastd", "token", "--tokens", file, name, "--scope", scope});
  REQUIRE(made.code == 0);
  return made.out.substr(0, made.out.find('\n'));
}

/// Every path of the file with and without a token, as its "security" says.
void drive_tokens(ApiFile& file, const TempDir& dir) {
  const std::string tokens = dir / "tokens";
  const auto bearing = [&](const std::string& name, const std::string& scope) {
    return Headers{{"Authorization", "Bearer " + token(tokens, name, scope)}};
  };
  const Headers as_reader = bearing("reader", "read");
  const Headers as_anna = bearing("anna", "claim");
  const Headers as_bob = bearing("bob", "claim");
  const Daemon daemon("memory:", {"--tokens", tokens});
  Client nobody(file, daemon);
  Client reader(file, daemon, as_reader);
  Client anna(file, daemon, as_anna);
  Client bob(file, daemon, as_bob);
  for (const auto& [path, methods] : file.json().at("paths").items()) {
    if (path.find('{') != std::string::npos || !methods.contains("get") || path == "/v1/events")
      continue;
    CAPTURE(path);
    const bool is_open = methods.at("get").contains("security");
    CHECK(nobody.get(path).status == (is_open ? 200 : 401));
    CHECK(reader.get(path).status == 200);
  }
  CHECK(nobody.get("/v1/events").status == 401);
  CHECK(reader.claim("gpu0").status == 403);
  const Reply claim = anna.claim("gpu0");
  REQUIRE(claim.status == 201);
  CHECK(claim.json().at("owner") == "anna");
  CHECK(bob.end(claim, "revoked").status == 403);
  CHECK(anna.post("/v1/admin/revoke", {{"reason", "r"}, {"owner", "bob"}}).status == 403);
}

/// What the transport refuses, and limits.
void drive_limits(ApiFile& file, const TempDir& dir) {
  const std::string claims = "/v1/claims/";
  const Daemon daemon("sqlite:" + dir / "limits.db",
                      {"--max-body", "2000", "--max-header", "1000", "--header-timeout", "0.2",
                       "--body-timeout", "0.2", "--max-queue", "1"});
  Client client(file, daemon);
  CHECK(client.send_raw("GET /healthz HTTP/1.1\r\n\r\n", "GET", "/healthz").status == 400);
  CHECK(client.send_raw("GET /healthz HTTP/1.1\r\nHost", "GET", "/healthz").status == 408);
  CHECK(client.claim(std::string(3000, 'x')).status == 413);
  CHECK(client.send({.method = "POST", .target = claims, .body = "{}", .headers = {}}, claims)
            .status == 415);
  CHECK(client.get("/healthz", "", {{"Expect", "the unexpected"}}).status == 417);
  CHECK(client.get("/healthz", "", {{"X-Long", std::string(2000, 'x')}}).status == 431);
  REQUIRE(client.claim("gpu0").status == 201);
  REQUIRE(client.claim("gpu0").status == 202);
  CHECK(client.claim("gpu0").status == 429);

  const Daemon slow("memory:", {"--rate", "1"});
  Client hasty(file, slow);
  int status = 200;
  for (int i = 0; i < 100 && status == 200; ++i) status = hasty.get("/healthz").status;
  CHECK(status == 429);

  const Daemon small("memory:", {"--max-connections", "1"});
  Connection only(small.port());
  REQUIRE(only.send(Request{.target = "/healthz"}.bytes()));
  REQUIRE(only.read().status == 200);
  Client late(file, small);
  CHECK(late.get("/v1/stats").status == 503);
}

/// The database's file goes away.
void drive_trouble(ApiFile& file, const TempDir& dir) {
  const Daemon daemon("sqlite:" + dir / "gone.db");
  Client client(file, daemon);
  REQUIRE(client.claim("gpu0").status == 201);
  for (const char* name : {"gone.db", "gone.db-wal", "gone.db-shm"})
    boost::filesystem::remove(dir / name);
  CHECK(client.claim("gpu1").status == 503);
  CHECK(client.get("/readyz").status == 503);
}

}  // namespace

TEST_CASE("every answer of the server is in its OpenAPI file, and the other way round",
          "[openapi]") {
  ApiFile file(load_file());
  const TempDir dir;
  {
    const Daemon daemon("sqlite:" + dir / "claims.db");
    Client client(file, daemon);
    drive_claims(client);
    drive_resources(client);
    drive_pages(client);
    drive_events(file, client, daemon);
    drive_elsewhere(file, daemon);
  }
  drive_tokens(file, dir);
  drive_limits(file, dir);
  drive_trouble(file, dir);
  CHECK(file.unseen() == std::set<std::string>{});
}

TEST_CASE("the OpenAPI file allows the bodies that the server takes and no others", "[openapi]") {
  ApiFile file(load_file());
  const Daemon daemon("memory:");
  Client client(file, daemon);
  const auto texts = GENERATE(table<std::string, bool>({
      {R"({"resource": "r", "ttl": 0})", true},
      {R"({"resource": 7, "ttl": "1e3"})", true},
      {R"({"resource": "r", "ttl": ".5", "user_data": null})", true},
      {R"({"resource": "r", "ttl": 1e10, "mode": "exclusive"})", true},
      {R"({"resource": "r", "ttl": 1, "count": 1000000, "waiting_ttl": 0.1})", true},
      {R"({"resource": "", "ttl": 1})", false},
      {R"({"resource": null, "ttl": 1})", false},
      {R"({"resource": ["r"], "ttl": 1})", false},
      {R"({"resource": "r"})", false},
      {R"({"ttl": 1})", false},
      {R"({"resource": "r", "ttl": -1})", false},
      {R"({"resource": "r", "ttl": ""})", false},
      {R"({"resource": "r", "ttl": "1s"})", false},
      {R"({"resource": "r", "ttl": true})", false},
      {R"({"resource": "r", "ttl": 1.1e10})", false},
      {R"({"resource": "r", "ttl": 1, "mode": "counted"})", false},
      {R"({"resource": "r", "ttl": 1, "mode": "shared", "count": 2})", false},
      {R"({"resource": "r", "ttl": 1, "count": 0})", false},
      {R"({"resource": "r", "ttl": 1, "count": 1.5})", false},
      {R"({"resource": "r", "ttl": 1, "count": 1000001})", false},
      {R"({"resource": "r", "ttl": 1, "waiting_ttl": 0})", false},
      {R"({"resource": "r", "ttl": 1, "other": 0})", false},
      {R"(["r", 1])", false},
  }));
  const auto& [text, is_good] = texts;
  CAPTURE(text);
  const Json body = Json::parse(text);
  CHECK(file.look_body("post", "/v1/claims/", body).empty() == is_good);
  CHECK((client.post("/v1/claims/", body).status < 300) == is_good);
}

TEST_CASE("the OpenAPI file allows the changes and revocations that the server takes",
          "[openapi]") {
  ApiFile file(load_file());
  const Daemon daemon("memory:");
  Client client(file, daemon);
  const auto texts = GENERATE(table<bool, std::string, bool>({
      {false, R"({"ttl": 5})", true},
      {false, R"({"ttl": "5"})", true},
      {false, R"({"status": "active"})", true},
      {false, R"({"status": "withdrawn"})", true},
      {false, R"({"status": "expired"})", false},
      {false, R"({"status": "active", "ttl": 5})", false},
      {false, R"({"status": "active", "more": 5})", false},
      {false, R"({"ttl": null})", false},
      {false, R"({})", false},
      {true, R"({"reason": "r", "claim": 1})", true},
      {true, R"({"reason": "r", "owner": "anna", "status": "waiting"})", true},
      {true, R"({"reason": "r", "status": "expired"})", false},
      {true, R"({"reason": "", "claim": 1})", false},
      {true, R"({"reason": "r"})", false},
      {true, R"({"claim": 1})", false},
      {true, R"({"reason": "r", "claim": "1"})", false},
      {true, R"({"reason": "r", "claim": 1, "more": 1})", false},
  }));
  const auto& [is_revocation, text, is_good] = texts;
  CAPTURE(text);
  const Json body = Json::parse(text);
  REQUIRE(client.claim("r").status == 201);
  const Reply reply =
      is_revocation ? client.post("/v1/admin/revoke", body) : client.patch("1", body);
  CHECK((reply.status < 300) == is_good);
  CHECK((is_revocation ? file.look_body("post", "/v1/admin/revoke", body)
                       : file.look_body("patch", "/v1/claims/{id}/", body))
            .empty() == is_good);
}

TEST_CASE("the server hands out the very OpenAPI file", "[openapi]") {
  const Daemon daemon("memory:");
  const Reply reply = exchange(daemon.port(), {.target = "/v1/openapi.json"});
  CHECK(reply.body == read_file(source_dir() + "/man/holdfastd.openapi.json"));
}

TEST_CASE("what the OpenAPI file refers to is in it, and its examples fit", "[openapi]") {
  const ApiFile file(load_file());
  int references = 0;
  const std::function<void(const Json&)> walk = [&](const Json& node) {
    if (node.is_object() && node.contains("$ref")) {
      ++references;
      CAPTURE(node);
      CHECK(file.json().contains(Json::json_pointer(node.at("$ref").get<std::string>().substr(1))));
    }
    if (node.is_structured())
      for (const Json& part : node) walk(part);
  };
  walk(file.json());
  CHECK(references > 100);
  for (const auto& [name, schema] : file.json().at("components").at("schemas").items()) {
    if (!schema.contains("example")) continue;
    CHECK(file.look_at(schema, schema.at("example"), name) == Complaints{});
  }
}

TEST_CASE("a reply that is not as the OpenAPI file says is found out", "[openapi]") {
  ApiFile file(load_file());
  const Json claim = file.schema("Claim").at("example");
  RawReply good;
  good.status = 200;
  good.headers = {
      {"content-type", "application/json"}, {"x-request-id", "a-1"}, {"server", "holdfastd"}};
  good.body = claim.dump();
  const auto look = [&](const RawReply& reply) {
    return file.look("get", "/v1/claims/{id}/", reply).size();
  };
  const auto with = [&](const std::string& key, const Json& value) {
    RawReply reply = good;
    Json changed = claim;
    changed[key] = value;
    reply.body = changed.dump();
    return reply;
  };
  REQUIRE(look(good) == 0);
  CHECK(look(with("more", 1)) == 1);
  CHECK(look(with("id", "7")) == 1);
  CHECK(look(with("id", 0)) == 1);
  CHECK(look(with("fence", nullptr)) == 0);
  CHECK(look(with("id", nullptr)) == 1);
  CHECK(look(with("status", "lost")) == 1);
  CHECK(look(with("created", "today")) == 1);
  CHECK(look(with("status_history", Json::array())) == 1);
  CHECK(look(with("status_history", {{{"status", "active"}}})) == 1);
  RawReply bad = good;
  bad.body = "{}";
  CHECK(look(bad) == 16);
  bad = good;
  bad.body = "{";
  CHECK(look(bad) == 1);
  bad = good;
  bad.status = 299;
  CHECK(look(bad) == 1);
  bad = good;
  bad.headers.erase("x-request-id");
  CHECK(look(bad) == 1);
  bad = good;
  bad.headers.erase("content-type");
  CHECK(look(bad) == 1);
  bad = good;
  bad.headers.emplace("claim-fence", "x");
  CHECK(look(bad) == 1);
  CHECK(file.unseen().count("get /v1/claims/{id}/ 200") == 0);
  CHECK(file.unseen().count("patch /v1/claims/{id}/ 409") == 1);
}
