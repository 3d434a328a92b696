#include "wire/claim_object.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace holdfast::wire::testing {
namespace {

using claims::Mode;
using claims::Stamp;
using claims::Status;
using claims::View;
using namespace std::chrono_literals;

/// A claim that was active and was then revoked, with every field set.
View revoked() {
  View view;
  claims::Claim& claim = view.claim;
  claim.id = 7;
  claim.resource = "a \"b\": \\ \n, \xC3\xA4\x7F";
  claim.owner = "o,w:n";
  claim.user_data = R"({"job":[1,2.50,"x"]})";
  claim.reason = "the board is \"out\"";
  claim.ttl = 1500ms;
  claim.waiting_ttl = 30s;
  claim.mode = Mode::counted;
  claim.status = Status::revoked;
  claim.count = 3;
  claim.fence = 12;
  claim.queued = {10s, 1700000000s};
  claim.activated = {12500ms, 1700000002s};
  claim.ended = {20s, 1700000010s};
  claim.deadline = 30s;
  return view;
}

std::string text_of(const View& view, Stamp now, std::string_view base = "http://h/v1/claims/") {
  std::string text;
  put_claim(text, view, now, base);
  return text;
}

TEST_CASE("a claim object keeps its bytes", "[wire]") {
  View view;
  view.claim.id = 1;
  view.claim.resource = "gpu0,a:b";
  view.claim.ttl = 60s;
  view.claim.queued = {5s, 1700000000s};
  view.position = 2;
  CHECK(
      text_of(view, {7250ms, 1700000002s}) ==
      R"({"id": 1, "url": "http://h/v1/claims/1/", "resource": "gpu0,a:b", "status": "waiting", )"
      R"("created": "Tue, 14 Nov 2023 22:13:20 -0000", "user_data": null, "ttl": null, )"
      R"("active_duration": null, "waiting_duration": 2.25, "status_history": [{"status": "waiting", )"
      R"("timestamp": "Tue, 14 Nov 2023 22:13:20 -0000"}], "owner": null, "mode": "exclusive", )"
      R"("fence": null, "position": 2, "initial_ttl": 60, "waiting_ttl": null})");
}

TEST_CASE("a claim object is appended, and without a base it has no url", "[wire]") {
  std::string text = "[";
  put_claim(text, revoked(), {40s, 0s}, {});
  CHECK(text.starts_with("[{\"id\": 7, \"resource\": "));
  CHECK(nlohmann::json::parse(text + "]").at(0).contains("url") == false);
}

TEST_CASE("what is written of a claim is read back", "[wire]") {
  const View view = revoked();
  const auto read = parse_claim_object(text_of(view, {40s, 0s}));
  REQUIRE(read);
  CHECK(read->id == 7);
  CHECK(read->url == "http://h/v1/claims/7/");
  CHECK(read->resource == view.claim.resource);
  CHECK(read->status == Status::revoked);
  CHECK(read->mode == Mode::counted);
  CHECK(read->count == 3);
  CHECK(read->user_data == view.claim.user_data);
  CHECK_FALSE(read->ttl);
  CHECK(read->active_duration == 7.5);
  CHECK(read->waiting_duration == 2.5);
  CHECK(read->fence == 12);
  CHECK(read->position == 0);
  CHECK(read->has_position);
  CHECK(read->owner == "o,w:n");
  CHECK(read->created == "Tue, 14 Nov 2023 22:13:20 -0000");
  CHECK(read->initial_ttl == 1.5);
  REQUIRE(read->history.size() == 3);
  CHECK(read->history[0].status == Status::waiting);
  CHECK(read->history[1].status == Status::active);
  CHECK(read->history[1].timestamp == "Tue, 14 Nov 2023 22:13:22 -0000");
  CHECK(read->history[1].reason.empty());
  CHECK(read->history[2].status == Status::revoked);
  CHECK(read->history[2].reason == view.claim.reason);
}

TEST_CASE("an active claim tells the rest of its lease, also a lapsed one", "[wire]") {
  View view = revoked();
  view.claim.status = Status::active;
  CHECK(parse_claim_object(text_of(view, {29750ms, 0s}))->ttl == 0.25);
  CHECK(parse_claim_object(text_of(view, {31s, 0s}))->ttl == -1);
}

TEST_CASE("bytes that are not UTF-8 do not spoil the object", "[wire]") {
  View view = revoked();
  view.claim.resource = "a\xFF\xC3";
  view.claim.owner = "\xED\xA0\x80";
  const auto read = parse_claim_object(text_of(view, {40s, 0s}));
  REQUIRE(read);
  CHECK(read->resource == "a??");
  CHECK(read->owner == "???");
}

TEST_CASE("large user data is written whole, and does not disturb the next object", "[wire]") {
  View view = revoked();
  view.claim.user_data = '"' + std::string(1 << 20, 'x') + '"';
  CHECK(parse_claim_object(text_of(view, {40s, 0s}))->user_data == view.claim.user_data);
  CHECK(parse_claim_object(text_of(revoked(), {40s, 0s}))->user_data == revoked().claim.user_data);
}

TEST_CASE("the object of a plain v1 server is read with defaults", "[wire]") {
  const auto read = parse_claim_object(
      R"({"url": "https://h:8/base/v1/claims/4711/?x=1", "resource": "r", "status": "active",
          "created": "Mon, 16 Nov 2026 00:01:56 -0000", "user_data": [1, {"a": null}], "ttl": 59.98,
          "active_duration": 0.02, "waiting_duration": 0, "status_history": []})");
  REQUIRE(read);
  CHECK(read->id == 4711);
  CHECK(read->status == Status::active);
  CHECK(read->mode == Mode::exclusive);
  CHECK(read->ttl == 59.98);
  CHECK(read->user_data == R"([1,{"a":null}])");
  CHECK(read->fence == 0);
  CHECK_FALSE(read->has_position);
  CHECK(read->initial_ttl == 0);
  CHECK(read->history.empty());
}

