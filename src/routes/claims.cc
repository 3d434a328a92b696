#include <cmath>
#include <utility>

#include "base/text.h"
#include "routes/api.h"
#include "wire/claim_object.h"
#include "wire/date.h"

namespace holdfast::routes {
namespace {

using std::chrono::microseconds;

constexpr std::size_t kMaxKey = 256;
/// Beyond any lease and any clock, and far from overflow.
constexpr double kMaxSeconds = 1e12;

microseconds to_micros(double seconds) {
  return microseconds(std::llround(std::clamp(seconds, -kMaxSeconds, kMaxSeconds) * 1e6));
}

/// Reads the filters of a list; stops at the first that makes no sense.
class FilterReader {
 public:
  explicit FilterReader(const Query& query) : query_(query) {}

  const std::string& fault() const { return fault_; }

  void read_durations(server::ListQuery& list) {
    read_range("ttl", list.ttl);
    read_range("active_duration", list.active_duration);
    read_range("waiting_duration", list.waiting_duration);
  }

  /// Epoch seconds or a date. A bound in whole seconds means that whole second, since no finer one
  /// is ever shown.
  void read_created(server::ListQuery& list) {
    list.created.minimum = read_moment("minimum_created", microseconds(0));
    list.created.maximum = read_moment("maximum_created", microseconds(999999));
  }

  void read_words(server::ListQuery& list) {
    list.resource = query_.value("resource");
    if (const auto word = query_.value("status")) {
      list.status = claims::to_status(*word);
      if (!list.status) fail("status", "is not the status of a claim");
    }
    if (const auto word = query_.value("mode")) {
      for (const auto mode :
           {claims::Mode::exclusive, claims::Mode::shared, claims::Mode::counted}) {
        if (claims::word(mode) == *word) list.mode = mode;
      }
      if (!list.mode) fail("mode", "must be exclusive, shared or counted");
    }
  }

 private:
  void fail(const std::string& key, std::string_view why) {
    if (fault_.empty()) fault_ = key + " " + std::string(why);
  }

  void read_range(const std::string& name, server::ListQuery::Range<microseconds>& range) {
    range.minimum = read_seconds("minimum_" + name);
    range.maximum = read_seconds("maximum_" + name);
  }

  std::optional<microseconds> read_seconds(const std::string& key) {
    const auto text = query_.value(key);
    if (!text) return std::nullopt;
    const auto seconds = wire::to_real(*text);
    if (seconds) return to_micros(*seconds);
    fail(key, "must be a number of seconds");
    return std::nullopt;
  }

  std::optional<microseconds> read_moment(const std::string& key, microseconds rest_of_second) {
    const auto text = query_.value(key);
    if (!text) return std::nullopt;
    const auto seconds = wire::to_real(*text);
    const auto moment = seconds ? std::optional(to_micros(*seconds)) : wire::parse_date(*text);
    if (!moment) {
      fail(key, "must be seconds since 1970 or an RFC 2822 date");
      return std::nullopt;
    }
    const bool is_whole = moment->count() % 1000000 == 0;
    return is_whole ? *moment + rest_of_second : *moment;
  }

  const Query& query_;
  std::string fault_;
};

/// For a POST whose claim has ended: under its key it was posted before, or it ended while the
/// request waited. Neither 201 nor 202 would be true.
std::string ended(const server::Claim& claim) {
  std::string body = R"({"exception_class": "ConflictException", "message": "this claim is )";
  body += claims::word(claim.status);
  body += claim.key.empty() ? R"(; post a new one", "claim_id": )"
                            : R"(; post a new one, with another Idempotency-Key", "claim_id": )";
  body += std::to_string(claim.id) + R"(, "status": ")";
  body += claims::word(claim.status);
  body += "\"}";
  return body;
}

bool is_good_key(std::string_view key) {
  if (key.size() > kMaxKey) return false;
  for (const char c : key) {
    if (c < ' ' || c > '~') return false;
  }
  return true;
}

}  // namespace

