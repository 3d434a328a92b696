#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/log.h"
#include "event/loop.h"
#include "http/exchange.h"
#include "http/server.h"
#include "routes/auth.h"
#include "routes/events.h"
#include "routes/metrics.h"
#include "routes/target.h"
#include "routes/waiters.h"
#include "server/store.h"
#include "wire/body.h"

namespace holdfast::routes {

/// What may be set without a restart.
struct Settings {
  wire::BodyLimits body;
  std::chrono::microseconds max_wait{std::chrono::seconds(300)};
  std::shared_ptr<const Tokens> tokens;  ///< none: no authentication
  bool is_open_to_all = false;           ///< --no-auth: under whatever name it is reached
};

/// One request on its way through a route.
struct Call {
  std::shared_ptr<http::Exchange> exchange;
  Target target;
  Principal principal;

  const http::Request& request() const { return exchange->request(); }
  Query query() const { return Query(request().query()); }
  server::Caller caller() const { return {principal.name, principal.may(admin)}; }
};

/// The HTTP API: who may do what where, and the routes themselves, a file each.
///
/// Promises: validation comes before look-up, and a refused request changes nothing.
/// Threads:  the loop's.
class Api final : public http::Observer {
 public:
  Api(event::Loop& loop, server::Store& store, Settings settings, Log log);

  void handle(std::shared_ptr<http::Exchange> exchange);

  /// From now on. Streams that would not be opened any more are ended; a request that waits is
  /// answered as one of those who were let in.
  void set(Settings settings);

  /// Stands in for the Host of a client that names none.
  void set_default_host(std::string host) { default_host_ = std::move(host); }
  void count_connections_by(std::function<std::size_t()> count) { connections_ = std::move(count); }

  /// Answers those who wait and ends the streams.
  void drain();

  void finished(const http::Request& request, int status, std::size_t bytes,
                std::chrono::nanoseconds took) override;
  http::Response fault(int status, std::string_view why) override;

 private:
  struct Route;
  static const Route* find_route(Place place, std::string_view method);
  static std::string allowed(Place place);
  void refuse_method(const Call& call);

  // claims.cc
  void list_claims(const Call& call);
  void post_claim(const Call& call);
  void answer_post(const Call& call, std::chrono::microseconds wait, const server::Answer& answer);
  void answer_later_post(const Call& call, std::chrono::microseconds wait, server::ClaimId id);
  // claim.cc
  void get_claim(const Call& call);
  void patch_claim(const Call& call);
  void change_claim(const Call& call, server::ClaimId id, const server::Change& change,
                    std::chrono::microseconds applied);
  void answer_patch(const Call& call, const server::Answer& answer,
                    std::chrono::microseconds applied);
  // resources.cc
  void list_resources(const Call& call);
  void get_queue(const Call& call);
  void get_fence(const Call& call);
  // revoke.cc
  void revoke(const Call& call);
  // about.cc
  void get_stats(const Call& call);
  void get_metrics(const Call& call);
  void get_health(const Call& call);
  void get_readiness(const Call& call);
  void get_whoami(const Call& call);
  // pages.cc
  void get_dashboard(const Call& call);
  void get_openapi(const Call& call);
  // events.cc
  void get_events(const Call& call);

  std::string url_base(const http::Request& request) const;
  std::chrono::microseconds wanted_wait(const http::Request& request) const;

  server::Store& store_;
  Settings settings_;
  Log log_;
  std::string default_host_ = "localhost";
  std::function<std::size_t()> connections_;
  Waiters waiters_;
  Events events_;
  Metrics metrics_;
};

// Replies that several routes give.
void reply(const Call& call, int status, std::string body, std::vector<http::Header> headers = {});
void reply_message(const Call& call, int status, std::string_view message,
                   std::vector<http::Header> headers = {});
void reply_faults(const Call& call, const wire::Faults& faults);
void reply_unavailable(const Call& call, std::string_view reason);
/// For the kinds of answers that no route treats by itself; false if it is done.
bool reply_refusal(const Call& call, const server::Answer& answer);

std::string message_json(std::string_view message);

bool is_json(std::string_view content_type);

/// As it is written in a path: digits without a leading zero.
bool is_number_of_claim(std::string_view text);

/// The same, unless it is larger than any that will ever be given.
std::optional<server::ClaimId> to_claim_id(std::string_view text);

/// In whole seconds, from 1 to 60.
std::string retry_after(std::chrono::microseconds time);

/// For Preference-Applied: "wait=10".
std::string applied_wait(std::chrono::microseconds time);

inline constexpr std::string_view kMalformedQuery =
    "the query is malformed: it has a bad percent code, or is not UTF-8, or holds a NUL";

/// limit and offset of a query; the reason if they are no numbers, or nothing of it can be read.
struct Page {
  std::size_t limit = 0, offset = 0;
};
std::variant<Page, std::string> page_of(const Query& query, std::size_t default_limit);

}  // namespace holdfast::routes
