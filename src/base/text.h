#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

/// Digits and nothing else.
std::optional<std::uint64_t> to_number(std::string_view text);

/// Digits without a leading zero, as large as a pid may be: the one spelling that procfs knows.
std::optional<std::uint64_t> to_pid(std::string_view text);

/// Parts between separators; with `join`, runs of separators count as one and the ends have none.
std::vector<std::string_view> split(std::string_view text, std::string_view separators, bool join);

/// The line that begins with `key`, without it.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key);

std::string without_newline(std::string text);

/// For people: what could move a cursor or end the line becomes `instead`.
std::string printable(std::string text, char instead = '?');

}  // namespace holdfast
