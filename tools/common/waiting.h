/// How the tools without a queue wait for a lock.
#pragma once

#include <functional>
#include <memory>

#include "cli/tool.h"
#include "composite/holder.h"
#include "identity/id_helper.h"
#include "lock/fast_lock.h"

namespace holdfast::tools {

/// The log of a policy or checker. A waiter gets the same message with each attempt, so it is told
/// once.
const Log& log_of_attempts(const cli::Call& call);

/// `self`, for whom this process waits, with a checker that outlives the holder.
composite::Holder make_waiter(const cli::Call& call, const identity::Identity& self,
                              const identity::IdHelper& ids, const identity::Checker& checker);

/// One attempt, or with --wait as many as it takes until one answers anything but contended, or
/// until the time is over. Between two attempts this process sleeps until a holder releases the
/// lock or dies; where it cannot see that, it looks from time to time.
///
/// Killed:   by SIGINT, SIGTERM or SIGHUP it dies of the signal, and releases what it got
/// meanwhile.
///           By SIGKILL it leaves what an attempt leaves.
lock::Answer attempt_or_wait(const cli::Call& call, lock::FastLock& lock,
                             const composite::Holder& waiter,
                             const std::function<lock::Answer()>& attempt);

}  // namespace holdfast::tools
