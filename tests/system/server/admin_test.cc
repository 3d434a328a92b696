/// What an administrator and a monitor look at.

#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <sstream>

#include "service.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::Matches;
using Catch::StartsWith;

namespace {

Reply revoke(const Json& body) {
  return service().send(
      {.method = "POST", .target = "/v1/admin/revoke", .body = body.dump(), .headers = kJsonType});
}

Json queue_of(const std::string& name, const std::string& query = "") {
  const Reply reply = service().get("/v1/resources/" + percent(name) + "/queue" + query);
  REQUIRE(reply.status == 200);
  return reply.json();
}

std::vector<long> ids_in(const Json& claims) {
  std::vector<long> ids;
  for (const Json& claim : claims) ids.push_back(claim.at("id"));
  return ids;
}

/// The samples of a Prometheus text: name with labels, value. Fails the case if a line is none.
std::map<std::string, double> samples(const std::string& text) {
  static const std::regex line_form(
      R"re(([a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-zA-Z_][a-zA-Z0-9_]*="([^"\\]|\\.)*",?)*\})?) (\S+))re");
  std::map<std::string, double> found;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.empty() || line.starts_with("# HELP ") || line.starts_with("# TYPE ")) continue;
    std::smatch parts;
    INFO(line);
    REQUIRE(std::regex_match(line, parts, line_form));
    CHECK(found.emplace(parts[1], std::strtod(parts[5].str().c_str(), nullptr)).second);
  }
  return found;
}

}  // namespace

TEST_CASE("a resource's queue shows who holds it and who waits in which order", "[server][admin]") {
  const std::string name = fresh_name();
  std::vector<long> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(service().claim(name));
  const Json queue = queue_of(name);
  CHECK(queue.at("name") == name);
  CHECK(ids_in(queue.at("active")) == std::vector{ids[0]});
  CHECK(ids_in(queue.at("waiting")) == std::vector{ids[1], ids[2], ids[3], ids[4]});
  CHECK(queue.at("queue_length") == 4);
  CHECK(queue.at("fence") == service().show(ids[0]).at("fence"));
  CHECK(queue.at("waiting")[2].at("position") == 3);
  CHECK(ids_in(queue_of(name, "?limit=2&offset=1").at("waiting")) == std::vector{ids[2], ids[3]});
}

TEST_CASE("a resource that nobody claimed has an empty queue", "[server][admin]") {
  const Json queue = queue_of(fresh_name());
  CHECK(queue.at("active").empty());
  CHECK(queue.at("waiting").empty());
  CHECK(queue.at("queue_length") == 0);
  CHECK(queue.at("fence") == 0);
}

TEST_CASE("slashes in a resource's path may be plain or encoded", "[server][admin]") {
  const std::string name = "disk-" + std::to_string(getpid()) + "/a/b";
  const long id = service().claim(name);
  for (const std::string& path : {name, percent(name)}) {
    const Reply reply = service().get("/v1/resources/" + path + "/queue");
    REQUIRE(reply.status == 200);
    CHECK(ids_in(reply.json().at("active")) == std::vector{id});
  }
}

TEST_CASE("resources are listed by name with owner, queue length and fence", "[server][admin]") {
  const std::string stem = fresh_name();
  const long b = service().claim(stem + "b");
  const long a = service().claim(stem + "a");
  service().claim(stem + "a");
  const long gone = service().claim(stem + "c");
  CHECK(service().patch(gone, {{"status", "released"}}).status == 204);
  const auto listed = [&](const std::string& more) {
    const Reply reply = service().get("/v1/resources/?q=" + percent(stem) + more);
    REQUIRE(reply.status == 200);
    return reply.json();
  };
  const Json all = listed("");
  REQUIRE(all.size() == 2);
  CHECK(all[0].at("name") == stem + "a");
  CHECK(all[0].at("owner").at("id") == a);
  CHECK(ids_in(all[0].at("active")) == std::vector{a});
  CHECK(all[0].at("queue_length") == 1);
  CHECK(all[0].at("fence") == service().show(a).at("fence"));
  CHECK(all[0].at("mode") == "exclusive");
  CHECK(all[1].at("owner").at("id") == b);
  CHECK(listed("&limit=1&offset=1")[0].at("name") == stem + "b");
  CHECK(listed("&limit=0").empty());
  CHECK(service().get("/v1/resources/?limit=-1").status == 400);
}

