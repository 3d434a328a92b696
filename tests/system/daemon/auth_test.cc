#include "routes/auth.h"

#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <set>

#include "program.h"
#include "routes/origin.h"

using namespace holdfast;
using namespace holdfast::testing;
using namespace std::chrono_literals;

namespace {

/// A request that would be served, by the operations of the API's own description.
struct Offer {
  std::string method, path, target, body;
  unsigned scope;  ///< that it needs
};

/// What each operation needs. One that is new in the description and not here fails the test.
const std::vector<Offer> kOffers{
    {"get", "/v1/claims/", "/v1/claims/", "", routes::read},
    {"post", "/v1/claims/", "/v1/claims/", R"({"resource": "new", "ttl": 60})", routes::claim},
    {"get", "/v1/claims/{id}/", "/v1/claims/1/", "", routes::read},
    {"patch", "/v1/claims/{id}/", "/v1/claims/1/", R"({"ttl": 61})", routes::claim},
    {"get", "/v1/resources/", "/v1/resources/", "", routes::read},
    {"get", "/v1/resources/{name}/queue", "/v1/resources/held/queue", "", routes::read},
    {"get", "/v1/resources/{name}/fence", "/v1/resources/held/fence", "", routes::read},
    {"get", "/v1/events", "/v1/events", "", routes::read},
    {"post", "/v1/admin/revoke", "/v1/admin/revoke", R"({"reason": "r", "resource": "held"})",
     routes::admin},
    {"get", "/v1/stats", "/v1/stats", "", routes::read},
    {"get", "/v1/whoami", "/v1/whoami", "", routes::read},
    {"get", "/metrics", "/metrics", "", routes::read},
    {"get", "/v1/openapi.json", "/v1/openapi.json", "", routes::none},
    {"get", "/healthz", "/healthz", "", routes::none},
    {"get", "/readyz", "/readyz", "", routes::none},
    {"get", "/", "/", "", routes::none},
};

std::string upper(std::string text) {
  for (char& c : text) c = static_cast<char>(std::toupper(c));
  return text;
}

/// A server with tokens, and one claim of "owner" on "held".
struct Guarded {
  TempDir dir;
  std::string file = dir / "tokens";
  std::string owner = new_token(file, "owner");
  std::string other = new_token(file, "other");
  std::string reader = new_token(file, "reader", "read");
  std::string admin = new_token(file, "boss", "admin");
  Program server{{"--tokens", file}};
  long held = server.claim("held", 60, bearer(owner));

  Reply patch(const std::string& token, const std::string& body) const {
    return server.ask("PATCH", path_of(held), body, bearer(token));
  }
  /// All that a refused request could have changed.
  std::string state() const {
    Json list = server.ask("GET", "/v1/claims/?limit=1000", "", bearer(admin)).json();
    for (Json& claim : list) {
      for (const char* runs : {"ttl", "active_duration", "waiting_duration"}) claim.erase(runs);
    }
    return list.dump();
  }
};

void check_refused(const Reply& reply, int status, bool has_body = true) {
  CHECK(reply.status == status);
  if (status == 401) CHECK(reply.header("www-authenticate") == "Bearer realm=\"holdfast\"");
  if (has_body) {
    CHECK(reply.header("content-type") == "application/json");
    CHECK(reply.json().is_object());
    CHECK(reply.json().contains("message"));
  }
}

}  // namespace

