#pragma once

#include <string_view>

namespace holdfast::daemon {

/// Tells systemd ("READY=1"), if it is there to be told. Its absence is no fault.
void notify(std::string_view state);

}  // namespace holdfast::daemon
