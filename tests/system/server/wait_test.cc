/// Waiting without polling: Prefer: wait, events, and claims that nobody asks for any more.

#include <catch2/catch.hpp>
#include <future>
#include <latch>
#include <thread>

#include "service.h"

using namespace holdfast::testing;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

namespace {

Headers wait_for(int time) {
  return {{"Prefer", "wait=" + std::to_string(time)}};
}

std::future<Reply> later(std::function<Reply()> request) {
  return std::async(std::launch::async, std::move(request));
}

/// The waiting claims of a resource, once there are so many.
std::vector<long> waiters(const std::string& name, std::size_t count) {
  const std::string query = "limit=100&status=waiting&resource=" + percent(name);
  REQUIRE(eventually([&] { return service().ids(query).size() == count; }));
  return service().ids(query);
}

/// What a POST is told whose claim has ended, and that nothing was granted by it.
void check_ended(const Reply& reply, long id, const std::string& status) {
  INFO(reply.body);
  CHECK(reply.status == 409);
  CHECK_FALSE(reply.has("claim-fence"));
  CHECK(reply.header("location").ends_with(path_of(id)));
  const Json body = reply.json();
  CHECK(body.value("exception_class", "") == "ConflictException");
  CHECK(body.value("claim_id", 0L) == id);
  CHECK(body.value("status", "") == status);
  CHECK_THAT(body.value("message", ""), Catch::Contains(status));
}

double ttl_of(const Json& claim) {
  return claim.at("ttl").is_null() ? -1 : claim.at("ttl").get<double>();
}

/// The claims that an event stream tells of, as they come.
class Events {
 public:
  explicit Events(const std::string& target) : to_(service().port()) {
    to_.send(Request{.target = target, .headers = {{"Accept", "text/event-stream"}}}.bytes());
    head = to_.read_head();
  }

  /// The next one, or null if none comes in time.
  Json next(seconds limit = seconds(20)) {
    const auto end = steady_clock::now() + limit;
    std::size_t at;
    while ((at = text_.find("\n\n")) == std::string::npos) {
      const auto left = std::chrono::duration_cast<milliseconds>(end - steady_clock::now());
      if (left.count() <= 0) return nullptr;
      text_ += to_.read_some(left);
    }
    const std::string block = text_.substr(0, at + 1);
    text_.erase(0, at + 2);
    last = block;
    const std::size_t data = block.find("data: ");
    if (data == std::string::npos) return next(limit);  // a comment
    return Json::parse(block.substr(data + 6, block.find('\n', data) - data - 6));
  }

  Reply head;
  std::string last;

 private:
  Connection to_;
  std::string text_;
};

}  // namespace

TEST_CASE("a claim that prefers to wait is answered when it is granted", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  auto waiting = later([&] { return service().post(claim_body(name), wait_for(20)); });
  const long waiter = waiters(name, 1).front();
  CHECK(waiting.wait_for(milliseconds(300)) == std::future_status::timeout);
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  const Reply reply = waiting.get();
  CHECK(reply.status == 201);
  CHECK(reply.header("preference-applied") == "wait=20");
  CHECK(reply.header("location") == reply.json().at("url"));
  CHECK(reply.header("claim-fence") == reply.json().at("fence").dump());
  CHECK(reply.json().at("status") == "active");
  CHECK(id_of(reply.json()) == waiter);
}

TEST_CASE("a free resource is granted without a wait, preferred or not", "[server][wait]") {
  const auto begin = steady_clock::now();
  CHECK(service().post(claim_body(fresh_name()), wait_for(15)).status == 201);
  CHECK(steady_clock::now() - begin < seconds(10));
}

TEST_CASE("a wait ends with 202 when its time is over", "[server][wait]") {
  const std::string name = fresh_name();
  service().claim(name);
  const auto begin = steady_clock::now();
  const Reply reply = service().post(claim_body(name), wait_for(1));
  CHECK(steady_clock::now() - begin > milliseconds(900));
  CHECK(reply.status == 202);
  CHECK(reply.header("preference-applied") == "wait=1");
  CHECK(reply.json().at("status") == "waiting");
  CHECK(reply.json().at("position") == 1);
  CHECK(std::stoi(reply.header("retry-after")) >= 0);
  CHECK(service().status(id_of(reply.json())) == "waiting");
}

