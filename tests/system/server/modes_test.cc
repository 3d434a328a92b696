/// Shared and counted claims, and the numbers that fence them.

#include <catch2/catch.hpp>

#include "service.h"

using namespace holdfast::testing;

namespace {

Reply post_shared(const std::string& name) {
  Json body = claim_body(name);
  body["mode"] = "shared";
  return service().post(body);
}

Reply post_counted(const std::string& name, int count) {
  Json body = claim_body(name);
  body["count"] = count;
  return service().post(body);
}

void release(const Reply& claim) {
  CHECK(service().patch(id_of(claim.json()), {{"status", "released"}}).status == 204);
}

std::string status(const Reply& claim) {
  return service().status(id_of(claim.json()));
}

long fence(const Json& claim) {
  return claim.at("fence");
}

long highest_fence(const std::string& name) {
  const Reply reply = service().get("/v1/resources/" + percent(name) + "/fence");
  REQUIRE(reply.status == 200);
  CHECK(reply.json().at("name") == name);
  return reply.json().at("fence");
}

}  // namespace

TEST_CASE("shared claims are active together", "[server][modes]") {
  const std::string name = fresh_name();
  for (int i = 0; i < 3; ++i) {
    const Reply reply = post_shared(name);
    CHECK(reply.status == 201);
    CHECK(reply.json().at("mode") == "shared");
  }
}

TEST_CASE("an exclusive claim is alone", "[server][modes]") {
  const std::string name = fresh_name();
  const Reply exclusive = service().post(claim_body(name));
  CHECK(exclusive.json().at("mode") == "exclusive");
  const Reply shared = post_shared(name);
  CHECK(shared.status == 202);
  release(exclusive);
  CHECK(status(shared) == "active");
  CHECK(service().post(claim_body(name)).status == 202);
}

TEST_CASE("a queued exclusive claim stops later shared ones", "[server][modes]") {
  const std::string name = fresh_name();
  const Reply first = post_shared(name);
  const Reply second = post_shared(name);
  const Reply exclusive = service().post(claim_body(name));
  const Reply late = post_shared(name);
  const Reply later = post_shared(name);
  CHECK(exclusive.status == 202);
  CHECK(late.status == 202);
  release(first);
  CHECK(status(exclusive) == "waiting");
  release(second);
  CHECK(status(exclusive) == "active");
  CHECK(status(late) == "waiting");
  release(exclusive);
  CHECK(status(late) == "active");
  CHECK(status(later) == "active");
}

TEST_CASE("a withdrawn exclusive claim lets the shared ones behind it in", "[server][modes]") {
  const std::string name = fresh_name();
  post_shared(name);
  const Reply exclusive = service().post(claim_body(name));
  const Reply late = post_shared(name);
  CHECK(service().patch(id_of(exclusive.json()), {{"status", "withdrawn"}}).status == 204);
  CHECK(status(late) == "active");
}

TEST_CASE("lapsed sharers make way for an exclusive claim, not for each other", "[server][modes]") {
  const std::string name = fresh_name();
  Json body = claim_body(name, 0.2);
  body["mode"] = "shared";
  const Reply first = service().post(body);
  REQUIRE(eventually([&] { return service().show(id_of(first.json())).at("ttl") <= 0; }));
  const Reply second = service().post(body);
  CHECK(second.status == 201);
  CHECK(status(first) == "active");
  REQUIRE(eventually([&] { return service().show(id_of(second.json())).at("ttl") <= 0; }));
  CHECK(service().post(claim_body(name)).status == 201);
  CHECK(status(first) == "expired");
  CHECK(status(second) == "expired");
}

TEST_CASE("as many counted claims are active as they allow", "[server][modes]") {
  const std::string name = fresh_name();
  const Reply first = post_counted(name, 2);
  const Reply second = post_counted(name, 2);
  const Reply third = post_counted(name, 2);
  CHECK(first.status == 201);
  CHECK(first.json().at("mode") == "counted");
  CHECK(first.json().at("count") == 2);
  CHECK(second.status == 201);
  CHECK(third.status == 202);
  release(first);
  CHECK(status(third) == "active");
  CHECK(post_counted(name, 2).status == 202);
}