TEST_CASE("every operation of the API is let in by its scope alone", "[daemon][auth]") {
  const Guarded it;
  std::set<std::string> described;
  const Json api = it.server.ask("GET", "/v1/openapi.json").json();
  for (const auto& [path, methods] : api.at("paths").items()) {
    for (const auto& [method, unused] : methods.items()) {
      if (method != "parameters") described.insert(method + " " + path);
    }
  }
  std::set<std::string> offered;
  for (const Offer& offer : kOffers) offered.insert(offer.method + " " + offer.path);
  CHECK(described == offered);

  const std::string before = it.state();
  const std::string expired = new_token(it.file, "late", "admin", {"--expires", "1"});
  const std::string in_time = new_token(it.file, "in-time");
  it.server.signal(SIGHUP);
  const std::string secret = it.admin.substr(it.admin.find('.'));
  const auto status_of = [&](const std::string& token) {
    return it.server.ask("GET", "/v1/whoami", "", bearer(token)).status;
  };
  REQUIRE(eventually([&] { return status_of(in_time) == 200; }));  // they have been read
  REQUIRE(eventually([&] { return status_of(expired) == 401; }));
  const std::vector<std::string> none{
      "",
      "Authorization: Basic Ym9zczpib3Nz\r\n",
      "Authorization: Bearer\r\n",
      "Authorization: Bearer \r\n",
      "Authorization:\r\n",
      "Authorization: Bearer  \t \r\n",
      "Authorization: " + it.admin + "\r\n",
      bearer("boss"),
      bearer("boss."),
      bearer(secret),
      bearer(std::string("boss.") + (secret[1] == '0' ? '1' : '0') + secret.substr(2)),
      bearer(it.admin + "0"),
      bearer(it.admin.substr(0, it.admin.size() - 1)),
      bearer("nobody" + secret),
      bearer("owner" + secret),
      bearer("Boss" + secret),
      bearer("\xff\xfe.\x80"),
      bearer(std::string(9000, 'x') + secret),
      bearer(expired)};
  for (const Offer& offer : kOffers) {
    const std::string method = upper(offer.method);
    INFO(method << " " << offer.target);
    const bool is_open = offer.scope == routes::none;
    for (const std::string& fields : none) {
      INFO(fields);
      const Reply reply = it.server.ask(method, offer.target, offer.body, fields);
      if (is_open) {
        CHECK(reply.status == 200);
      } else {
        check_refused(reply, 401);
      }
      const Reply options = it.server.ask("OPTIONS", offer.target, "", fields);
      CHECK(options.status == (is_open ? 204 : 401));
      if (offer.method != "get") continue;
      const Reply head = it.server.ask("HEAD", offer.target, "", fields);
      CHECK(head.status == (is_open ? 200 : 401));
      CHECK(head.has("www-authenticate") == !is_open);
    }
    if (offer.scope == routes::claim || offer.scope == routes::admin) {
      check_refused(it.server.ask(method, offer.target, offer.body, bearer(it.reader)), 403);
    }
    if (offer.scope == routes::admin) {
      check_refused(it.server.ask(method, offer.target, offer.body, bearer(it.owner)), 403);
    }
    CHECK(it.server.ask("OPTIONS", offer.target, "", bearer(it.reader)).status == 204);
    CHECK(it.server.ask("DELETE", offer.target, "", bearer(it.admin)).status == 405);
    check_refused(it.server.ask("DELETE", offer.target), is_open ? 405 : 401);
  }
  CHECK(it.state() == before);

  // And the same requests by those who may.
  for (const Offer& offer : kOffers) {
    if (offer.path == "/v1/events") continue;  // has no end
    INFO(offer.method << " " << offer.target);
    const std::string& token = offer.scope == routes::admin   ? it.admin
                               : offer.scope == routes::claim ? it.owner
                                                              : it.reader;
    const Reply reply = it.server.ask(upper(offer.method), offer.target, offer.body, bearer(token));
    CHECK(reply.status / 100 == 2);
  }
}