TEST_CASE("an activation that prefers to wait is answered when it is granted", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long waiter = service().claim(name);
  auto waiting = later([&] {
    return service().patch(waiter, {{"status", "active"}}, wait_for(20));
  });
  CHECK(waiting.wait_for(milliseconds(300)) == std::future_status::timeout);
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  const Reply reply = waiting.get();
  CHECK(reply.status == 200);
  CHECK(reply.header("preference-applied") == "wait=20");
  CHECK(reply.header("claim-fence") == reply.json().at("fence").dump());
  CHECK(reply.json().at("status") == "active");
}

TEST_CASE("a waiting activation ends with 409 when its time is over", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long waiter = service().claim(name);
  const auto begin = steady_clock::now();
  const Reply reply = service().patch(waiter, {{"status", "active"}}, wait_for(1));
  CHECK(steady_clock::now() - begin > milliseconds(900));
  CHECK(reply.status == 409);
  CHECK(reply.header("preference-applied") == "wait=1");
  CHECK(reply.json().at("active_claim_id") == owner);
  CHECK(reply.json().at("position") == 1);
  CHECK(std::stoi(reply.header("retry-after")) >= 0);
}

TEST_CASE("a refusal tells the place in the queue and when to ask again", "[server][wait]") {
  const std::string name = fresh_name();
  service().claim(name);
  for (int place = 1; place <= 3; ++place) {
    const Reply posted = service().post(claim_body(name));
    REQUIRE(posted.status == 202);
    CHECK(posted.json().at("position") == place);
    CHECK(std::stoi(posted.header("retry-after")) >= 0);
    const Reply patched = service().patch(id_of(posted.json()), {{"status", "active"}});
    CHECK(patched.status == 409);
    CHECK(patched.json().at("position") == place);
    CHECK(std::stoi(patched.header("retry-after")) >= 0);
    CHECK_FALSE(patched.has("preference-applied"));
  }
}

TEST_CASE("places move up, and an active claim has none", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long second = service().claim(name);
  const long third = service().claim(name);
  CHECK(service().show(owner).at("position").is_null());
  CHECK(service().patch(second, {{"status", "withdrawn"}}).status == 204);
  CHECK(service().show(third).at("position") == 1);
  CHECK(service().show(second).at("position").is_null());
}

TEST_CASE("an expiry ends a wait", "[server][wait]") {
  const std::string name = fresh_name();
  service().claim(name, 0.5);
  CHECK(service().post(claim_body(name), wait_for(15)).status == 201);
}

TEST_CASE("a waiting client is told at once that its claim was ended", "[server][wait]") {
  const std::string name = fresh_name();
  service().claim(name);
  const long waiter = service().claim(name);
  auto waiting = later([&] {
    return service().patch(waiter, {{"status", "active"}}, wait_for(15));
  });
  CHECK(waiting.wait_for(milliseconds(300)) == std::future_status::timeout);
  CHECK(service().patch(waiter, {{"status", "withdrawn"}}).status == 204);
  REQUIRE(waiting.wait_for(seconds(10)) == std::future_status::ready);
  const Reply reply = waiting.get();
  CHECK(reply.status == 400);
  CHECK(reply.json().value("status", "") == "withdrawn");
}

TEST_CASE("a dropped connection does not cancel its claim", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  {
    Connection to(service().port());
    Headers headers = wait_for(60);
    headers.push_back(kJsonType.front());
    to.send(Request{.method = "POST",
                    .target = "/v1/claims/",
                    .body = claim_body(name).dump(),
                    .headers = headers}
                .bytes());
    waiters(name, 1);
  }
  const long waiter = waiters(name, 1).front();
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  CHECK(service().status(waiter) == "active");
}

