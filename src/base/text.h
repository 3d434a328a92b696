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

void put_number(std::string& out, std::uint64_t number, int base = 10);

/// Of ASCII; whatever the locale is.
constexpr char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Parts between separators; with `join`, runs of separators count as one and the ends have none.
std::vector<std::string_view> split(std::string_view text, std::string_view separators, bool join);

/// The line that begins with `key`, without it.
std::optional<std::string_view> line_after(std::string_view text, std::string_view key);

std::string without_newline(std::string text);

/// For people: what could move a cursor or end the line becomes `instead`.
std::string printable(std::string text, char instead = '?');

/// As one word of a command that a person can paste into a shell.
std::string shell_word(std::string_view text);

/// Length of the well-formed UTF-8 character that begins at `text[at]`, 0 if there is none: none
/// that is longer than it need be, no surrogate, none beyond U+10FFFF.
std::size_t utf8_length(std::string_view text, std::size_t at);

bool is_utf8(std::string_view text);

}  // namespace holdfast
