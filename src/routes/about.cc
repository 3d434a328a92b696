#include <utility>

#include "base/json.h"
#include "routes/api.h"

namespace holdfast::routes {

void Api::get_health(const Call& call) {
  reply(call, 200, R"({"status": "ok"})");
}

void Api::get_readiness(const Call& call) {
  const auto trouble = store_.trouble();
  if (!trouble) return reply(call, 200, R"({"status": "ok"})");
  std::string body = R"({"status": "unavailable", "reason": )";
  put_json_string(body, *trouble);
  body += '}';
  reply(call, 503, std::move(body), {{"Retry-After", "1"}});
}

void Api::get_whoami(const Call& call) {
  std::string body = "{\"name\": ";
  if (call.principal.name.empty()) {
    body += "null";
  } else {
    put_json_string(body, call.principal.name);
  }
  body += ", \"scopes\": [";
  const char* separator = "";
  for (const std::string_view word : scope_words(call.principal.scopes)) {
    body += separator;
    put_json_string(body, word);
    separator = ", ";
  }
  body += settings_.tokens ? "], \"auth\": true}" : "], \"auth\": false}";
  reply(call, 200, std::move(body));
}

void Api::get_stats(const Call& call) {
  store_.totals([this, call](const server::Told<server::Totals>& told) {
    if (!told.value) return reply_unavailable(call, told.reason);
    const server::Counters counters = store_.counters();
    std::string body = "{\"active\": " + std::to_string(told.value->active);
    body += ", \"waiting\": " + std::to_string(told.value->waiting);
    body += ", \"resources\": " + std::to_string(told.value->resources);
    body += ", \"claims\": " + std::to_string(told.value->claims);
    body += ", \"granted\": " + std::to_string(counters.granted);
    body += ", \"expired\": " + std::to_string(counters.expired);
    body += ", \"uptime\": " + std::to_string(metrics_.uptime().count());
    body += ", \"connections\": " + std::to_string(connections_());
    body += ", \"parked\": " + std::to_string(waiters_.size());
    body += ", \"store\": ";
    put_json_string(body, store_.kind());
    body += ", \"version\": \"" HOLDFAST_VERSION "\"}";
    reply(call, 200, std::move(body));
  });
}

void Api::get_metrics(const Call& call) {
  // In trouble the totals may be unknown; the rest is wanted all the more.
  store_.totals([this, call](const server::Told<server::Totals>& told) {
    Metrics::Gauges gauges;
    gauges.totals = told.value.value_or(server::Totals{});
    gauges.counters = store_.counters();
    gauges.connections = connections_();
    gauges.parked = waiters_.size();
    gauges.listeners = events_.size();
    gauges.is_ready = !store_.trouble();
    http::Response response;
    response.content_type = "text/plain; version=0.0.4; charset=utf-8";
    response.body = metrics_.text(gauges);
    call.exchange->reply(std::move(response));
  });
}

}  // namespace holdfast::routes
