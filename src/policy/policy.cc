#include "policy/policy.h"

#include "policy/check_policy.h"
#include "policy/grace_policy.h"

namespace holdfast::policy {

std::unique_ptr<Policy> policy_for(lock::FastLock& lock, const Rules& rules) {
  if (rules.grace) {
    Means means{.clock = rules.clock};
    if (!rules.may_pause) means.pause = [](std::chrono::seconds) {};
    return std::make_unique<GracePolicy>(lock, rules.checker, rules.grace, rules.log,
                                         std::move(means));
  }
  return std::make_unique<CheckPolicy>(lock, rules.checker, rules.clock, rules.log);
}

}  // namespace holdfast::policy
