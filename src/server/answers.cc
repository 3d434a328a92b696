#include "server/answers.h"

#include <algorithm>

namespace holdfast::server {
namespace {

/// Until the first lease in the way is over; nothing if one is already.
Micros time_to_lapse(const Resource& resource, Micros time) {
  std::optional<Micros> first;
  for (const Claim* claim : resource.active()) {
    const Micros left = std::max(Micros::zero(), claim->deadline - time);
    first = first ? std::min(*first, left) : left;
  }
  return first.value_or(Micros::zero());
}

}  // namespace

Answer refusal(Answer::Kind kind, Stamp now) {
  Answer answer;
  answer.kind = kind;
  answer.now = now;
  return answer;
}

Answer answer_of(Outcome outcome, const Resource& resource, const Claim& claim, Stamp now) {
  Answer answer;
  answer.outcome = outcome;
  answer.view = {claim, resource.position(claim)};
  answer.now = now;
  if (outcome == Outcome::waiting || outcome == Outcome::conflict) {
    answer.time_to_lapse = time_to_lapse(resource, now.time);
    if (!resource.active().empty()) answer.active_claim = resource.active().front()->id;
  }
  return answer;
}

}  // namespace holdfast::server