TEST_CASE("waiting clients are served in the order of their claims", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  std::vector<std::future<Reply>> crowd;
  std::vector<long> order;
  for (std::size_t i = 0; i < 5; ++i) {
    crowd.push_back(later([&] { return service().post(claim_body(name), wait_for(20)); }));
    order = waiters(name, i + 1);
  }
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  for (std::size_t i = 0; i < 5; ++i) {
    const Reply reply = crowd[i].get();
    CHECK(reply.status == 201);
    CHECK(id_of(reply.json()) == order[i]);
    CHECK(service().patch(order[i], {{"status", "released"}}).status == 204);
  }
}

TEST_CASE("a wish to wait that makes no sense is as none", "[server][wait]") {
  const std::string name = fresh_name();
  service().claim(name);
  const std::string wish = GENERATE("wait=", "wait=x", "wait=-5", "wait", "respond-async", "=",
                                    ";,;", "wait=99999999999999999999x");
  const auto begin = steady_clock::now();
  const Reply reply = service().post(claim_body(name), {{"Prefer", wish}});
  CHECK(reply.status == 202);
  CHECK(steady_clock::now() - begin < seconds(10));
  CHECK_FALSE(reply.has("preference-applied"));
}

TEST_CASE("a wish to wait may stand among others", "[server][wait]") {
  const std::string name = fresh_name();
  service().claim(name);
  const Reply reply =
      service().post(claim_body(name), {{"Prefer", "respond-async, wait=1; foo=bar"}});
  CHECK(reply.status == 202);
  CHECK(reply.header("preference-applied") == "wait=1");
}

TEST_CASE("events tell of every change of a claim", "[server][events]") {
  const std::string name = fresh_name();
  Events events("/v1/events?resource=" + percent(name));
  REQUIRE(events.head.status == 200);
  CHECK_THAT(events.head.head, Catch::Contains("text/event-stream"));
  service().claim(fresh_name());  // not ours to hear of
  const long owner = service().claim(name);
  const Json granted = events.next();
  REQUIRE(granted.is_object());
  CHECK_THAT(events.last, Catch::Contains("event: claim\n") && Catch::Contains("id: "));
  CHECK(granted.at("id") == owner);
  CHECK(granted.at("status") == "active");

  const long waiter = service().claim(name);
  const Json queued = events.next();
  CHECK(queued.at("id") == waiter);
  CHECK(queued.at("status") == "waiting");

  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  std::map<long, std::string> told;
  for (int i = 0; i < 2; ++i) {
    const Json next = events.next();
    REQUIRE(next.is_object());
    told[next.at("id")] = next.at("status");
  }
  CHECK(told == std::map<long, std::string>{{owner, "released"}, {waiter, "active"}});
}

TEST_CASE("events of an expiry come without anyone asking", "[server][events]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name, 0.5);
  const long waiter = service().claim(name);
  Events events("/v1/events?resource=" + percent(name));
  const std::map<long, std::string> expected{{owner, "expired"}, {waiter, "active"}};
  std::map<long, std::string>
      told;  // another server's news of how they came may still be under way
  while (told != expected) {
    const Json next = events.next();
    REQUIRE(next.is_object());
    told[next.at("id")] = next.at("status");
  }
}

TEST_CASE("events without a resource tell of all", "[server][events]") {
  Events events("/v1/events");
  REQUIRE(events.head.status == 200);
  const long one = service().claim(fresh_name());
  const long other = service().claim(fresh_name());
  std::map<long, std::string> told;  // of others too, if another server's news comes late
  while (told.count(one) + told.count(other) < 2) {
    const Json next = events.next();
    REQUIRE(next.is_object());
    told[next.at("id")] = next.at("status");
  }
}

TEST_CASE("the same idempotency key gives the same claim", "[server][key]") {
  const std::string name = fresh_name();
  const Headers key{{"Idempotency-Key", "key of " + name}};
  const Reply first = service().post(claim_body(name), key);
  const Reply again = service().post(claim_body(name), key);
  CHECK(first.status == 201);
  CHECK(again.status == 201);
  CHECK(again.json().at("url") == first.json().at("url"));
  CHECK(again.header("location") == first.header("location"));
  CHECK(service().ids("resource=" + percent(name)).size() == 1);
}

