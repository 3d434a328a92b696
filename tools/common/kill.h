#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/record.h"
#include "cli/tool.h"
#include "identity/id_helper.h"
#include "lock/fast_lock.h"

namespace holdfast::tools {

/// Signals the process behind `uid` (`signal` as TERM, SIGTERM or 15) and says on stderr what came
/// of it.
Exit kill_and_report(cli::Call& call, const identity::IdHelper& ids, const Uid& uid,
                     const std::optional<Record>& record, const std::string& signal);

/// The same to those who hold the lock, with word 1 as the signal, or else TERM.
Exit kill_owners(cli::Call& call, const identity::IdHelper& ids, const lock::FastLock& lock);

}  // namespace holdfast::tools
