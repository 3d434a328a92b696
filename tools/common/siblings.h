#pragma once

#include <string>
#include <string_view>

namespace holdfast::tools {

/// Whether `command` would run this very program under the name `tool` (or `tool`.sh).
bool is_own_tool(const std::string& command, std::string_view tool);

}  // namespace holdfast::tools
