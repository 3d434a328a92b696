/// PATCH /v1/claims/ID/: every cell of the table of changes, and who wins when many ask at once.

#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "service.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::StartsWith;

namespace {

constexpr double kTtl = 60;

const std::vector<std::string> kFinals{"released", "aborted", "revoked", "withdrawn"};

/// Makes a claim that stands as `from` says, on a resource of its own.
long made(const std::string& from) {
  const std::string name = fresh_name();
  const long first = service().claim(name, kTtl);
  if (from == "waiting") return service().claim(name, kTtl);
  if (from == "active") return first;
  if (from == "lapsed" || from == "expired")
    REQUIRE(service().patch(first, {{"ttl", 0}}).status == 200);
  if (from == "expired") service().claim(name, kTtl);
  if (std::count(kFinals.begin(), kFinals.end(), from) != 0)
    REQUIRE(service().patch(first, {{"status", from}}).status == 204);
  REQUIRE(service().status(first) == (from == "lapsed" ? "active" : from));
  return first;
}

Json change(const std::string& to) {
  return to == "ttl" ? Json{{"ttl", 33}} : Json{{"status", to}};
}

/// What must not change when a request is refused.
Json lasting(Json claim) {
  for (const char* running : {"ttl", "active_duration", "waiting_duration"}) claim.erase(running);
  return claim;
}

struct Cell {
  std::string from, to;
  int code;
  std::string after;  ///< "=": as it was
};

/// The table of changes. A waiting claim at the head of a free resource is not in it: such a claim
/// is promoted at once, so its client meets the row of active ones.
std::vector<Cell> cells() {
  std::vector<Cell> all{
      {"waiting", "active", 409, "="},
      {"waiting", "released", 400, "="},
      {"waiting", "aborted", 204, "aborted"},
      {"waiting", "revoked", 204, "revoked"},
      {"waiting", "withdrawn", 204, "withdrawn"},
      {"waiting", "ttl", 400, "="},
      {"active", "active", 200, "="},
      {"active", "released", 204, "released"},
      {"active", "aborted", 204, "aborted"},
      {"active", "revoked", 204, "revoked"},
      {"active", "withdrawn", 204, "withdrawn"},
      {"active", "ttl", 200, "="},
      {"lapsed", "active", 200, "="},
      {"lapsed", "released", 204, "released"},
      {"lapsed", "aborted", 204, "aborted"},
      {"lapsed", "revoked", 204, "revoked"},
      {"lapsed", "withdrawn", 204, "withdrawn"},
      {"lapsed", "ttl", 200, "="},
  };
  for (const char* from : {"released", "aborted", "revoked", "withdrawn", "expired"}) {
    for (const char* to : {"active", "released", "aborted", "revoked", "withdrawn", "ttl"})
      all.push_back({from, to, std::string(from) == to ? 204 : 400, "="});
  }
  return all;
}

/// Sends `request(i)` from so many threads in the same moment.
std::vector<Reply> at_once(int threads, const std::function<Reply(int)>& request) {
  std::vector<Reply> replies(static_cast<std::size_t>(threads));
  std::latch ready(threads);
  std::vector<std::jthread> crowd;
  for (int i = 0; i < threads; ++i) {
    crowd.emplace_back([&, i] {
      ready.arrive_and_wait();
      replies[static_cast<std::size_t>(i)] = request(i);
    });
  }
  crowd.clear();
  return replies;
}

}  // namespace

TEST_CASE("each state answers each change as the table says", "[server][patch]") {
  const Cell cell = GENERATE(from_range(cells()));
  INFO("from " << cell.from << " to " << cell.to);
  const long id = made(cell.from);
  const Json before = service().show(id);
  const Reply reply = service().patch(id, change(cell.to));
  INFO(reply.body);
  const Json after = service().show(id);
  CHECK(reply.status == cell.code);
  CHECK(after.at("status") == (cell.after == "=" ? before.at("status") : Json(cell.after)));
  if (cell.after != "=") {
    CHECK(after.at("ttl").is_null());
    CHECK(after.at("status_history").size() == before.at("status_history").size() + 1);
    CHECK(after.at("status_history").back().at("status") == cell.after);
  } else {
    CHECK(after.at("status_history") == before.at("status_history"));
  }
  const Json body = reply.json();
  switch (reply.status) {
    case 200:
      CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
      CHECK(lasting(body) == lasting(after));
      break;
    case 204:
      CHECK(reply.body.empty());
      break;
    case 400:
      CHECK(body.at("exception_class") == "InvalidRequest");
      CHECK_FALSE(body.at("message").get<std::string>().empty());
      CHECK(body.at("claim_id") == id);
      CHECK(body.at("status") == before.at("status"));
      CHECK(lasting(after) == lasting(before));
      break;
    case 409:
      CHECK(body.at("exception_class") == "ConflictException");
      CHECK_FALSE(body.at("message").get<std::string>().empty());
      CHECK(body.at("active_claim_id").is_number());
      CHECK(lasting(after) == lasting(before));
      break;
    default:
      FAIL("no other code is in the table");
  }
}

