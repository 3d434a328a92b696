#include <utility>

#include "base/text.h"
#include "routes/api.h"

namespace holdfast::routes {

void Api::revoke(const Call& call) {
  auto parsed = wire::parse_revocation(call.request().body(), settings_.body);
  if (const auto* faults = std::get_if<wire::Faults>(&parsed)) return reply_faults(call, *faults);
  auto& body = std::get<wire::Revocation>(parsed);
  server::RevokeFilter filter;
  filter.claim = body.claim;
  filter.resource = std::move(body.resource);
  filter.owner = std::move(body.owner);
  filter.status = body.status;
  log_.info("revoke id={} by={} reason={}", call.request().id(), call.principal.name,
            printable(body.reason));
  store_.revoke(std::move(filter), std::move(body.reason),
                [call](const server::Told<std::vector<server::ClaimId>>& told) {
                  if (!told.value) return reply_unavailable(call, told.reason);
                  std::string answer =
                      "{\"revoked\": " + std::to_string(told.value->size()) + ", \"claims\": [";
                  const char* separator = "";
                  for (const server::ClaimId id : *told.value) {
                    answer += separator + std::to_string(id);
                    separator = ", ";
                  }
                  answer += "]}";
                  reply(call, 200, std::move(answer));
                });
}

}  // namespace holdfast::routes