TEST_CASE("a claim is changed by its creator or an admin only", "[daemon][auth]") {
  const Guarded it;
  for (const char* body : {R"({"ttl": 5})", R"({"status": "released"})", R"({"status": "active"})",
                           R"({"status": "revoked"})"}) {
    INFO(body);
    const Reply reply = it.patch(it.other, body);
    check_refused(reply, 403);
  }
  CHECK(it.patch(it.owner, R"({"ttl": 100})").json()["owner"] == "owner");
  CHECK(it.patch(it.admin, R"({"ttl": 100})").json()["owner"] == "owner");
  // What makes no sense makes none for others too, and of what is not there nobody is the owner.
  CHECK(it.patch(it.other, R"({"tl": 100})").status == 400);
  CHECK(it.server.ask("PATCH", path_of(it.held + 99), R"({"ttl": 5})", bearer(it.other)).status ==
        404);
  const long waiting = it.server.claim("held", 60, bearer(it.other));
  CHECK(it.server.ask("PATCH", path_of(waiting), R"({"status": "withdrawn"})", bearer(it.owner))
            .status == 403);
  CHECK(it.patch(it.admin, R"({"status": "revoked"})").status == 204);
  CHECK(it.server.ask("GET", path_of(waiting), "", bearer(it.reader)).json()["status"] == "active");
}

TEST_CASE("an idempotency key is its owner's", "[daemon][auth]") {
  const Guarded it;
  const std::string key = "Idempotency-Key: 4711\r\n";
  const long one = it.server.claim("keyed", 60, bearer(it.owner) + key);
  CHECK(it.server.claim("keyed", 60, bearer(it.owner) + key) == one);
  const long two = it.server.claim("keyed", 60, bearer(it.other) + key);
  CHECK(two != one);
  const Reply misused =
      it.server.ask("POST", "/v1/claims/", claim_text("else"), bearer(it.owner) + key);
  CHECK(misused.status == 400);
  CHECK(it.server.claim("else", 60, bearer(it.admin) + key) > two);
}

TEST_CASE("a name may have several tokens, and each is revoked by itself", "[daemon][auth]") {
  const Guarded it;
  const std::string second = new_token(it.file, "owner", "read");
  it.server.signal(SIGHUP);
  REQUIRE(eventually(
      [&] { return it.server.ask("GET", "/v1/whoami", "", bearer(second)).status == 200; }));
  const Json who = it.server.ask("GET", "/v1/whoami", "", bearer(second)).json();
  CHECK(who["name"] == "owner");
  CHECK(who["scopes"] == Json{"read"});
  CHECK(it.patch(second, R"({"ttl": 5})").status == 403);
  CHECK(it.patch(it.owner, R"({"ttl": 5})").status == 200);

  // The first of the file is the first of "owner".
  const std::string all = read_file(it.file);
  write_file(it.file, all.substr(all.find('\n') + 1));
  it.server.signal(SIGHUP);
  REQUIRE(eventually([&] { return it.patch(it.owner, R"({"ttl": 5})").status == 401; }));
  CHECK(it.server.ask("GET", "/v1/whoami", "", bearer(second)).status == 200);
}

TEST_CASE("the file of tokens has no secret in it and is its owner's alone", "[daemon][auth]") {
  TempDir dir;
  const std::string file = dir / "tokens";
  const std::string token = new_token(file, "me.and@you", "claim,read,admin", {"--expires", "90"});
  const std::string secret = token.substr(token.rfind('.') + 1);
  CHECK(token.starts_with("me.and@you."));
  CHECK(secret.size() == 64);
  const std::string text = read_file(file);
  CHECK(text.starts_with("me.and@you read,claim,admin "));
  CHECK(text.find(secret) == std::string::npos);
  CHECK(text.find(secret.substr(0, 16)) == std::string::npos);
  struct stat about {};
  REQUIRE(stat(file.c_str(), &about) == 0);
  CHECK((about.st_mode & 07777) == 0600);
  CHECK(new_token(file, "me.and@you") != token);

  // What an editor left without an end is not spoilt.
  write_file(file, text.substr(0, text.size() - 1));
  const std::string later = new_token(file, "later");
  const Program server({"--tokens", file});
  CHECK(server.ask("GET", "/v1/whoami", "", bearer(token)).status == 200);
  CHECK(server.ask("GET", "/v1/whoami", "", bearer(later)).status == 200);
}