TEST_CASE("a conflict names the claim that is active", "[server][patch]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long second = service().claim(name);
  const long third = service().claim(name);
  for (const long id : {second, third})
    CHECK(service().patch(id, {{"status", "active"}}).json().at("active_claim_id") == owner);
}

TEST_CASE("a new ttl counts from now", "[server][patch]") {
  const long id = service().claim(fresh_name(), 60);
  for (const double ttl : {500.0, 20.0, 0.5}) {
    const Reply reply = service().patch(id, {{"ttl", ttl}});
    REQUIRE(reply.status == 200);
    CHECK(reply.json().at("ttl").get<double>() <= ttl);
    CHECK(reply.json().at("ttl").get<double>() > ttl - 10);
  }
}

TEST_CASE("a lapsed claim that is activated has its whole lease again", "[server][patch]") {
  const long id = made("lapsed");
  CHECK(service().show(id).at("ttl").get<double>() <= 0);
  const Reply reply = service().patch(id, {{"status", "active"}});
  REQUIRE(reply.status == 200);
  CHECK(reply.json().at("ttl").get<double>() > kTtl - 20);
  CHECK(service().show(id).at("ttl").get<double>() > kTtl - 20);
}

TEST_CASE("a lapsed claim is revived by a new ttl", "[server][patch]") {
  const std::string name = fresh_name();
  const long id = service().claim(name, 0);
  CHECK(service().patch(id, {{"ttl", 60}}).status == 200);
  CHECK(service().show(id).at("ttl").get<double>() > 40);
  CHECK(service().post(claim_body(name)).status == 202);
  CHECK(service().status(id) == "active");
}

TEST_CASE("repeats of a final status touch neither durations nor history", "[server][patch]") {
  const std::string final_status = GENERATE(from_range(kFinals));
  const long id = made(final_status);
  const Json first = service().show(id);
  CHECK(service().patch(id, {{"status", final_status}}).status == 204);
  CHECK(service().show(id) == first);
}

TEST_CASE("a change that cannot be understood is refused by its parameter", "[server][patch]") {
  const auto [body, key] = GENERATE(table<std::string, std::string>({
      {R"({})", "missing-parameters"},
      {R"({"status": "released", "ttl": 5})", "extra-parameters"},
      {R"({"status": "waiting"})", "status"},
      {R"({"status": "expired"})", "status"},
      {R"({"status": "RELEASED"})", "status"},
      {R"({"status": ""})", "status"},
      {R"({"status": null})", "missing-parameters"},
      {R"({"status": null, "ttl": 5})", "extra-parameters"},
      {R"({"status": 7})", "status"},
      {R"({"status": ["released"]})", "status"},
      {R"({"ttl": -1})", "ttl"},
      {R"({"ttl": null})", "ttl"},
      {R"({"ttl": true})", "ttl"},
      {R"({"ttl": "long"})", "ttl"},
      {R"({"ttl": []})", "ttl"},
      {R"({"ttl": 1e11})", "ttl"},
      {R"({"colour": "red"})", "colour"},
      {R"({"status": "released", "colour": "red"})", "colour"},
      {R"({"resource": "other"})", "resource"},
  }));
  CAPTURE(body, key);
  const long id = made("active");
  const Json before = lasting(service().show(id));
  const Reply reply = service().patch_text(id, body);
  INFO(reply.body);
  CHECK(reply.status == 400);
  CHECK(reply.json().contains(key));
  CHECK(lasting(service().show(id)) == before);
}

