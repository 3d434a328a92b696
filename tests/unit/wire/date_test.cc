#include "wire/date.h"

#include <catch2/catch.hpp>
#include <ctime>
#include <random>

using namespace holdfast::wire;
using namespace std::chrono_literals;
using std::chrono::microseconds;
using std::chrono::seconds;

namespace {

/// The C library's opinion.
std::string reference(seconds time) {
  const std::time_t when = time.count();
  std::tm parts{};
  gmtime_r(&when, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S -0000", &parts);
  return text;
}

}  // namespace

TEST_CASE("a moment is told in UTC to the second", "[wire]") {
  CHECK(to_date(0us) == "Thu, 01 Jan 1970 00:00:00 -0000");
  CHECK(to_date(1794787316s) == "Mon, 16 Nov 2026 00:01:56 -0000");
  CHECK(to_date(1794787316s + 999999us) == "Mon, 16 Nov 2026 00:01:56 -0000");
  CHECK(to_date(-1us) == "Wed, 31 Dec 1969 23:59:59 -0000");
  CHECK(to_date(951782400s) == "Tue, 29 Feb 2000 00:00:00 -0000");
}

TEST_CASE("any moment from the year 1000 to 9999 comes back, from any zone", "[wire]") {
  std::mt19937_64 random(8420);
  std::uniform_int_distribution<std::int64_t> moments(-30610224000, 253402300799);
  std::uniform_int_distribution<int> zones(-14 * 60, 14 * 60);
  std::uniform_int_distribution<int> fractions(0, 999999);
  for (int i = 0; i < 20000; ++i) {
    const seconds moment(moments(random));
    const std::string text = to_date(moment + microseconds(fractions(random)));
    REQUIRE(text == reference(moment));
    REQUIRE(parse_date(text) == moment);
    const int zone = zones(random);
    std::string far = to_date(moment + std::chrono::minutes(zone));
    char offset[32];
    std::snprintf(offset, sizeof offset, "%c%02d%02d", zone < 0 ? '-' : '+', std::abs(zone) / 60,
                  std::abs(zone) % 60);
    far.replace(far.size() - 5, 5, offset);
    INFO(far);
    if (far.size() == text.size()) REQUIRE(parse_date(far) == moment);
  }
}

TEST_CASE("dates as others write them", "[wire]") {
  const auto text =
      GENERATE(as<std::string>(), "Mon, 16 Nov 2026 00:01:56 -0000", "16 Nov 2026 00:01:56 -0000",
               "Mon, 16 Nov 2026 00:01:56 GMT", "Mon, 16 Nov 2026 00:01:56 UT",
               "Mon,  16  Nov 2026\t00:01:56 +0000", "Mon, 16 Nov 2026 01:01:56 +0100",
               "Sun, 15 Nov 2026 16:01:56 -0800", "Mon, 16 Nov 2026 05:31:56 +0530");
  INFO(text);
  CHECK(parse_date(text) == 1794787316s);
  CHECK(parse_date("1 Jan 1970 00:00 -0000") == 0s);
  CHECK(parse_date("31 Dec 2016 23:59:60 -0000") == parse_date("1 Jan 2017 00:00:00 -0000"));
}

TEST_CASE("what is no date is refused", "[wire]") {
  const auto text = GENERATE(
      as<std::string>(), "", " ", "now", "1794787316", "Mon, 16 Nov 2026", "2026-11-16T00:01:56Z",
      "Mon, 16 Nov 2026 00:01:56", "Mon, 16 Nov 26 00:01:56 -0000",
      "Mon, 16 Nov 20260 00:01:56 -0000", "Mon, 32 Nov 2026 00:01:56 -0000",
      "Mon, 0 Nov 2026 00:01:56 -0000", "Mon, 31 Nov 2026 00:01:56 -0000",
      "Mon, 29 Feb 2026 00:01:56 -0000", "Mon, 16 Foo 2026 00:01:56 -0000",
      "Mon, 16 nov 2026 00:01:56 -0000", "Mon, 16 Nov 2026 24:01:56 -0000",
      "Mon, 16 Nov 2026 00:60:56 -0000", "Mon, 16 Nov 2026 00:01:61 -0000",
      "Mon, 16 Nov 2026 0:01:56 -0000", "Mon, 16 Nov 2026 00:01:56 0000",
      "Mon, 16 Nov 2026 00:01:56 -000", "Mon, 16 Nov 2026 00:01:56 +0160",
      "Mon, 16 Nov 2026 00:01:56 EST", "Mon, 16 Nov 2026 00:01:56 -0000 x",
      "Mon, -6 Nov 2026 00:01:56 -0000", "Mon, 16 Nov 2026 00:01:56:00 -0000",
      "Monday, 16 Nov 2026 00:01:56 -0000", "Mon, 99999999999999999999 Nov 2026 00:01:56 -0000",
      "Mon, 4294967312 Nov 2026 00:01:56 -0000");
  INFO(text);
  CHECK_FALSE(parse_date(text));
}