TEST_CASE("a key of a claim that waits tells how it stands now", "[server][key]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const Headers key{{"Idempotency-Key", "key of " + name}};
  const Reply first = service().post(claim_body(name), key);
  CHECK(first.status == 202);
  CHECK(service().post(claim_body(name), key).status == 202);
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  const Reply now = service().post(claim_body(name), key);
  CHECK(now.status == 201);
  CHECK(id_of(now.json()) == id_of(first.json()));
  CHECK(service().ids("resource=" + percent(name)).size() == 2);
}

TEST_CASE("a replayed POST is answered with 201 only if its claim is active now", "[server][key]") {
  const std::string name = fresh_name();
  const Headers key{{"Idempotency-Key", "key of " + name}};
  const Json body = claim_body(name, 0.2);
  const Reply first = service().post(body, key);
  REQUIRE(first.status == 201);
  const long id = id_of(first.json());
  const long rival = service().claim(name);
  REQUIRE(eventually([&] { return service().status(rival) == "active"; }));
  check_ended(service().post(body, key), id, "expired");
  check_ended(service().post(body, {key.front(), wait_for(1).front()}), id, "expired");
  CHECK(service().status(rival) == "active");

  const std::string mine = fresh_name();
  for (const std::string status : {"released", "revoked"}) {
    const Headers own{{"Idempotency-Key", status + mine}};
    const long done = id_of(service().post(claim_body(mine), own).json());
    CHECK(service().patch(done, {{"status", status}}).status == 204);
    check_ended(service().post(claim_body(mine), own), done, status);
  }
  CHECK(service().ids("resource=" + percent(mine)).size() == 2);
}

TEST_CASE("a POST that waited is answered with 201 only if its claim is active", "[server][wait]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  auto waiting = later([&] { return service().post(claim_body(name, 0), wait_for(20)); });
  const long brief = waiters(name, 1).front();
  auto ended = later([&] { return service().post(claim_body(name), wait_for(20)); });
  const long withdrawn = waiters(name, 2).back();
  CHECK(service().patch(withdrawn, {{"status", "withdrawn"}}).status == 204);
  check_ended(ended.get(), withdrawn, "withdrawn");

  // A lease of nothing is over when it begins, and the claim behind it takes the place at once.
  const long next = service().claim(name);
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  check_ended(waiting.get(), brief, "expired");
  CHECK(service().status(next) == "active");
}

TEST_CASE("the ttl of a replayed POST is what the client may count on", "[server][key]") {
  const std::string name = fresh_name();
  const auto replay = [](const Json& body, const std::string& key) {
    const Reply reply = service().post(body, {{"Idempotency-Key", key}});
    INFO(reply.body);
    CHECK(reply.status == 201);
    return ttl_of(reply.json());
  };
  // While the lease runs, what is left of it.
  const Json lasting = claim_body(name + "lasting", 60);
  const long id = id_of(service().post(lasting, {{"Idempotency-Key", name + "a"}}).json());
  REQUIRE(eventually([&] { return ttl_of(service().show(id)) < 59.2; }));
  const double left = replay(lasting, name + "a");
  CHECK(left < 59.2);
  CHECK(left >= ttl_of(service().show(id)));

  // The lease is over and nobody else wanted the resource: a new lease, as with status active.
  const Json lapsing = claim_body(name + "lapsing", 5);
  const long over = id_of(service().post(lapsing, {{"Idempotency-Key", name + "b"}}).json());
  CHECK(service().patch(over, {{"ttl", 0}}).status == 200);
  REQUIRE(eventually([&] { return ttl_of(service().show(over)) < 0; }));
  CHECK(replay(lapsing, name + "b") > 4);

  // A claim that became active while its client did not ask has all of its lease from now.
  const std::string queued = name + "queued";
  const long owner = service().claim(queued);
  const Json body = claim_body(queued, 60);
  const long waiter = id_of(service().post(body, {{"Idempotency-Key", name + "c"}}).json());
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  REQUIRE(eventually([&] { return ttl_of(service().show(waiter)) < 59.2; }));
  CHECK(replay(body, name + "c") > 59.2);
  REQUIRE(eventually([&] { return ttl_of(service().show(waiter)) < 59.2; }));
  CHECK(replay(body, name + "c") < 59.2);
}

