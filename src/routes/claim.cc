#include <utility>

#include "base/json.h"
#include "routes/api.h"
#include "wire/claim_object.h"

namespace holdfast::routes {
namespace {

using std::chrono::microseconds;

std::string wrong_state(const server::Claim& claim) {
  std::string body = R"({"exception_class": "InvalidRequest", "message": "a claim that is )";
  body += claims::word(claim.status);
  body += R"( cannot be changed so", "claim_id": )" + std::to_string(claim.id) + R"(, "status": ")";
  body += claims::word(claim.status);
  body += "\"}";
  return body;
}

std::string conflict(const server::Answer& answer) {
  std::string body =
      R"({"exception_class": "ConflictException", "message": "others are before it", )";
  body += "\"active_claim_id\": ";
  body += answer.active_claim != 0 ? std::to_string(answer.active_claim) : "null";
  body += ", \"position\": " + std::to_string(answer.view.position) + "}";
  return body;
}

}  // namespace

void Api::get_claim(const Call& call) {
  const auto id = to_claim_id(call.target.argument);
  if (!id) return reply_message(call, 404, "no such claim");
  store_.claim(*id, [this, call](const server::Answer& answer) {
    if (answer.kind == server::Answer::Kind::not_found)
      return reply_message(call, 404, "no such claim");
    if (reply_refusal(call, answer)) return;
    std::vector<http::Header> headers;
    if (answer.view.claim.status == server::Status::active) {
      headers.push_back({"Claim-Fence", std::to_string(answer.view.claim.fence)});
    }
    std::string body;
    wire::put_claim(body, answer.view, answer.now, url_base(call.request()));
    reply(call, 200, std::move(body), std::move(headers));
  });
}

void Api::patch_claim(const Call& call) {
  const auto parsed = wire::parse_claim_change(call.request().body(), settings_.body);
  if (const auto* faults = std::get_if<wire::Faults>(&parsed)) return reply_faults(call, *faults);
  const auto id = to_claim_id(call.target.argument);
  if (!id) {
    server::Answer none;
    none.kind = server::Answer::Kind::not_found;
    (void)reply_refusal(call, none);
    return;
  }
  const auto& body = std::get<wire::ClaimChange>(parsed);
  server::Change change;
  change.ttl = body.ttl;
  change.status = body.status;
  if (change.status == server::Status::active) change.heard_for = wanted_wait(call.request());
  change_claim(call, *id, change, {});
}

/// With Prefer: wait a conflict is tried once more, when there is news or the time is over.
/// `applied` is not 0 then.
void Api::change_claim(const Call& call, server::ClaimId id, const server::Change& change,
                       microseconds applied) {
  store_.patch(id, change, call.caller(),
               [this, call, id, change, applied](const server::Answer& answer) {
                 const bool may_wait = change.heard_for.count() != 0 && applied.count() == 0;
                 if (answer.kind != server::Answer::Kind::done ||
                     answer.outcome != server::Outcome::conflict || !may_wait) {
                   return answer_patch(call, answer, applied);
                 }
                 waiters_.park(id, change.heard_for, call.exchange,
                               [this, call, id, change](const server::View*, server::Stamp) {
                                 server::Change again = change;
                                 again.heard_for = {};
                                 change_claim(call, id, again, change.heard_for);
                               });
               });
}

void Api::answer_patch(const Call& call, const server::Answer& answer, microseconds applied) {
  if (reply_refusal(call, answer)) return;
  std::vector<http::Header> headers;
  if (applied.count() != 0) headers.push_back({"Preference-Applied", applied_wait(applied)});
  switch (answer.outcome) {
    case server::Outcome::ended:
      return reply(call, 204, {}, std::move(headers));
    case server::Outcome::wrong_state:
      return reply(call, 400, wrong_state(answer.view.claim), std::move(headers));
    case server::Outcome::waiting:
    case server::Outcome::conflict:
      headers.push_back({"Retry-After", retry_after(answer.time_to_lapse)});
      return reply(call, 409, conflict(answer), std::move(headers));
    case server::Outcome::active:
      break;
  }
  headers.push_back({"Claim-Fence", std::to_string(answer.view.claim.fence)});
  std::string body;
  wire::put_claim(body, answer.view, answer.now, url_base(call.request()));
  reply(call, 200, std::move(body), std::move(headers));
}

}  // namespace holdfast::routes
