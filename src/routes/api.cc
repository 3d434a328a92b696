#include "routes/api.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "routes/origin.h"

namespace holdfast::routes {
namespace {

/// As a value in a line of the log: without blanks, and without bytes that some reader of logs
/// takes for the end of a line.
std::string in_log(std::string_view text) {
  std::string value(text.substr(0, 200));
  for (char& c : value) {
    if (c <= ' ' || c > '~') c = '?';
  }
  return value;
}

}  // namespace

/// What is offered where, and to whom.
struct Api::Route {
  Place place;
  std::string_view method;
  Scope scope;
  void (Api::*handle)(const Call& call);
};

const Api::Route* Api::find_route(Place place, std::string_view method) {
  // clang-format off
  static constexpr std::array kRoutes{
      Route{Place::claims,    "GET",   read,  &Api::list_claims},
      Route{Place::claims,    "POST",  claim, &Api::post_claim},
      Route{Place::claim,     "GET",   read,  &Api::get_claim},
      Route{Place::claim,     "PATCH", claim, &Api::patch_claim},
      Route{Place::resources, "GET",   read,  &Api::list_resources},
      Route{Place::queue,     "GET",   read,  &Api::get_queue},
      Route{Place::fence,     "GET",   read,  &Api::get_fence},
      Route{Place::events,    "GET",   read,  &Api::get_events},
      Route{Place::revoke,    "POST",  admin, &Api::revoke},
      Route{Place::stats,     "GET",   read,  &Api::get_stats},
      Route{Place::metrics,   "GET",   read,  &Api::get_metrics},
      Route{Place::whoami,    "GET",   read,  &Api::get_whoami},
      Route{Place::healthz,   "GET",   none,  &Api::get_health},
      Route{Place::readyz,    "GET",   none,  &Api::get_readiness},
      Route{Place::dashboard, "GET",   none,  &Api::get_dashboard},
      Route{Place::openapi,   "GET",   none,  &Api::get_openapi},
  };
  // clang-format on
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : kRoutes) {
    if (route.place == place && route.method == wanted) return &route;
  }
  return nullptr;
}

std::string Api::allowed(Place place) {
  std::string methods;
  if (find_route(place, "GET") != nullptr) methods += "GET, HEAD, ";
  methods += "OPTIONS";
  for (const std::string_view method : {"PATCH", "POST"}) {
    if (find_route(place, method) == nullptr) continue;
    methods += ", ";
    methods += method;
  }
  return methods;
}

Api::Api(event::Loop& loop, server::Store& store, Settings settings, Log log)
    : store_(store),
      settings_(std::move(settings)),
      log_(std::move(log)),
      connections_([] { return std::size_t{0}; }),
      waiters_(loop, store),
      events_(loop) {
  store_.on_change([this](const server::View& view, server::Stamp now) {
    waiters_.hear(view, now);
    if (events_.size() != 0) events_.tell(view, now);
  });
}

void Api::set(Settings settings) {
  settings_ = std::move(settings);
  events_.check();
}

void Api::drain() {
  waiters_.drain();
  events_.drain();
}

void Api::handle(std::shared_ptr<http::Exchange> exchange) {
  Call call{std::move(exchange), {}, {}};
  const http::Request& request = call.request();
  call.target = find_target(request.path());
  if (call.target.place == Place::nowhere) return reply_message(call, 404, "there is nothing here");

  const Route* route = find_route(call.target.place, request.method());
  auto principal = identify(request, settings_.tokens.get());
  const bool is_open = find_route(call.target.place, "GET") != nullptr &&
                       find_route(call.target.place, "GET")->scope == none;
  if (!principal && !is_open) {
    return reply_message(call, 401, "a bearer token is needed, and this is none that counts",
                         {{"WWW-Authenticate", "Bearer realm=\"holdfast\""}});
  }
  if (principal) call.principal = std::move(*principal);
  const bool is_no_claim =
      call.target.place == Place::claim && !is_number_of_claim(call.target.argument);
  if (is_no_claim) return reply_message(call, 404, "no such claim");
  if (has_nul(call.target.argument)) {
    return reply_message(call, 400, "the name of a resource must not hold a NUL");
  }
  if (route == nullptr) return refuse_method(call);
  if (!call.principal.may(route->scope)) {
    std::string message = "this token has not the scope \"";
    message += scope_words(route->scope).front();
    message += '"';
    return reply_message(call, 403, message);
  }
  // A token is not at a foreign page's command.
  if (route->method != "GET" && !settings_.tokens &&
      is_of_foreign_page(request, settings_.is_open_to_all)) {
    return reply_message(call, 403, "a web page of somebody else may not change anything");
  }
  if (route->method != "GET" && !is_json(request.header("Content-Type"))) {
    return reply_message(call, 415, "the Content-Type must be application/json");
  }
  (this->*route->handle)(call);
}

/// OPTIONS, and methods that are not offered. Of a claim that does not exist nothing is.
void Api::refuse_method(const Call& call) {
  const auto answer = [call] {
    const http::Header allow{"Allow", allowed(call.target.place)};
    if (call.request().method() == "OPTIONS") return reply(call, 204, {}, {allow});
    reply_message(call, 405, "this method is not offered here", {allow});
  };
  if (call.target.place != Place::claim) return answer();
  const auto id = to_claim_id(call.target.argument);
  if (!id) return reply_message(call, 404, "no such claim");
  store_.claim(*id, [call, answer](const server::Answer& found) {
    if (found.kind == server::Answer::Kind::not_found)
      return reply_message(call, 404, "no such claim");
    answer();
  });
}

void Api::finished(const http::Request& request, int status, std::size_t bytes,
                   std::chrono::nanoseconds took) {
  metrics_.count(request.method(), status, took);
  if (log_.level() < Log::Level::info) return;
  log_.info("request id={} peer={} method={} target={} status={} bytes={} ms={}.{:03}",
            request.id(), request.peer().address, in_log(request.method()),
            in_log(request.target()), status, bytes,
            std::chrono::duration_cast<std::chrono::milliseconds>(took).count(),
            std::chrono::duration_cast<std::chrono::microseconds>(took).count() % 1000);
}

http::Response Api::fault(int status, std::string_view why) {
  http::Response response;
  response.status = status;
  response.body = message_json(why);
  return response;
}

std::string Api::url_base(const http::Request& request) const {
  const std::string_view host = request.header("Host");
  std::string url(request.scheme_name());
  url += "://";
  url += host.empty() ? std::string_view(default_host_) : host;
  url += "/v1/claims/";
  return url;
}

/// "Prefer: wait=10", as far as we let anybody wait.
std::chrono::microseconds Api::wanted_wait(const http::Request& request) const {
  const std::string_view wishes = request.header("Prefer");
  if (wishes.empty()) return {};
  for (const std::string_view preference : split(wishes, ",; ", true)) {
    constexpr std::string_view kWait = "wait=";
    if (preference.substr(0, kWait.size()) != kWait) continue;
    const auto seconds = wire::to_real(preference.substr(kWait.size()));
    if (!seconds || *seconds <= 0) return {};
    const double most = std::chrono::duration<double>(settings_.max_wait).count();
    return std::chrono::microseconds(std::llround(std::min(*seconds, most) * 1e6));
  }
  return {};
}

}  // namespace holdfast::routes
