#include <algorithm>
#include <utility>

#include "base/json.h"
#include "base/text.h"
#include "routes/api.h"
#include "wire/date.h"

namespace holdfast::routes {

void reply(const Call& call, int status, std::string body, std::vector<http::Header> headers) {
  http::Response response;
  response.status = status;
  response.body = std::move(body);
  response.headers = std::move(headers);
  call.exchange->reply(std::move(response));
}

std::string message_json(std::string_view message) {
  std::string body = "{\"message\": ";
  put_json_string(body, message);
  body += '}';
  return body;
}

void reply_message(const Call& call, int status, std::string_view message,
                   std::vector<http::Header> headers) {
  reply(call, status, message_json(message), std::move(headers));
}

void reply_faults(const Call& call, const wire::Faults& faults) {
  reply(call, 400, wire::to_json(faults));
}

void reply_unavailable(const Call& call, std::string_view reason) {
  std::string body = R"({"exception_class": "DatabaseError", "message": )";
  put_json_string(body, reason);
  body += '}';
  reply(call, 503, std::move(body), {{"Retry-After", "1"}});
}

bool reply_refusal(const Call& call, const server::Answer& answer) {
  using Kind = server::Answer::Kind;
  switch (answer.kind) {
    case Kind::done:
      return false;
    case Kind::not_found:
      reply(call, 404,
            R"({"exception_class": "ClaimNotFound", "claim_id": )" +
                (call.target.argument.empty() ? "null" : call.target.argument) + "}");
      return true;
    case Kind::forbidden:
      reply_message(call, 403, "this claim belongs to somebody else");
      return true;
    case Kind::key_misused:
      reply_faults(call, {{"Idempotency-Key", "was used for a claim of another resource"}});
      return true;
    case Kind::queue_full:
      reply_message(call, 429, "too many wait for this resource", {{"Retry-After", "10"}});
      return true;
    case Kind::too_many:
      reply_message(call, 429, "you have as many claims as one may have", {{"Retry-After", "10"}});
      return true;
    case Kind::unavailable:
      break;
  }
  reply_unavailable(call, answer.reason);
  return true;
}

std::string retry_after(std::chrono::microseconds time) {
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
  return std::to_string(std::clamp<std::int64_t>(seconds, 1, 60));
}

std::string applied_wait(std::chrono::microseconds time) {
  std::string text = "wait=";
  wire::put_seconds(text, time);
  return text;
}

bool is_json(std::string_view content_type) {
  constexpr std::string_view kJson = "application/json";
  if (content_type.size() < kJson.size()) return false;
  for (std::size_t i = 0; i < kJson.size(); ++i) {
    if (lower(content_type[i]) != kJson[i]) return false;
  }
  const std::string_view rest = content_type.substr(kJson.size());
  return rest.empty() || rest.front() == ';' || rest.front() == ' ';
}

bool is_number_of_claim(std::string_view text) {
  return !text.empty() && text.front() != '0' &&
         text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::optional<server::ClaimId> to_claim_id(std::string_view text) {
  return is_number_of_claim(text) ? to_number(text) : std::nullopt;
}

std::variant<Page, std::string> page_of(const Query& query, std::size_t default_limit) {
  if (query.is_malformed()) return std::string(kMalformedQuery);
  Page page{default_limit, 0};
  for (const auto& [key, place] : {std::pair{"limit", &page.limit}, {"offset", &page.offset}}) {
    const auto text = query.value(key);
    if (!text) continue;
    const auto number = to_number(*text);
    if (!number) return std::string(key) + " must be a whole number, 0 or more";
    *place = *number;
  }
  return page;
}

}  // namespace holdfast::routes
