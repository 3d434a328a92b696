/// What the lock tools have in common when they tell an outcome to the caller.
#pragma once

#include <vector>

#include "cli/tool.h"
#include "lock/fast_lock.h"

namespace holdfast::tools {

/// Of lock(): says on stderr what must be said, and gives the exit code.
Exit report_lock(cli::Call& call, const lock::FastLock& lock, const Uid& id,
                 const lock::Answer& answer);

/// Of unlock().
Exit report_unlock(cli::Call& call, const lock::Answer& answer);

/// The ids on stdout, one per line.
Exit print_owner(cli::Call& call, const std::vector<lock::Leaf>& leaves);

lock::FastLock make_lock(const cli::Call& call);  ///< on word 0

}  // namespace holdfast::tools
