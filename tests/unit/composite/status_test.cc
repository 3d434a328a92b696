#include "composite/status.h"

#include <catch2/catch.hpp>

using namespace holdfast::composite;
using holdfast::lock::Mode;

TEST_CASE("an idle service status is the four empty fields in their order", "[composite]") {
  CHECK(to_ids_json({}) == R"({"opsQueue":[],"lockCount":0,"locks":[],"failures":[]})");
  CHECK(to_json({}) == R"({"lockCount":0,"locks":[],"failures":[]})");
}

TEST_CASE("a service status has ids as numbers and counts datasets, not holds", "[composite]") {
  const Status status{{{"7003", Mode::exclusive, 1}, {"7011", Mode::shared, 3, {"a", "b", "c"}}},
                      {{"7020", "full"}, {"7021", ""}}};
  CHECK(to_ids_json(status) ==
        R"({"opsQueue":[],"lockCount":2,"locks":[{"id":7003,"type":"EXCLUSIVE","count":1},)"
        R"({"id":7011,"type":"SHARED","count":3}],"failures":[7020,7021]})");
}

TEST_CASE("a service status leaves out what is no plain 64-bit number", "[composite]") {
  using Row = std::tuple<std::string, bool>;
  const auto [id, is_listed] = GENERATE(table<std::string, bool>({
      Row{"0", true},
      Row{"-5", true},
      Row{"9223372036854775807", true},
      Row{"9223372036854775808", false},
      Row{"-9223372036854775808", true},
      Row{"007", false},
      Row{"-0", false},
      Row{"+7", false},
      Row{"7 ", false},
      Row{" 7", false},
      Row{"7.5", false},
      Row{"0x7", false},
      Row{"1e3", false},
      Row{"run-7", false},
      Row{"", false},
  }));
  const std::string json = to_ids_json({{{id, Mode::shared, 2}}, {{id, "why"}}});
  CHECK(json == (is_listed ? R"({"opsQueue":[],"lockCount":1,"locks":[{"id":)" + id +
                                 R"(,"type":"SHARED","count":2}],"failures":[)" + id + "]}"
                           : to_ids_json({})));
}

TEST_CASE("the native status has every lock, its holders and the reasons of failures",
          "[composite]") {
  const Status status{{{"say \"hi\"\n", Mode::exclusive, 1, {"pid 42 of anna"}},
                       {"7011", Mode::shared, 2, {"x", "y\xFF"}}},
                      {{"run-8", "Input/output error"}}};
  CHECK(to_json(status) ==
        R"({"lockCount":2,"locks":[)"
        R"({"id":"say \"hi\"\u000a","type":"EXCLUSIVE","count":1,"holders":["pid 42 of anna"]},)"
        R"({"id":"7011","type":"SHARED","count":2,"holders":["x","y?"]}],)"
        R"("failures":[{"id":"run-8","why":"Input/output error"}]})");
}