TEST_CASE("lists of resources and queues have at most a thousand at once", "[server][admin]") {
  const std::string stem = fresh_name();
  constexpr int kMany = 1003;
  Connection connection(service().port());
  const auto post = [&](const std::string& name) {
    connection.send(Request{.method = "POST",
                            .target = "/v1/claims/",
                            .body = claim_body(name).dump(),
                            .headers = kJsonType}
                        .bytes());
    return connection.read().status;
  };
  for (int i = 0; i < kMany; ++i) REQUIRE(post(stem + "/" + std::to_string(i)) == 201);
  REQUIRE(post(stem) == 201);
  for (int i = 0; i < kMany; ++i) REQUIRE(post(stem) == 202);

  const std::string list = "/v1/resources/?q=" + percent(stem + "/") + "&limit=";
  CHECK(service().get(list + "1001").json().size() == 1000);
  CHECK(service().get(list + "18446744073709551615").json().size() == 1000);
  CHECK(service().get(list + "1001&offset=1000").json().size() == kMany - 1000);
  const std::string queue = "/v1/resources/" + percent(stem) + "/queue?limit=";
  const Json shown = service().get(queue + "100000").json();
  CHECK(shown.at("waiting").size() == 1000);
  CHECK(shown.at("queue_length") == kMany);
  CHECK(service().get(queue + "100000&offset=1000").json().at("waiting").size() == kMany - 1000);
  CHECK(service().list("limit=100000&resource=" + percent(stem)).size() == kMany + 1);

  const Reply gone = revoke({{"resource", stem}, {"reason", "done"}});
  CHECK(gone.json().at("revoked") == kMany + 1);
}

TEST_CASE("a revoked claim keeps the reason in its history", "[server][admin]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long waiter = service().claim(name);
  const Reply reply = revoke({{"claim", owner}, {"reason", "host is on fire"}});
  REQUIRE(reply.status == 200);
  CHECK(reply.json().at("revoked") == 1);
  CHECK(reply.json().at("claims") == Json{owner});
  const Json claim = service().show(owner);
  CHECK(claim.at("status") == "revoked");
  CHECK(claim.at("status_history").back().at("status") == "revoked");
  CHECK(claim.at("status_history").back().at("reason") == "host is on fire");
  CHECK(service().status(waiter) == "active");
}

TEST_CASE("all claims of a resource are revoked in one step", "[server][admin]") {
  const std::string name = fresh_name();
  std::vector<long> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(service().claim(name));
  CHECK(
      revoke({{"resource", name}, {"status", "waiting"}, {"reason", "tidy"}}).json().at("claims") ==
      Json{ids[1], ids[2], ids[3]});
  CHECK(service().status(ids[0]) == "active");
  CHECK(revoke({{"resource", name}, {"reason", "tidy"}}).json().at("claims") == Json{ids[0]});
  CHECK(revoke({{"resource", name}, {"reason", "tidy"}}).json().at("revoked") == 0);
  for (const long id : ids) {
    CHECK(service().status(id) == "revoked");
    CHECK(service().show(id).at("status_history").back().at("reason") == "tidy");
  }
}

TEST_CASE("a revoked queue never had a second owner on the way", "[server][admin]") {
  const std::string name = fresh_name();
  std::vector<long> ids;
  for (int i = 0; i < 4; ++i) ids.push_back(service().claim(name));
  CHECK(revoke({{"resource", name}, {"reason", "tidy"}}).json().at("revoked") == 4);
  for (std::size_t i = 1; i < ids.size(); ++i)
    CHECK(service().show(ids[i]).at("active_duration").is_null());
}

TEST_CASE("a revocation without reason or aim is refused", "[server][admin]") {
  const std::string name = fresh_name();
  const long id = service().claim(name);
  const Json body =
      GENERATE_COPY(Json::object(), Json{{"claim", id}}, Json{{"reason", "why"}},
                    Json{{"claim", id}, {"reason", ""}}, Json{{"claim", id}, {"reason", 5}},
                    Json{{"claim", "x"}, {"reason", "why"}},
                    Json{{"resource", name}, {"status", "released"}, {"reason", "why"}},
                    Json{{"claim", id}, {"reason", "why"}, {"colour", "red"}}, Json::array());
  CHECK(revoke(body).status == 400);
  CHECK(service().status(id) == "active");
}

TEST_CASE("the state of the whole is told in numbers", "[server][admin]") {
  service().claim(fresh_name());
  const Reply reply = service().get("/v1/stats");
  REQUIRE(reply.status == 200);
  const Json stats = reply.json();
  for (const char* name : {"active", "waiting", "resources", "claims", "expired", "granted",
                           "uptime", "connections", "parked"}) {
    CAPTURE(name);
    CHECK(stats.at(name).is_number());
    CHECK(stats.at(name).get<double>() >= 0);
  }
  CHECK(stats.at("active") >= 1);
  CHECK_FALSE(stats.at("version").get<std::string>().empty());
  const std::map<Kept, std::string> names{{Kept::sqlite, "sqlite"},
                                          {Kept::memory, "memory"},
                                          {Kept::postgres, "postgres"},
                                          {Kept::postgres2, "postgres"}};
  CHECK(stats.at("store") == names.at(kept()));
}

