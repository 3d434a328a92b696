#include "policy/policy.h"

#include "policy/check_policy.h"
#include "policy/grace_policy.h"

namespace holdfast::policy {

std::unique_ptr<Policy> policy_for(lock::FastLock& lock, const Rules& rules) {
  if (rules.grace) {
    return std::make_unique<GracePolicy>(lock, rules.checker, rules.grace, rules.log,
                                         Means{.clock = rules.clock});
  }
  return std::make_unique<CheckPolicy>(lock, rules.checker, rules.clock, rules.log);
}

}  // namespace holdfast::policy
