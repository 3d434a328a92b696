#pragma once

#include <functional>
#include <optional>

#include "base/exit_code.h"
#include "daemon/options.h"

namespace holdfast::daemon {

/// Serves until SIGTERM or SIGINT. `reload` gives the options anew, or nothing if they make no
/// sense now.
///
/// Killed:   what was answered is in the store; a unix socket's file stays.
/// Drains:   nobody new is let in, those who wait are answered, running requests end, but no
///           longer than ten seconds; then the store is closed.
Exit serve(const Options& options, const std::function<std::optional<Options>()>& reload);

}  // namespace holdfast::daemon