TEST_CASE("a change that is no JSON object is refused with a message", "[server][patch]") {
  const std::string body =
      GENERATE(as<std::string>{}, "", "{", "[]", "\"released\"", "null", "{\"ttl\": NaN}",
               "{\"ttl\": Infinity}", "{\"status\": \"\xff\"}", R"({"status": "\ud800"})");
  const long id = made("active");
  const Json before = lasting(service().show(id));
  const Reply reply = service().patch_text(id, body);
  CHECK(reply.status == 400);
  CHECK_FALSE(reply.json().value("message", "").empty());
  CHECK(lasting(service().show(id)) == before);
}

TEST_CASE("a change of a claim that does not exist is refused with 404", "[server][patch]") {
  const long id = 999999999;
  const Reply reply = service().patch(id, {{"status", "released"}});
  CHECK(reply.status == 404);
  CHECK(reply.json().at("exception_class") == "ClaimNotFound");
  CHECK(reply.json().contains("claim_id"));
}

TEST_CASE("a change is read before its claim is looked for", "[server][patch]") {
  const std::string body = GENERATE("{}", R"({"status": "waiting"})", R"({"ttl": -1})", "[");
  CHECK(service().patch_text(999999999, body).status == 400);
}

TEST_CASE("of many different ends at once exactly one wins", "[server][patch][race]") {
  for (int round = 0; round < 10; ++round) {
    const long id = made("active");
    const auto wish = [](int i) { return kFinals[static_cast<std::size_t>(i) % kFinals.size()]; };
    const std::vector<Reply> replies = at_once(16, [&](int i) {
      return service().patch(id, {{"status", wish(i)}});
    });
    const Json claim = service().show(id);
    const std::string won = claim.at("status");
    CHECK(claim.at("status_history").size() == 3);
    for (int i = 0; i < 16; ++i) {
      const Reply& reply = replies[static_cast<std::size_t>(i)];
      CHECK(reply.status == (wish(i) == won ? 204 : 400));
      if (reply.status == 400) CHECK(reply.json().at("status") == won);
    }
  }
}

TEST_CASE("of many different ends of a waiting claim exactly one wins", "[server][patch][race]") {
  const std::vector<std::string> ends{"aborted", "revoked", "withdrawn"};
  for (int round = 0; round < 10; ++round) {
    const long id = made("waiting");
    const auto wish = [&](int i) { return ends[static_cast<std::size_t>(i) % ends.size()]; };
    const std::vector<Reply> replies = at_once(16, [&](int i) {
      return service().patch(id, {{"status", wish(i)}});
    });
    const std::string won = service().status(id);
    for (int i = 0; i < 16; ++i)
      CHECK(replies[static_cast<std::size_t>(i)].status == (wish(i) == won ? 204 : 400));
  }
}

TEST_CASE("a claim that waits is told yes or not yet while its owner leaves",
          "[server][patch][race]") {
  for (int round = 0; round < 10; ++round) {
    const std::string name = fresh_name();
    const long owner = service().claim(name);
    const long waiter = service().claim(name);
    const std::vector<Reply> replies = at_once(16, [&](int i) {
      return i == 7 ? service().patch(owner, {{"status", "released"}})
                    : service().patch(waiter, {{"status", "active"}});
    });
    for (int i = 0; i < 16; ++i) {
      const int code = replies[static_cast<std::size_t>(i)].status;
      if (i == 7)
        CHECK(code == 204);
      else
        CHECK((code == 200 || code == 409));
    }
    CHECK(service().patch(waiter, {{"status", "active"}}).status == 200);
  }
}

TEST_CASE("of many claims on a free resource exactly one is granted", "[server][post][race]") {
  (void)service();  // it ends with the thread that starts it
  for (int round = 0; round < 5; ++round) {
    const std::string name = fresh_name();
    const std::vector<Reply> replies =
        at_once(16, [&](int) { return service().post(claim_body(name)); });
    int granted = 0;
    for (const Reply& reply : replies) {
      granted += reply.status == 201;
      CHECK((reply.status == 201 || reply.status == 202));
    }
    CHECK(granted == 1);
    CHECK(service().ids("limit=100&resource=" + percent(name)).size() == 16);
    CHECK(service().ids("status=active&resource=" + percent(name)).size() == 1);
  }
}