TEST_CASE("the id comes from the url only if the url ends in a number", "[wire]") {
  const auto id = [](const std::string& url) {
    return parse_claim_object(R"({"status": "waiting", "url": ")" + url + "\"}")->id;
  };
  CHECK(id("/v1/claims/12/") == 12);
  CHECK(id("/v1/claims/12") == 12);
  CHECK(id("/v1/claims/12#a") == 12);
  CHECK(id("12") == 0);
  CHECK(id("") == 0);
  CHECK(id("/v1/claims/") == 0);
  CHECK(id("/v1/claims/-1/") == 0);
  CHECK(id("/v1/claims/99999999999999999999999/") == 0);
}

TEST_CASE("a text that is no claim object is refused", "[wire]") {
  const auto text = GENERATE(
      as<std::string>(), "", "null", "[]", "{}", "<html></html>", R"({"status": "Active"})",
      R"({"status": 1})", R"({"status": null})", R"({"status": ["active"]})",
      R"({"status": "unknown"})", R"({"status": "active")", R"({"status": "active"} x)",
      R"([{"status": "active"}])", "{\"status\": \"active\", \"resource\": \"\xFF\"}",
      R"({"status": "active", "ttl": 1e999})", R"({"status": "active", "status": 3})");
  INFO(text);
  CHECK_FALSE(parse_claim_object(text));
}

TEST_CASE("a hostile object gets defaults where a type or a size is wrong", "[wire]") {
  const auto read = parse_claim_object(
      R"({"status": "active", "id": "7", "url": 5, "resource": {}, "mode": "odd", "count": 99999999999,
          "ttl": "60", "active_duration": true, "waiting_duration": null, "fence": -1,
          "position": 1.5, "owner": [], "created": 0, "initial_ttl": "x",
          "status_history": {"a": 1}, "other": [[[[]]]]})");
  REQUIRE(read);
  CHECK(read->id == 0);
  CHECK(read->url.empty());
  CHECK(read->resource.empty());
  CHECK(read->mode == Mode::exclusive);
  CHECK(read->count == 0);
  CHECK_FALSE(read->ttl);
  CHECK_FALSE(read->active_duration);
  CHECK(read->waiting_duration == 0);
  CHECK(read->fence == 0);
  CHECK(read->position == 0);
  CHECK(read->has_position);
  CHECK(read->history.empty());
  const auto history = parse_claim_object(
      R"({"status": "expired", "status_history": [1, "x", {}, {"status": "waiting"}, [2], null]})");
  REQUIRE(history);
  CHECK(history->history.size() == 1);
}

TEST_CASE("nesting without end is refused, not followed", "[wire]") {
  const auto nested = [](std::size_t depth) {
    return R"({"status": "active", "user_data": )" + std::string(depth, '[') +
           std::string(depth, ']') + "}";
  };
  CHECK(parse_claim_object(nested(1000)));
  CHECK_FALSE(parse_claim_object(nested(200000)));
}

}  // namespace
}  // namespace holdfast::wire::testing
