#include "wire/json.h"

#include <catch2/catch.hpp>

namespace holdfast::wire::testing {
namespace {

TEST_CASE("the members of an object come in order, nested ones as text", "[wire]") {
  Members members;
  REQUIRE(read_object(R"( {"a": 1.50, "b": [1, {"c": null}], "d": "\u00e4\"", "a": false} )", 3,
                      members) == JsonFault::none);
  REQUIRE(members.size() == 4);
  CHECK(members[0].key == "a");
  CHECK(members[0].value.text == "1.50");
  CHECK(members[0].value.real() == 1.5);
  CHECK_FALSE(members[0].value.whole());
  CHECK(find(members, "b")->kind == Value::Kind::nested);
  CHECK(find(members, "b")->text == R"([1,{"c":null}])");
  CHECK(find(members, "d")->is_string("\xC3\xA4\""));
  CHECK(find(members, "d")->json() == "\"\xC3\xA4\\\"\"");
  CHECK(find(members, "a")->kind == Value::Kind::boolean);
  CHECK(find(members, "e") == nullptr);
}

TEST_CASE("the elements of an array come in order", "[wire]") {
  std::vector<Value> elements;
  REQUIRE(read_array(R"([7, "x", null, {"a": 1}, []])", 2, elements) == JsonFault::none);
  REQUIRE(elements.size() == 5);
  CHECK(elements[0].whole() == 7);
  CHECK(elements[1].is_string("x"));
  CHECK(elements[2].is_null());
  CHECK(elements[3].text == R"({"a":1})");
  CHECK(elements[4].text == "[]");
  REQUIRE(read_array("[]", 1, elements) == JsonFault::none);
  CHECK(elements.empty());
}

TEST_CASE("a value of any kind is read alone", "[wire]") {
  Value value;
  REQUIRE(read_value(" \"a\" ", 1, value) == JsonFault::none);
  CHECK(value.is_string("a"));
  REQUIRE(read_value("{\"a\": [1, 2]}", 2, value) == JsonFault::none);
  CHECK(value.text == R"({"a":[1,2]})");
  REQUIRE(read_value("-1e3", 1, value) == JsonFault::none);
  CHECK(value.real() == -1000);
  const auto bad = GENERATE(as<std::string>(), "", " ", "1,2", "1],[2", "1 2", "nul", "'a'", "[1",
                            "1]", "NaN", "{a: 1}", "//", "\xEF\xBB\xBF 1");
  INFO(bad);
  CHECK(read_value(bad, 8, value) == JsonFault::not_json);
  CHECK_FALSE(value.is_there());
}

TEST_CASE("each fault is told apart, and leaves nothing behind", "[wire]") {
  Members members{{"old", {}}};
  CHECK(read_object("[1]", 4, members) == JsonFault::other_kind);
  CHECK(members.empty());
  CHECK(read_object("3", 4, members) == JsonFault::other_kind);
  CHECK(read_object("{\"a\": [[]]}", 2, members) == JsonFault::too_deep);
  CHECK(read_object("{\"a\": 1", 4, members) == JsonFault::not_json);
  CHECK(read_object(std::string("{}\0", 3), 4, members) == JsonFault::not_json);
  CHECK(read_object(R"({"a": "\ud800"})", 4, members) == JsonFault::not_json);
  CHECK(read_object(R"({"a": 1e999})", 4, members) == JsonFault::not_json);
  std::vector<Value> elements{{}};
  CHECK(read_array("{}", 4, elements) == JsonFault::other_kind);
  CHECK(elements.empty());
}

}  // namespace
}  // namespace holdfast::wire::testing
