#pragma once

#include <string>

#include "cli/tool.h"

namespace holdfast::tools {

/// TERM, SIGTERM or 15; else a UsageError.
int signal_number(std::string name);

/// Says on stderr what came of a signal to the process behind `uid`. `code` is a KillExit, or, of a
/// process elsewhere, the SshIdExit of what came in between.
Exit report_kill(cli::Call& call, const Uid& uid, int code);

}  // namespace holdfast::tools
