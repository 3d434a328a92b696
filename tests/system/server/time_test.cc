/// Leases, promotion and what the clock does to a claim.

#include <catch2/catch.hpp>

#include "service.h"

using namespace holdfast::testing;
using std::chrono::seconds;

namespace {

bool becomes(long id, const std::string& status) {
  return eventually([&] { return service().status(id) == status; });
}

std::vector<std::string> history(long id) {
  std::vector<std::string> words;
  const Json claim = service().show(id);
  for (const Json& item : claim.at("status_history")) words.push_back(item.at("status"));
  return words;
}

double number(long id, const char* field) {
  return service().show(id).at(field);
}

/// Waits that long by the clock.
void pass(double duration) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(duration);
  eventually([&] { return std::chrono::steady_clock::now() >= end; });
}

}  // namespace

TEST_CASE("a lease that is over goes to the head of the queue", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name, 0.5);
  const long head = service().claim(name);
  const long tail = service().claim(name);
  CHECK(service().status(head) == "waiting");
  CHECK(becomes(head, "active"));
  CHECK(service().status(owner) == "expired");
  CHECK(service().status(tail) == "waiting");
  CHECK(number(head, "waiting_duration") > 0.2);
  CHECK(number(head, "ttl") > 30);
  CHECK(history(owner) == std::vector<std::string>{"waiting", "active", "expired"});
  CHECK(history(head) == std::vector<std::string>{"waiting", "active"});
}

TEST_CASE("an expiry happens without anyone asking", "[server][time]") {
  const std::string name = fresh_name();
  service().claim(name, 0.3);
  const long head = service().claim(name);
  pass(2);
  const Json claim = service().show(head);
  CHECK(claim.at("status") == "active");
  CHECK(claim.at("active_duration").get<double>() > 0.7);
  CHECK(claim.at("waiting_duration").get<double>() < 1.5);
}

TEST_CASE("a row of short leases passes through the queue by itself", "[server][time]") {
  const std::string name = fresh_name();
  std::vector<long> ids;
  for (int i = 0; i < 5; ++i) ids.push_back(service().claim(name, 0.2));
  CHECK(becomes(ids.back(), "active"));
  for (int i = 0; i < 4; ++i)
    CHECK(service().status(ids[static_cast<std::size_t>(i)]) == "expired");
}

TEST_CASE("a lapsed lease without a rival stays active", "[server][time]") {
  const long id = service().claim(fresh_name(), 0.1);
  REQUIRE(eventually([&] { return number(id, "ttl") < -0.2; }));
  CHECK(service().status(id) == "active");
  CHECK(history(id) == std::vector<std::string>{"waiting", "active"});
}

TEST_CASE("a lapsed lease goes to the rival that arrives", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name, 0.1);
  REQUIRE(eventually([&] { return number(owner, "ttl") <= 0; }));
  const Reply rival = service().post(claim_body(name));
  CHECK(rival.status == 201);
  CHECK(rival.json().at("status") == "active");
  CHECK(service().status(owner) == "expired");
  CHECK(service().patch(owner, {{"ttl", 60}}).status == 400);
}

TEST_CASE("shortening a lease to nothing gives it to the queue", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long head = service().claim(name);
  CHECK(service().patch(owner, {{"ttl", 0}}).status == 200);
  CHECK(becomes(head, "active"));
  CHECK(service().status(owner) == "expired");
}

TEST_CASE("a renewed lease does not expire at its old end", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name, 1);
  const long head = service().claim(name);
  CHECK(service().patch(owner, {{"ttl", 60}}).status == 200);
  pass(1.5);
  CHECK(service().status(owner) == "active");
  CHECK(service().status(head) == "waiting");
}