void Api::list_claims(const Call& call) {
  const Query query = call.query();
  const auto page = page_of(query, 10);
  if (const auto* fault = std::get_if<std::string>(&page)) return reply_message(call, 400, *fault);
  server::ListQuery list;
  list.limit = std::get<Page>(page).limit;
  list.offset = std::get<Page>(page).offset;
  FilterReader reader(query);
  reader.read_words(list);
  reader.read_durations(list);
  reader.read_created(list);
  if (!reader.fault().empty()) return reply_message(call, 400, reader.fault());
  store_.list(std::move(list), [this, call](const server::Told<std::vector<server::View>>& told) {
    if (!told.value) return reply_unavailable(call, told.reason);
    const std::string base = url_base(call.request());
    std::string body = "[";
    for (const server::View& view : *told.value) {
      if (body.size() > 1) body += ", ";
      wire::put_claim(body, view, told.now, base);
    }
    body += ']';
    reply(call, 200, std::move(body));
  });
}

void Api::post_claim(const Call& call) {
  const http::Request& request = call.request();
  auto parsed = wire::parse_new_claim(request.body(), settings_.body);
  if (const auto* faults = std::get_if<wire::Faults>(&parsed)) return reply_faults(call, *faults);
  const std::string_view key = request.header("Idempotency-Key");
  if (!is_good_key(key)) {
    return reply_faults(call, {{"Idempotency-Key", "must be at most 256 printable characters"}});
  }
  auto& body = std::get<wire::NewClaim>(parsed);
  const microseconds wait = wanted_wait(request);
  server::NewClaim wish;
  wish.resource = std::move(body.resource);
  wish.owner = call.principal.name;
  wish.key = key;
  wish.user_data = std::move(body.user_data);
  wish.ttl = body.ttl;
  wish.waiting_ttl = body.waiting_ttl;
  wish.mode = body.mode;
  wish.count = body.count;
  wish.heard_for = wait;
  store_.post(std::move(wish), [this, call, wait](const server::Answer& answer) {
    if (reply_refusal(call, answer)) return;
    if (answer.outcome != server::Outcome::waiting || wait.count() == 0) {
      return answer_post(call, {}, answer);
    }
    waiters_.park(answer.view.claim.id, wait, call.exchange,
                  [this, call, wait, answer](const server::View* view, server::Stamp now) {
                    if (view == nullptr) return answer_later_post(call, wait, answer.view.claim.id);
                    server::Answer news;
                    news.view = *view;
                    news.now = now;
                    answer_post(call, wait, news);
                  });
  });
}

/// The wait was in vain; as things stand now.
void Api::answer_later_post(const Call& call, microseconds wait, server::ClaimId id) {
  store_.claim(id, [this, call, wait](const server::Answer& answer) {
    if (!reply_refusal(call, answer)) answer_post(call, wait, answer);
  });
}

void Api::answer_post(const Call& call, microseconds wait, const server::Answer& answer) {
  const server::Claim& claim = answer.view.claim;
  const std::string base = url_base(call.request());
  std::vector<http::Header> headers;
  headers.reserve(3);
  headers.push_back({"Location", base + std::to_string(claim.id) + "/"});
  if (claim.status == server::Status::active) {
    headers.push_back({"Claim-Fence", std::to_string(claim.fence)});
  }
  if (claim.status == server::Status::waiting) {
    headers.push_back({"Retry-After", retry_after(answer.time_to_lapse)});
  }
  if (wait.count() != 0) headers.push_back({"Preference-Applied", applied_wait(wait)});
  if (claim.is_final()) return reply(call, 409, ended(claim), std::move(headers));
  std::string body;
  wire::put_claim(body, answer.view, answer.now, base);
  const bool is_active = claim.status == server::Status::active;
  reply(call, is_active ? 201 : 202, std::move(body), std::move(headers));
}

}  // namespace holdfast::routes