TEST_CASE("a malformed file of tokens is refused with the number of the line", "[daemon][auth]") {
  TempDir dir;
  const std::string file = dir / "tokens";
  const std::string token = new_token(file, "me");
  const std::string good = read_file(file);
  const std::string hex(64, 'a');
  const std::string bad = GENERATE_COPY(
      std::string("me"), "me read - " + hex, "me read - " + hex + " " + hex + " more",
      "me write - " + hex + " " + hex, "me read soon " + hex + " " + hex,
      "me read -1 " + hex + " " + hex, "m/e read - " + hex + " " + hex, "me , - " + hex + " " + hex,
      "me read - " + hex + " " + hex.substr(1), "me read - " + hex + " " + hex.substr(1) + "g",
      "me read - " + hex + " " + hex + "\r", std::string(1, '\0'));
  write_file(file, "# ours\n\n" + good + bad + "\n");
  const Result result =
      run({"holdfastd", "--listen", "127.0.0.1:0", "--store", "memory:", "--tokens", file});
  INFO(bad);
  CHECK(result.code == 1);
  CHECK(result.out.empty());
  CHECK(result.err.find(file + ": line 4 ") != std::string::npos);

  // A running server keeps what it has.
  write_file(file, good);
  const Program server({"--tokens", file});
  write_file(file, good + bad + "\n");
  server.signal(SIGHUP);
  CHECK(server.has_complained(file + ": line 2 "));
  CHECK(server.ask("GET", "/v1/whoami", "", bearer(token)).status == 200);
  write_file(file, good);
}

TEST_CASE("an open stream ends with its token, a request that waits does not", "[daemon][auth]") {
  const Guarded it;
  RawClient stream(it.server.address());
  RawClient kept(it.server.address());
  RawClient parked(it.server.address());
  for (auto& [client, token] : {std::pair{&stream, it.other}, {&kept, it.reader}}) {
    client->send(request_text("GET", "/v1/events", "", bearer(token)));
  }
  parked.send(request_text("POST", "/v1/claims/", claim_text("held"),
                           bearer(it.other) + "Prefer: wait=60\r\n"));
  const auto is_parked = [&] {
    return it.server.ask("GET", "/v1/stats", "", bearer(it.reader)).json()["parked"] == 1;
  };
  REQUIRE(eventually(is_parked));
  REQUIRE(eventually([&] {
    const Reply metrics = it.server.ask("GET", "/metrics", "", bearer(it.reader));
    return metrics.body.find("holdfast_event_listeners 2\n") != std::string::npos;
  }));

  std::string rest;
  std::istringstream lines(read_file(it.file));
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("other ")) rest += line + "\n";
  }
  write_file(it.file, rest);
  it.server.signal(SIGHUP);
  const auto ended = stream.read_reply();
  REQUIRE(ended);
  CHECK(ended->status == 200);
  CHECK(it.server.ask("GET", "/v1/whoami", "", bearer(it.other)).status == 401);
  CHECK(is_parked());
  CHECK(it.patch(it.owner, R"({"status": "released"})").status == 204);
  const auto answer = parked.read_reply();
  REQUIRE(answer);
  CHECK(answer->status == 201);
  CHECK_FALSE(kept.read_reply(false, 100ms));
}

TEST_CASE("comparing takes the same way for names that are unknown", "[daemon][auth]") {
  // Timing is noise here; what can be promised is the way the code takes.
  const std::string code = read_file(source_dir() + "/src/routes/auth.cc");
  CHECK(code.find("CRYPTO_memcmp") != std::string::npos);
  CHECK(code.find("if (!was_compared) (void)hash_of(") != std::string::npos);
  CHECK(code.find(".hash ==") == std::string::npos);

  TempDir dir;
  const std::string token = new_token(dir / "tokens", "me");
  const auto tokens = std::get<routes::Tokens>(routes::Tokens::load(dir / "tokens"));
  CHECK(tokens.find(token, 0s));
  for (std::size_t i = 0; i < token.size(); ++i) {
    std::string wrong = token;
    wrong[i] = wrong[i] == '0' ? '1' : '0';
    CHECK_FALSE(tokens.find(wrong, 0s));
  }
}

