/// GET /v1/claims/ with all its filters, and GET /v1/claims/ID/.

#include <catch2/catch.hpp>

#include "service.h"

using namespace holdfast::testing;
using Catch::StartsWith;
using Ids = std::vector<long>;

namespace {

/// A resource with an owner, two that wait, and two that are done.
struct Scene {
  std::string name = fresh_name();
  std::string only = "resource=" + percent(name) + "&";
  long released = service().claim(name, 100);
  long withdrawn = service().claim(name, 100);
  long owner = service().claim(name, 200);
  long second = service().claim(name, 300);
  long third = service().claim(name, 300);

  Scene() {
    REQUIRE(service().patch(withdrawn, {{"status", "withdrawn"}}).status == 204);
    REQUIRE(service().patch(released, {{"status", "released"}}).status == 204);
    REQUIRE(service().status(owner) == "active");
  }
  Ids all() const { return {released, withdrawn, owner, second, third}; }
  Ids found(const std::string& query) const { return service().ids(only + query); }
};

std::string epoch(int seconds_from_now) {
  return std::to_string(std::time(nullptr) + seconds_from_now);
}

std::string rfc2822(int seconds_from_now) {
  const std::time_t at = std::time(nullptr) + seconds_from_now;
  std::tm parts{};
  gmtime_r(&at, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S -0000", &parts);
  return percent(text);
}

}  // namespace

TEST_CASE("the list is a plain JSON list, by ascending id", "[server][list]") {
  const Scene scene;
  const Reply reply = service().get("/v1/claims/?" + scene.only);
  CHECK(reply.status == 200);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK(reply.json().is_array());
  CHECK(scene.found("") == scene.all());
}

TEST_CASE("filters tell claims apart", "[server][list]") {
  const Scene scene;
  const Ids none;
  CHECK(scene.found("status=active") == Ids{scene.owner});
  CHECK(scene.found("status=waiting") == Ids{scene.second, scene.third});
  CHECK(scene.found("status=released") == Ids{scene.released});
  CHECK(scene.found("status=withdrawn") == Ids{scene.withdrawn});
  for (const char* empty : {"status=aborted", "status=revoked", "status=expired"})
    CHECK(scene.found(empty) == none);
}

TEST_CASE("a filter by ttl means active claims", "[server][list]") {
  const Scene scene;
  const Ids none;
  CHECK(scene.found("minimum_ttl=0") == Ids{scene.owner});
  CHECK(scene.found("minimum_ttl=-1e9") == Ids{scene.owner});
  CHECK(scene.found("maximum_ttl=200") == Ids{scene.owner});
  CHECK(scene.found("minimum_ttl=100&maximum_ttl=200.5") == Ids{scene.owner});
  CHECK(scene.found("minimum_ttl=201") == none);
  CHECK(scene.found("maximum_ttl=100") == none);
  CHECK(scene.found("minimum_ttl=0&status=waiting") == none);
}

TEST_CASE("a filter by active duration means claims that were ever active", "[server][list]") {
  const Scene scene;
  const Ids none;
  CHECK(scene.found("minimum_active_duration=0") == Ids{scene.released, scene.owner});
  CHECK(scene.found("maximum_active_duration=1000") == Ids{scene.released, scene.owner});
  CHECK(scene.found("minimum_active_duration=1000") == none);
  CHECK(scene.found("minimum_active_duration=0&status=released") == Ids{scene.released});
  const double end = service().show(scene.released).at("active_duration");
  REQUIRE(
      eventually([&] { return service().show(scene.owner).at("active_duration") > end + 0.3; }));
  CHECK(scene.found("maximum_active_duration=" + std::to_string(end + 0.1)) == Ids{scene.released});
}

TEST_CASE("claims are found by how long they waited", "[server][list]") {
  const Scene scene;
  const Ids none;
  CHECK(scene.found("minimum_waiting_duration=0") == scene.all());
  CHECK(scene.found("maximum_waiting_duration=1000") == scene.all());
  CHECK(scene.found("minimum_waiting_duration=1000") == none);
  const double ended = service().show(scene.withdrawn).at("waiting_duration");
  REQUIRE(
      eventually([&] { return service().show(scene.third).at("waiting_duration") > ended + 0.5; }));
  CHECK(scene.found("minimum_waiting_duration=" + std::to_string(ended + 0.3) +
                    "&status=withdrawn") == none);
  CHECK(scene.found("minimum_waiting_duration=" + std::to_string(ended + 0.3) +
                    "&status=waiting") == Ids{scene.second, scene.third});
}

TEST_CASE("claims are found by when they came, in either writing", "[server][list]") {
  const Scene scene;
  const Ids none;
  const bool is_text = GENERATE(false, true);
  const auto instant = [&](int seconds) { return is_text ? rfc2822(seconds) : epoch(seconds); };
  CHECK(scene.found("minimum_created=" + instant(-100)) == scene.all());
  CHECK(scene.found("maximum_created=" + instant(100)) == scene.all());
  CHECK(scene.found("minimum_created=" + instant(100)) == none);
  CHECK(scene.found("maximum_created=" + instant(-100)) == none);
  CHECK(scene.found("minimum_created=" + instant(-100) + "&maximum_created=" + instant(100)) ==
        scene.all());
}

TEST_CASE("filters are all kept to", "[server][list]") {
  const Scene scene;
  CHECK(scene.found("status=waiting&minimum_waiting_duration=0&minimum_created=0&limit=1") ==
        Ids{scene.second});
}

TEST_CASE("pages follow each other without gap or repeat", "[server][list]") {
  const std::string name = fresh_name();
  Ids all;
  for (int i = 0; i < 25; ++i) all.push_back(service().claim(name));
  const std::string only = "resource=" + percent(name);
  CHECK(service().ids(only) == Ids(all.begin(), all.begin() + 10));
  CHECK(service().ids(only + "&offset=20") == Ids(all.begin() + 20, all.end()));
  CHECK(service().ids(only + "&limit=0").empty());
  CHECK(service().ids(only + "&limit=100") == all);
  CHECK(service().ids(only + "&limit=100&offset=25").empty());
  CHECK(service().ids(only + "&limit=7&offset=1000000").empty());
  Ids paged;
  for (int offset = 0; offset < 28; offset += 7) {
    for (const long id : service().ids(only + "&limit=7&offset=" + std::to_string(offset)))
      paged.push_back(id);
  }
  CHECK(paged == all);
}

TEST_CASE("pages stay in order while claims change", "[server][list]") {
  const std::string name = fresh_name();
  Ids all;
  for (int i = 0; i < 12; ++i) all.push_back(service().claim(name));
  for (const long id : {all[6], all[2], all[0]}) service().patch(id, {{"status", "aborted"}});
  CHECK(service().ids("limit=100&resource=" + percent(name)) == all);
}

TEST_CASE("the empty resource matches nothing, and so does an unknown one", "[server][list]") {
  CHECK(service().list("resource=").empty());
  CHECK(service().list("resource=" + percent(fresh_name())).empty());
}

TEST_CASE("unknown query keys are ignored", "[server][list]") {
  const Scene scene;
  CHECK(scene.found("colour=red&limit=3") == Ids{scene.released, scene.withdrawn, scene.owner});
}

TEST_CASE("a query that cannot be understood is refused with a message", "[server][list]") {
  const std::string query =
      GENERATE(as<std::string>{}, "limit=-1", "limit=x", "limit=1.5", "limit=", "offset=-1",
               "offset=x", "limit=99999999999999999999999", "offset=99999999999999999999999",
               "status=happy", "status=", "status=ACTIVE", "minimum_ttl=x",
               "minimum_ttl=", "maximum_ttl=nan", "minimum_ttl=NaN", "minimum_active_duration=long",
               "maximum_waiting_duration=1s", "minimum_created=yesterday", "maximum_created=nan",
               "minimum_created=", "resource=%zz", "resource=%", "resource=%ff", "%=1");
  CAPTURE(query);
  const Reply reply = service().get("/v1/claims/?" + query);
  CHECK(reply.status == 400);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK_FALSE(reply.json().value("message", "").empty());
}

TEST_CASE("a claim is shown by its id", "[server][detail]") {
  const long id = service().claim(fresh_name());
  const Reply reply = service().get(path_of(id));
  CHECK(reply.status == 200);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK(id_of(reply.json()) == id);
}

TEST_CASE("whatever is no claim's id is not found", "[server][detail]") {
  const std::string id =
      GENERATE(as<std::string>{}, "0", "-1", "+1", "1.0", "1.5", "1e1", "abc", "1a", "a1", "%20",
               "1%20", "0x1", "99999999", "9223372036854775807", "9223372036854775808",
               "18446744073709551617", "1000000000000000000000000000000000000000000000000", "%00",
               "%31%00", "..%2f", "%C3%A9", "%ff", "%D9%A1");
  CAPTURE(id);
  const std::string target = "/v1/claims/" + id + "/";
  const Reply reply = service().get(target);
  CHECK(reply.status == 404);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK_FALSE(reply.json().value("message", "").empty());
  CHECK(service()
            .send({.method = "PATCH",
                   .target = target,
                   .body = R"({"status": "released"})",
                   .headers = kJsonType})
            .status == 404);
}

TEST_CASE("a word instead of an id is not found by any method", "[server][detail]") {
  const std::string method = GENERATE("GET", "HEAD", "POST", "PATCH", "PUT", "DELETE", "OPTIONS");
  const Reply reply = service().send({.method = method,
                                      .target = "/v1/claims/abc/",
                                      .body = method == "GET" ? "" : R"({"status": "released"})",
                                      .headers = kJsonType});
  CHECK(reply.status == 404);
}