TEST_CASE("another key is another claim", "[server][key]") {
  const std::string name = fresh_name();
  CHECK(service().post(claim_body(name), {{"Idempotency-Key", name + "1"}}).status == 201);
  CHECK(service().post(claim_body(name), {{"Idempotency-Key", name + "2"}}).status == 202);
}

TEST_CASE("a key that belongs to another resource is refused", "[server][key]") {
  const std::string name = fresh_name();
  const Headers key{{"Idempotency-Key", "key of " + name}};
  CHECK(service().post(claim_body(name), key).status == 201);
  const std::string other = fresh_name();
  const Reply reply = service().post(claim_body(other), key);
  CHECK(reply.status == 400);
  CHECK(reply.json().contains("Idempotency-Key"));
  CHECK(service().list("resource=" + percent(other)).empty());
}

TEST_CASE("one key in many requests at once is one claim", "[server][key][race]") {
  (void)service();  // it ends with the thread that starts it
  const std::string name = fresh_name();
  const Headers key{{"Idempotency-Key", "key of " + name}};
  std::vector<std::future<Reply>> crowd;
  for (int i = 0; i < 16; ++i)
    crowd.push_back(later([&] { return service().post(claim_body(name), key); }));
  for (auto& reply : crowd) CHECK(reply.get().status == 201);
  CHECK(service().ids("limit=100&resource=" + percent(name)).size() == 1);
}

TEST_CASE("a waiter that falls silent is withdrawn", "[server][orphan]") {
  const std::string name = fresh_name();
  service().claim(name);
  Json body = claim_body(name);
  body["waiting_ttl"] = 1.5;
  const Reply posted = service().post(body);
  REQUIRE(posted.status == 202);
  CHECK(posted.json().at("waiting_ttl") == 1.5);
  const long waiter = id_of(posted.json());
  const auto end = steady_clock::now() + seconds(3);
  while (steady_clock::now() < end) {
    CHECK(service().patch(waiter, {{"status", "active"}}).status == 409);
    std::this_thread::sleep_for(milliseconds(100));
  }
  CHECK(eventually([&] { return service().status(waiter) == "withdrawn"; }));
  CHECK(service().patch(waiter, {{"status", "active"}}).status == 400);
}

TEST_CASE("a client on the line is not silent", "[server][orphan]") {
  const std::string name = fresh_name();
  service().claim(name);
  Json body = claim_body(name);
  body["waiting_ttl"] = 0.7;
  const Reply reply = service().post(body, wait_for(3));
  CHECK(reply.status == 202);
  CHECK(reply.json().at("status") == "waiting");
}

TEST_CASE("a waiter without waiting_ttl may be silent", "[server][orphan]") {
  const std::string name = fresh_name();
  service().claim(name);
  const Reply posted = service().post(claim_body(name));
  REQUIRE(posted.status == 202);
  CHECK(posted.json().at("waiting_ttl").is_null());
  Json body = claim_body(name);
  body["waiting_ttl"] = 0.5;
  const long later_waiter = id_of(service().post(body).json());
  CHECK(eventually([&] { return service().status(later_waiter) == "withdrawn"; }));
  CHECK(service().status(id_of(posted.json())) == "waiting");
}

TEST_CASE("waiting_ttl is a number above nothing", "[server][orphan]") {
  Json body = claim_body(fresh_name());
  body["waiting_ttl"] =
      GENERATE(Json(0), Json(-1), Json("x"), Json(true), Json::array(), Json(1e11));
  const Reply reply = service().post(body);
  CHECK(reply.status == 400);
  CHECK(reply.json().contains("waiting_ttl"));
}
