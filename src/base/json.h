#pragma once

#include <string>
#include <string_view>

namespace holdfast {

/// Appends `text` as a JSON string, quotes included. Bytes that are no UTF-8 become '?'.
void put_json_string(std::string& out, std::string_view text);

}  // namespace holdfast