TEST_CASE("a lapsed counted claim makes way for one that waits", "[server][modes]") {
  const std::string name = fresh_name();
  Json body = claim_body(name, 0.2);
  body["count"] = 2;
  const Reply lapsing = service().post(body);
  const Reply lasting = post_counted(name, 2);
  const Reply waiter = post_counted(name, 2);
  CHECK(eventually([&] { return status(waiter) == "active"; }));
  CHECK(status(lapsing) == "expired");
  CHECK(status(lasting) == "active");
}

TEST_CASE("claims are listed by mode", "[server][modes]") {
  const std::string name = fresh_name();
  const long shared = id_of(post_shared(name).json());
  const long exclusive = service().claim(name);
  const std::string only = "resource=" + percent(name) + "&mode=";
  CHECK(service().ids(only + "shared") == std::vector{shared});
  CHECK(service().ids(only + "exclusive") == std::vector{exclusive});
  CHECK(service().get("/v1/claims/?mode=odd").status == 400);
}

TEST_CASE("a mode or count that makes no sense is refused by its name", "[server][modes]") {
  const auto [key, value] = GENERATE(table<std::string, std::string>({{"mode", "\"odd\""},
                                                                      {"mode", "1"},
                                                                      {"mode", "null"},
                                                                      {"count", "0"},
                                                                      {"count", "-1"},
                                                                      {"count", "1.5"},
                                                                      {"count", "true"},
                                                                      {"count", "[]"},
                                                                      {"count", "1e30"}}));
  CAPTURE(key, value);
  Json body = claim_body(fresh_name());
  body[key] = Json::parse(value);
  const Reply reply = service().post(body);
  CHECK(reply.status == 400);
  CHECK(reply.json().contains(key));
}

TEST_CASE("mode and count do not go together", "[server][modes]") {
  Json body = claim_body(fresh_name());
  body["mode"] = "shared";
  body["count"] = 2;
  CHECK(service().post(body).status == 400);
}

TEST_CASE("every grant of a resource has a higher fence than the one before", "[server][fence]") {
  const std::string name = fresh_name();
  CHECK(highest_fence(name) == 0);
  long last = 0;
  for (int i = 0; i < 5; ++i) {
    const Reply granted = service().post(claim_body(name));
    REQUIRE(granted.status == 201);
    CHECK(fence(granted.json()) > last);
    last = fence(granted.json());
    CHECK(granted.header("claim-fence") == std::to_string(last));
    CHECK(highest_fence(name) == last);
    const Reply queued = service().post(claim_body(name));
    CHECK(queued.json().at("fence").is_null());
    CHECK_FALSE(queued.has("claim-fence"));
    release(granted);
    const Reply activated = service().patch(id_of(queued.json()), {{"status", "active"}});
    CHECK(activated.header("claim-fence") == activated.json().at("fence").dump());
    CHECK(fence(activated.json()) > last);
    last = fence(activated.json());
    release(queued);
  }
}

TEST_CASE("a claim keeps its fence while it is renewed", "[server][fence]") {
  const Reply granted = service().post(claim_body(fresh_name()));
  const Reply renewed = service().patch(id_of(granted.json()), {{"ttl", 70}});
  CHECK(fence(renewed.json()) == fence(granted.json()));
  CHECK(renewed.header("claim-fence") == granted.header("claim-fence"));
}

TEST_CASE("an expiry raises the fence", "[server][fence]") {
  const std::string name = fresh_name();
  const long before = fence(service().show(service().claim(name, 0)));
  const Reply rival = service().post(claim_body(name));
  REQUIRE(rival.status == 201);
  CHECK(fence(rival.json()) > before);
}

TEST_CASE("sharers have fences of their own", "[server][fence]") {
  const std::string name = fresh_name();
  long last = 0;
  for (int i = 0; i < 3; ++i) {
    const long next = fence(post_shared(name).json());
    CHECK(next > last);
    last = next;
  }
  CHECK(highest_fence(name) == last);
}

TEST_CASE("a fence is found by names of any kind", "[server][fence]") {
  const std::string name = fresh_name() + GENERATE("/a/b", "?x=1&y", "%2F", "\xc3\xa9", "#", " ");
  service().claim(name);
  CHECK(highest_fence(name) > 0);
}