TEST_CASE("the numbers follow what happens", "[server][admin]") {
  Service own;
  const std::string name = fresh_name();
  const long owner = own.claim(name, 0.3);
  own.claim(name);
  const long waiter = own.claim(name);
  CHECK(eventually([&] { return own.status(owner) == "expired"; }));
  const Json stats = own.get("/v1/stats").json();
  CHECK(stats.at("active") == 1);
  CHECK(stats.at("waiting") == 1);
  CHECK(stats.at("resources") == 1);
  CHECK(stats.at("claims") == 3);
  if (kept() != Kept::postgres2) CHECK(stats.at("granted") == 2);
  own.patch(waiter, {{"status", "withdrawn"}});
  CHECK(own.get("/v1/stats").json().at("waiting") == 0);
}

TEST_CASE("the metrics are Prometheus text", "[server][admin]") {
  service().claim(fresh_name());
  service().get("/v1/claims/0/");
  const Reply reply = service().get("/metrics");
  REQUIRE(reply.status == 200);
  CHECK_THAT(reply.header("content-type"), StartsWith("text/plain"));
  CHECK_THAT(reply.body, Contains("# TYPE ") && Contains("# HELP "));
  const auto found = samples(reply.body);
  const auto any = [&](const std::string& part, const std::string& label = "") {
    return std::any_of(found.begin(), found.end(), [&](const auto& sample) {
      return sample.first.find(part) != std::string::npos &&
             sample.first.find(label) != std::string::npos;
    });
  };
  CHECK(any("active"));
  CHECK(any("waiting"));
  CHECK(any("expir"));
  CHECK(any("requests", "method=\"POST\""));
  CHECK(any("requests", "code=\"201\""));
}

TEST_CASE("histograms add up", "[server][admin]") {
  service().get("/healthz");
  const auto found = samples(service().get("/metrics").body);
  const std::regex bucket(R"re((\w+)_bucket\{(.*,)?le="([^"]+)"(.*)\})re");
  std::map<std::string, std::map<double, double>> histograms;  // by the name of their _count
  for (const auto& [name, value] : found) {
    std::smatch parts;
    if (!std::regex_match(name, parts, bucket)) continue;
    const std::string le = parts[3];
    std::string labels = parts[2].str() + parts[4].str();
    if (labels.ends_with(',')) labels.pop_back();
    histograms[parts[1].str() + "_count" + (labels.empty() ? "" : "{" + labels + "}")]
              [le == "+Inf" ? HUGE_VAL : std::strtod(le.c_str(), nullptr)] = value;
  }
  REQUIRE_FALSE(histograms.empty());
  for (const auto& [name, buckets] : histograms) {
    CAPTURE(name);
    CHECK(buckets.rbegin()->first == HUGE_VAL);
    double last = 0;
    for (const auto& [le, count] : buckets) {
      CHECK(count >= last);
      last = count;
    }
    CHECK(last == found.at(name));
  }
}

TEST_CASE("the server says that it lives and is ready", "[server][admin]") {
  for (Daemon* daemon : {service().daemons().front().get(), service().daemons().back().get()}) {
    const Reply health = exchange(daemon->port(), {.target = "/healthz"});
    CHECK(health.status == 200);
    CHECK(health.json() == Json{{"status", "ok"}});
    CHECK(exchange(daemon->port(), {.target = "/readyz"}).status == 200);
  }
}

TEST_CASE("without authentication everybody is nobody and may do all", "[server][admin]") {
  const Reply reply = service().get("/v1/whoami");
  CHECK(reply.status == 200);
  CHECK(reply.json() ==
        Json{{"name", nullptr}, {"scopes", {"read", "claim", "admin"}}, {"auth", false}});
}

TEST_CASE("the dashboard asks nobody else", "[server][admin]") {
  const Reply reply = service().get("/");
  CHECK(reply.status == 200);
  CHECK_THAT(reply.header("content-type"), StartsWith("text/html"));
  const std::string policy = reply.header("content-security-policy");
  CHECK_THAT(policy, StartsWith("default-src 'none'; ") && Contains("connect-src 'self';"));
  CHECK_THAT(policy, Matches("([a-z-]+ ('none'|'self'|'sha256-[A-Za-z0-9+/=]+'|data:)(; |$))+"));
}

TEST_CASE("the API is described by a file that is JSON", "[server][admin]") {
  const Reply reply = service().get("/v1/openapi.json");
  CHECK(reply.status == 200);
  CHECK(reply.json().at("openapi").get<std::string>().starts_with("3."));
}