TEST_CASE("over a unix socket the kernel says who it is", "[daemon][auth]") {
  if (!is_root()) SKIP_TEST("only root can be others");
  const bool has_tokens = GENERATE(false, true);
  TempDir dir;
  chmod(dir.path().c_str(), 0755);
  const std::string file = dir / "tokens";
  const std::string token = new_token(file, "me", "read");
  Words words{"--listen", "unix:" + dir / "socket"};
  if (has_tokens) words.insert(words.end(), {"--tokens", file});
  const Program server(words);
  const std::string nobody = "setpriv --reuid 65534 --clear-groups curl -sS -m 10 --unix-socket " +
                             dir / "socket" + " -H 'Content-Type: application/json' ";

  const Json root = server.ask("GET", "/v1/whoami").json();
  CHECK(root["name"] == "uid:0");
  CHECK(root["scopes"] == Json{"read", "claim", "admin"});
  const long ours = server.claim("ours");
  if (!has_program("curl")) SKIP_TEST("no curl");
  const auto as_nobody = [&](const std::string& words_of_curl) {
    const Result result = shell(nobody + words_of_curl);
    INFO(result.err);
    CHECK(result.code == 0);
    return Json::parse(result.out, nullptr, false);
  };
  const Json who = as_nobody("http://localhost/v1/whoami");
  CHECK(who["name"] == "uid:65534");
  CHECK(who["scopes"] == Json{"read", "claim"});
  const Json theirs = as_nobody(R"(-d '{"resource": "theirs", "ttl": 60}' http://x/v1/claims/)");
  CHECK(theirs["owner"] == "uid:65534");
  CHECK(theirs["url"] == "http://x" + path_of(theirs["id"]));
  const std::string status_only = "-o /dev/null -w '%{http_code}' ";
  CHECK(as_nobody(status_only + R"(-X PATCH -d '{"ttl": 9}' http://x)" + path_of(ours)) == 403);
  CHECK(as_nobody(status_only + R"(-X PATCH -d '{"ttl": 9}' http://x)" + path_of(theirs["id"])) ==
        200);
  CHECK(as_nobody(status_only + R"(-d '{"reason": "r", "status": "active"}' )" +
                  "http://x/v1/admin/revoke") == 403);
  CHECK(server.ask("PATCH", path_of(theirs["id"]), R"({"ttl": 9})").status == 200);

  // A token that is shown counts, the good and the bad.
  const Reply shown = server.ask("GET", "/v1/whoami", "", bearer(token));
  CHECK(shown.json()["name"] == (has_tokens ? "me" : "uid:0"));
  CHECK(server.ask("GET", "/v1/whoami", "", bearer("me.0")).status == (has_tokens ? 401 : 200));
}