TEST_CASE("every kind of loss promotes the head at once", "[server][time]") {
  const std::string loss = GENERATE("released", "aborted", "revoked", "withdrawn");
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long head = service().claim(name, 30);
  const long tail = service().claim(name);
  CHECK(service().patch(owner, {{"status", loss}}).status == 204);
  const Json claim = service().show(head);
  CHECK(claim.at("status") == "active");
  CHECK(claim.at("ttl").get<double>() > 10);
  CHECK(claim.at("ttl").get<double>() <= 30);
  CHECK(service().status(tail) == "waiting");
}

TEST_CASE("the queue is served in the order of arrival", "[server][time]") {
  const std::string name = fresh_name();
  std::vector<long> ids;
  for (int i = 0; i < 8; ++i) ids.push_back(service().claim(name));
  REQUIRE(service().patch(ids[3], {{"status", "withdrawn"}}).status == 204);
  for (const std::size_t i : {0U, 1U, 2U, 4U, 5U, 6U, 7U}) {
    CHECK(service().ids("status=active&resource=" + percent(name)) == std::vector{ids[i]});
    CHECK(service().patch(ids[i], {{"status", "released"}}).status == 204);
  }
  CHECK(service().post(claim_body(name)).status == 201);
}

TEST_CASE("a newcomer never overtakes who waits", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name, GENERATE(0.3, 60.0));
  const long head = service().claim(name);
  if (number(owner, "ttl") < 1)
    pass(1);
  else
    CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  CHECK(service().post(claim_body(name)).status == 202);
  CHECK(service().status(head) == "active");
}

TEST_CASE("the first activation by a promoted claim starts its lease anew", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long head = service().claim(name, 20);
  REQUIRE(service().patch(owner, {{"status", "released"}}).status == 204);
  REQUIRE(eventually([&] { return number(head, "ttl") < 19; }));
  const double before = number(head, "ttl");
  const Reply reply = service().patch(head, {{"status", "active"}});
  CHECK(reply.status == 200);
  CHECK(reply.json().at("ttl").get<double>() > before + 0.3);
  CHECK(reply.json().at("ttl").get<double>() <= 20);
}

TEST_CASE("a promoted claim that is not asked for goes to the next in time", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long head = service().claim(name, 0.5);
  const long next = service().claim(name);
  REQUIRE(service().patch(owner, {{"status", "released"}}).status == 204);
  CHECK(becomes(next, "active"));
  CHECK(service().status(head) == "expired");
}

TEST_CASE("durations run while they should", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long waiter = service().claim(name);
  const double active = number(owner, "active_duration");
  const double waiting = number(waiter, "waiting_duration");
  CHECK(eventually([&] { return number(owner, "active_duration") > active + 0.2; }));
  CHECK(eventually([&] { return number(waiter, "waiting_duration") > waiting + 0.2; }));
  CHECK(number(owner, "active_duration") < 60);
  CHECK(service().show(waiter).at("active_duration").is_null());
}

TEST_CASE("durations are frozen at the end", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long head = service().claim(name);
  const long tail = service().claim(name);
  pass(0.3);
  CHECK(service().patch(tail, {{"status", "withdrawn"}}).status == 204);
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  const double waited = number(head, "waiting_duration");
  const Json ended = service().show(owner);
  const Json left = service().show(tail);
  CHECK(ended.at("active_duration").get<double>() > 0.2);
  CHECK(left.at("active_duration").is_null());
  CHECK(left.at("waiting_duration").get<double>() > 0.1);
  pass(0.4);
  CHECK(service().show(owner) == ended);
  CHECK(service().show(tail) == left);
  CHECK(number(head, "waiting_duration") == waited);
}

TEST_CASE("an expired claim was active until its end", "[server][time]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name, 0.4);
  service().claim(name);
  REQUIRE(becomes(owner, "expired"));
  const Json ended = service().show(owner);
  CHECK(ended.at("active_duration").get<double>() > 0.3);
  CHECK(ended.at("ttl").is_null());
  pass(0.3);
  CHECK(service().show(owner) == ended);
}
