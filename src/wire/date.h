#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::wire {

/// RFC 2822 in UTC, to the second: "Mon, 16 Nov 2026 00:01:56 -0000". `since_epoch` is wall time.
std::string to_date(std::chrono::microseconds since_epoch);

/// Appends the same.
void put_date(std::string& out, std::chrono::microseconds since_epoch);

/// RFC 2822 text in any zone, with or without the day of the week.
std::optional<std::chrono::microseconds> parse_date(std::string_view text);

/// Appends seconds as a JSON number, to the microsecond: 60, 0.25, -1.5.
void put_seconds(std::string& out, std::chrono::microseconds time);

}  // namespace holdfast::wire