TEST_CASE("a page is foreign if it is not from the server, or the server's name is no safe one",
          "[daemon][auth]") {
  struct Case {
    std::string host, field, value;
    bool is_foreign, is_foreign_to_all;
  };
  std::array<char, 256> own{};
  REQUIRE(gethostname(own.data(), own.size() - 1) == 0);
  const std::string name = own.data();
  const std::vector<Case> cases{
      {"127.0.0.1:8420", "", "", false, false},
      {"evil.example:8420", "", "", false, false},  // a program, whatever it calls us
      {"127.0.0.1:8420", "Origin", "http://127.0.0.1:8420", false, false},
      {"[::1]:8420", "Origin", "http://[::1]:8420", false, false},
      {"[::1]", "Origin", "https://[::1]", false, false},
      {"localhost:8420", "Origin", "http://localhost:8420", false, false},
      {"LocalHost:8420", "Origin", "http://localhost:8420", false, false},
      {"locks.localhost", "Origin", "http://locks.localhost", false, false},
      {name, "Origin", "http://" + name, false, false},
      {"127.0.0.1:8420", "Sec-Fetch-Site", "same-origin", false, false},
      {"127.0.0.1:8420", "Sec-Fetch-Site", "none", false, false},
      {"127.0.0.1:8420", "Sec-Fetch-Site", "cross-site", true, true},
      {"127.0.0.1:8420", "Origin", "http://evil.example", true, true},
      {"127.0.0.1:8420", "Origin", "http://127.0.0.1:9000", true, true},
      {"127.0.0.1:8420", "Origin", "http://127.0.0.1:84200", true, true},
      {"127.0.0.1:8420", "Origin", "null", true, true},
      {"127.0.0.1:8420", "Origin", "", true, true},
      {"localhost:8420", "Origin", "http://127.0.0.1:8420", true, true},
      {"", "Origin", "http://", true, false},
      {"evil.example:8420", "Origin", "http://evil.example:8420", true, false},
      {"localhost.evil.example", "Origin", "http://localhost.evil.example", true, false},
      {"127.0.0.1.evil.example", "Origin", "http://127.0.0.1.evil.example", true, false},
      {"notlocalhost", "Origin", "http://notlocalhost", true, false},
      {name + ".evil.example", "Origin", "http://" + name + ".evil.example", true, false},
  };
  for (const Case& one : cases) {
    http::Request request;
    request.start("POST", "/v1/claims/", 11);
    request.add_header("Host", one.host);
    if (!one.field.empty()) request.add_header(one.field, one.value);
    CAPTURE(one.host, one.field, one.value);
    CHECK(routes::is_of_foreign_page(request, false) == one.is_foreign);
    CHECK(routes::is_of_foreign_page(request, true) == one.is_foreign_to_all);
    // Nobody lets a name mean a unix socket.
    request.set_peer({"unix", true, 1000}, http::Scheme::http);
    CHECK(routes::is_of_foreign_page(request, false) == one.is_foreign_to_all);
  }
}

TEST_CASE("a foreign page changes nothing where no token is needed", "[daemon][auth]") {
  const std::string evil = "Origin: http://evil.example\r\n";
  const Program open;
  const long held = open.claim("held");
  const std::string revoke = R"({"reason": "r", "resource": "held"})";
  for (const Reply& reply : {open.ask("POST", "/v1/claims/", claim_text("new"), evil),
                             open.ask("PATCH", path_of(held), R"({"status": "released"})", evil),
                             open.ask("POST", "/v1/admin/revoke", revoke, evil)}) {
    CHECK(reply.status == 403);
    CHECK_FALSE(reply.json().value("message", "").empty());
  }
  CHECK(open.ask("GET", "/v1/claims/", "", evil).json().size() == 1);
  CHECK(open.ask("GET", path_of(held)).json().at("status") == "active");
  CHECK(open.ask("POST", "/v1/claims/", claim_text("held")).status == 202);
  const Guarded guarded;
  CHECK(guarded.server.ask("POST", "/v1/claims/", claim_text("new"), bearer(guarded.owner) + evil)
            .status == 201);
}

TEST_CASE("nobody listens to other hosts without tokens by accident", "[daemon][auth]") {
  for (const char* where : {"0.0.0.0:0", "[::]:0", "192.0.2.1:0"}) {
    const Result result = run({"holdfastd", "--store", "memory:", "--listen", where});
    INFO(where);
    CHECK(result.code == 10);
    CHECK(result.out.empty());
    CHECK(result.err.find("--no-auth") != std::string::npos);
  }
  TempDir dir;
  (void)new_token(dir / "tokens", "me");
  const bool has_tokens = GENERATE(false, true);
  Words words{"--listen", "0.0.0.0:0", "--no-auth"};
  if (has_tokens) words = {"--listen", "0.0.0.0:0", "--tokens", dir / "tokens"};
  const Program server(words);
  const std::string port = server.address().substr(server.address().rfind(':'));
  const Reply reply = ask("http://127.0.0.1" + port, "GET", "/v1/stats");
  CHECK(reply.status == (has_tokens ? 401 : 200));
}
