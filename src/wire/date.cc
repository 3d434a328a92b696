#include "wire/date.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>

#include "base/text.h"

namespace holdfast::wire {
namespace {

using namespace std::chrono;

constexpr std::array<std::string_view, 7> kDays{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array<std::string_view, 12> kMonths{"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

std::optional<unsigned> to_month(std::string_view word) {
  for (unsigned i = 0; i < kMonths.size(); ++i) {
    if (kMonths[i] == word) return i + 1;
  }
  return std::nullopt;
}

/// "00:01:56", seconds may be missing.
std::optional<seconds> to_time_of_day(std::string_view text) {
  const auto parts = split(text, ":", false);
  if (parts.size() != 2 && parts.size() != 3) return std::nullopt;
  std::array<std::uint64_t, 3> values{};
  constexpr std::array<std::uint64_t, 3> kEnds{24, 60, 61};
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto value = to_number(parts[i]);
    if (parts[i].size() != 2 || !value || *value >= kEnds.at(i)) return std::nullopt;
    values.at(i) = *value;
  }
  return hours(values[0]) + minutes(values[1]) + seconds(values[2]);
}

/// "+0100", "-0000", "GMT".
std::optional<seconds> to_zone(std::string_view text) {
  if (text == "GMT" || text == "UT" || text == "UTC" || text == "Z") return seconds(0);
  if (text.size() != 5 || (text[0] != '+' && text[0] != '-')) return std::nullopt;
  const auto digits = to_number(text.substr(1));
  if (!digits || *digits % 100 >= 60) return std::nullopt;
  const seconds offset = hours(*digits / 100) + minutes(*digits % 100);
  return text[0] == '-' ? -offset : offset;
}

}  // namespace

void put_date(std::string& out, microseconds since_epoch) {
  const sys_seconds when{floor<seconds>(since_epoch)};
  const sys_days day = floor<days>(when);
  const year_month_day date{day};
  const hh_mm_ss time{when - day};
  std::array<char, 48> text;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled below
  char* end = text.data();
  const auto put = [&end](std::string_view part) {
    end = std::copy(part.begin(), part.end(), end);
  };
  const auto put_two = [&end](auto number) {
    *end++ = static_cast<char>('0' + number / 10 % 10);
    *end++ = static_cast<char>('0' + number % 10);
  };
  put(kDays.at(weekday(day).c_encoding()));
  put(", ");
  put_two(unsigned{date.day()});
  put(" ");
  put(kMonths.at(unsigned{date.month()} - 1));
  put(" ");
  end = std::to_chars(end, text.data() + text.size(), int{date.year()}).ptr;
  put(" ");
  put_two(time.hours().count());
  put(":");
  put_two(time.minutes().count());
  put(":");
  put_two(time.seconds().count());
  put(" -0000");
  out.append(text.data(), end);
}

std::string to_date(microseconds since_epoch) {
  std::string text;
  put_date(text, since_epoch);
  return text;
}

std::optional<microseconds> parse_date(std::string_view text) {
  auto words = split(text, " \t", true);
  if (words.size() == 6 && words[0].size() == 4 && words[0].back() == ',') {
    words.erase(words.begin());
  }
  if (words.size() != 5) return std::nullopt;
  const auto day_number = to_number(words[0]);
  const auto month_number = to_month(words[1]);
  const auto year_number = to_number(words[2]);
  const auto time = to_time_of_day(words[3]);
  const auto zone = to_zone(words[4]);
  if (!day_number || !month_number || !year_number || !time || !zone) return std::nullopt;
  if (*day_number > 31 || words[2].size() != 4) return std::nullopt;
  const year_month_day date{year(static_cast<int>(*year_number)), month(*month_number),
                            day(static_cast<unsigned>(*day_number))};
  if (!date.ok()) return std::nullopt;
  return sys_days(date).time_since_epoch() + *time - *zone;
}

void put_seconds(std::string& out, std::chrono::microseconds time) {
  const std::int64_t micros = time.count();
  if (micros < 0) out += '-';
  const std::uint64_t size = static_cast<std::uint64_t>(std::llabs(micros));
  put_number(out, size / 1000000);
  std::uint64_t rest = size % 1000000;
  if (rest == 0) return;
  std::array<char, 7> fraction{'.', '0', '0', '0', '0', '0', '0'};
  std::size_t end = 1;
  for (std::size_t i = fraction.size() - 1; i > 0; --i, rest /= 10) {
    fraction[i] = static_cast<char>('0' + rest % 10);
    if (end == 1 && fraction[i] != '0') end = i + 1;
  }
  out.append(fraction.data(), end);
}

}  // namespace holdfast::wire
