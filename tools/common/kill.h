#pragma once

#include <optional>
#include <string>

#include "base/record.h"
#include "cli/tool.h"

namespace holdfast::tools {

/// Signals the process behind `uid` (`signal` as TERM, SIGTERM or 15) and says on stderr what came
/// of it.
Exit kill_and_report(cli::Call& call, const Uid& uid, const std::optional<Record>& record,
                     const std::string& signal);

}  // namespace holdfast::tools
