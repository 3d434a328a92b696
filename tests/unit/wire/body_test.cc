#include "wire/body.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

using namespace holdfast::wire;
using namespace std::chrono_literals;

namespace {

const BodyLimits kLimits;

/// The parameters that are named in a refusal; none if the body was accepted.
template <class T>
std::set<std::string> blamed(const Parsed<T>& parsed) {
  std::set<std::string> names;
  if (const auto* faults = std::get_if<Faults>(&parsed)) {
    for (const auto& [name, why] : *faults) {
      if (why.empty()) FAIL(name << " without a reason");
      names.insert(name);
    }
    CHECK_FALSE(faults->empty());
  }
  return names;
}

std::set<std::string> blamed_in_post(const std::string& body) {
  return blamed(parse_new_claim(body, kLimits));
}

NewClaim posted(const std::string& body) {
  const auto parsed = parse_new_claim(body, kLimits);
  INFO(body);
  if (const auto* faults = std::get_if<Faults>(&parsed)) FAIL(to_json(*faults));
  return std::get<NewClaim>(parsed);
}

std::string with_ttl(const std::string& ttl) {
  return R"({"resource": "r", "ttl": )" + ttl + "}";
}

std::string with_name(const std::string& name) {
  return R"({"ttl": 1, "resource": )" + name + "}";
}

std::string with_data(const std::string& data) {
  return R"({"ttl": 1, "resource": "r", "user_data": )" + data + "}";
}

/// `depth` arrays in one another.
std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

}  // namespace

TEST_CASE("a ttl is a number of seconds, or text that is one", "[wire]") {
  const auto [text, micros] = GENERATE(table<std::string, std::int64_t>({
      {"0", 0},
      {"-0", 0},
      {"-0.0", 0},
      {"60", 60'000'000},
      {"1.5", 1'500'000},
      {"1e3", 1'000'000'000},
      {"1E-6", 1},
      {"1e-9", 0},
      {"1e9", 1'000'000'000'000'000},
      {"1e10", 10'000'000'000'000'000},
      {"10000000000", 10'000'000'000'000'000},
      {"\"60\"", 60'000'000},
      {"\"+60\"", 60'000'000},
      {"\"1.5\"", 1'500'000},
      {"\"1e3\"", 1'000'000'000},
      {"\"0\"", 0},
      {"\"-0\"", 0},
  }));
  CHECK(posted(with_ttl(text)).ttl.count() == micros);
  const auto change = parse_claim_change(R"({"ttl": )" + text + "}", kLimits);
  REQUIRE(std::holds_alternative<ClaimChange>(change));
  CHECK(std::get<ClaimChange>(change).ttl->count() == micros);
  CHECK_FALSE(std::get<ClaimChange>(change).status);
}

TEST_CASE("what is no ttl is refused by name", "[wire]") {
  const auto text =
      GENERATE(as<std::string>(), "null", "-1", "-1e-5", "\"-1\"", "1e11", "10000000001", "1e300",
               "18446744073709551616", "\"1e11\"", "\"1e400\"", "\"\"", "\" 60\"", "\"60 \"",
               "\"60s\"", "\"0x10\"", "\"nan\"", "\"NaN\"", "\"inf\"", "\"Infinity\"", "\"-inf\"",
               "\"1,5\"", "\"+-5\"", "\"++5\"", "\"--5\"", "\"1e\"", "\"e1\"", "\".\"", "\"-\"",
               "\"6\\u00000\"", "\"six\"", "true", "false", "[]", "[1]", "{}");
  INFO(text);
  CHECK(blamed_in_post(with_ttl(text)) == std::set<std::string>{"ttl"});
  CHECK(blamed(parse_claim_change(R"({"ttl": )" + text + "}", kLimits)) ==
        std::set<std::string>{"ttl"});
}

TEST_CASE("a name is kept to the byte, and a number is its decimal text", "[wire]") {
  const auto [text, name] = GENERATE(table<std::string, std::string>({
      {"\"r\"", "r"},
      {"\" r \"", " r "},
      {"\"\\t\\n\"", "\t\n"},
      {"\"a/b%2F\"", "a/b%2F"},
      {"\"\\u00e9\"", "\xC3\xA9"},
      {"\"e\xCC\x81\"", "e\xCC\x81"},
      {"\"\xF0\x9F\x94\x92\"", "\xF0\x9F\x94\x92"},
      {"\"\\ud83d\\udd12\"", "\xF0\x9F\x94\x92"},
      {"\"\\\"quoted\\\\\"", "\"quoted\\"},
      {"\"null\"", "null"},
      {"4711", "4711"},
      {"0", "0"},
      {"-5", "-5"},
      {"1.5", "1.5"},
      {"18446744073709551615", "18446744073709551615"},
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"1.50", "1.50"},
  }));
  CHECK(posted(with_name(text)).resource == name);
}

TEST_CASE("what is no name is refused by name", "[wire]") {
  const auto text = GENERATE(as<std::string>(), "null", "\"\"", "true", "false", "[]", "{}",
                             "[\"r\"]", R"({"a": 1})", R"("\u0000")", R"("a\u0000b")");
  INFO(text);
  CHECK(blamed_in_post(with_name(text)) == std::set<std::string>{"resource"});
}

TEST_CASE("a name may be as long as the limit and no longer", "[wire]") {
  BodyLimits limits;
  limits.max_name = 10;
  const auto parse = [&](std::size_t size) {
    return parse_new_claim(with_name('"' + std::string(size, 'n') + '"'), limits);
  };
  CHECK(std::get<NewClaim>(parse(10)).resource == std::string(10, 'n'));
  CHECK(blamed(parse(11)) == std::set<std::string>{"resource"});
  CHECK(posted(with_name('"' + std::string(16384, 'n') + '"')).resource.size() == 16384);
  CHECK(blamed_in_post(with_name('"' + std::string(16385, 'n') + '"')).size() == 1);
}

TEST_CASE("what is no JSON object is refused with a message", "[wire]") {
  const auto body = GENERATE(
      as<std::string>(), "", " ", "{", "}", "[]", "[1]", "\"x\"", "1", "null", "true", "nonsense",
      R"({"resource": "r", "ttl": 1)", R"({"resource": "r", "ttl": 1}})",
      R"({"resource": "r", "ttl": 1} x)", R"({"resource": "r", "ttl": 1,})",
      R"({'resource': 'r', 'ttl': 1})", R"({"resource": "r", "ttl": NaN})",
      R"({"resource": "r", "ttl": Infinity})", R"({"resource": "r", "ttl": -Infinity})",
      R"({"resource": "r", "ttl": 1e400})", R"({"resource": "r", "ttl": 01})",
      R"({"resource": "r", "ttl": +1})", R"({"resource": "r", "ttl": .5})",
      R"({"resource": "r", "ttl": 1, "user_data": 1e999})", R"({"resource": "\ud800", "ttl": 1})",
      R"({"resource": "\udc00\ud800", "ttl": 1})", R"({"resource": "\ud800x", "ttl": 1})",
      R"({"resource": "\udc00", "ttl": 1})", R"({"resource": "r", "ttl": 1, "\udfff": 1})",
      R"({"resource": "r", "ttl": 1, "user_data": {"\udfff": ["\udfff"]}})",
      R"({"resource": "r", "ttl": 1, "user_data": ["\udc00"]})",
      "{\"resource\": \"\xFF\", \"ttl\": 1}", "{\"resource\": \"\xC0\x80\", \"ttl\": 1}",
      "{\"resource\": \"\xED\xA0\x80\", \"ttl\": 1}", "{\"resource\": \"\xC3\", \"ttl\": 1}",
      "{\"resource\": \"\xF4\x90\x80\x80\", \"ttl\": 1}", "{\"resource\": \"a\nb\", \"ttl\": 1}",
      R"({"resource": "r", "ttl": 1, "user_data": "\ud800"})",
      "{\"resource\": \"r\", \"ttl\": 1, \"user_data\": \"\xFE\"}");
  INFO(body);
  const std::set<std::string> message{"message"};
  CHECK(blamed_in_post(body) == message);
  CHECK(blamed(parse_claim_change(body, kLimits)) == message);
  CHECK(blamed(parse_revocation(body, kLimits)) == message);
}

TEST_CASE("nesting is allowed down to the limit and refused below it", "[wire]") {
  // The body itself is one level.
  CHECK(posted(with_data(nested(99))).user_data == nested(99));
  CHECK(blamed_in_post(with_data(nested(100))) == std::set<std::string>{"message"});
  CHECK(blamed_in_post(with_data(nested(500000))) == std::set<std::string>{"message"});
  CHECK(blamed_in_post(std::string(1 << 20, '[')) == std::set<std::string>{"message"});
  std::string objects;
  for (int i = 0; i < 200; ++i) objects += "{\"a\":";
  CHECK(blamed_in_post(with_data(objects)) == std::set<std::string>{"message"});
  // Brackets in text are no nesting, whatever is escaped before them.
  const std::string brackets = '"' + std::string(R"(\\\")") + std::string(300, '[') + '"';
  CHECK(posted(with_data(brackets)).user_data == brackets);
  BodyLimits limits;
  limits.max_depth = 1;
  CHECK(std::holds_alternative<NewClaim>(parse_new_claim(with_ttl("1"), limits)));
  CHECK(blamed(parse_new_claim(with_data("[]"), limits)).size() == 1);
}

TEST_CASE("user data come back as they were given", "[wire]") {
  const auto data =
      GENERATE(as<std::string>(), "null", "true", "1", "-7", "0.25", "\"\"", "\"text\"", "[]", "{}",
               "[1,2]", R"({"a":[null,{"b":"c"}]})", "\"\xC3\xA9\"", R"("\u0000")",
               "18446744073709551615", "-9223372036854775808", R"(["\"","\\"])");
  using Json = nlohmann::json;
  CHECK(Json::parse(posted(with_data(data)).user_data) == Json::parse(data));
}

TEST_CASE("numbers in user data keep every digit, and blanks between tokens go", "[wire]") {
  const auto [given, kept] = GENERATE(table<std::string, std::string>({
      {"123456789012345678901234567890", "123456789012345678901234567890"},
      {"[ 0.10000000000000000000001 ,\n1e-400 ]", "[0.10000000000000000000001,1e-400]"},
      {"{ \"b\" : -0.0,\r\n\t\"a b\" : [ ] }", "{\"b\":-0.0,\"a b\":[]}"},
  }));
  CHECK(posted(with_data(given)).user_data == kept);
}

TEST_CASE("a byte order mark is no part of the body, and bytes behind a NUL are no end", "[wire]") {
  CHECK(posted("\xEF\xBB\xBF" + with_ttl("1")).ttl == 1s);
  CHECK(blamed_in_post(with_ttl("1") + std::string(1, '\0')) == std::set<std::string>{"message"});
  CHECK(blamed_in_post(with_ttl("1") + std::string("\0}", 2)) == std::set<std::string>{"message"});
}

TEST_CASE("user data that are absent are null", "[wire]") {
  CHECK(posted(with_ttl("1")).user_data == "null");
}

TEST_CASE("a body of a megabyte is read", "[wire]") {
  const std::string text = '"' + std::string(1 << 20, 'x') + '"';
  CHECK(posted(with_data(text)).user_data == text);
}

TEST_CASE("of a key that is given twice the last counts", "[wire]") {
  CHECK(posted(R"({"resource": "a", "ttl": 1, "resource": "b", "ttl": 2})").resource == "b");
  CHECK(posted(R"({"resource": "a", "ttl": 1, "resource": "b", "ttl": 2})").ttl == 2s);
}

TEST_CASE("all faults of a body are told at once", "[wire]") {
  using Names = std::set<std::string>;
  CHECK(blamed_in_post("{}") == Names{"resource", "ttl"});
  CHECK(blamed_in_post(R"({"resource": [], "ttl": "x", "mode": 1, "waiting_ttl": 0, "a": 1,
                           "b": 2})") == Names{"resource", "ttl", "mode", "waiting_ttl", "a", "b"});
  CHECK(blamed_in_post(R"({"Resource": "r", "TTL": 1})") ==
        Names{"resource", "ttl", "Resource", "TTL"});
  CHECK(blamed_in_post(R"({"resource": "r", "ttl": 1, "": 2})") == Names{""});
  CHECK(blamed_in_post(R"({"resource": "r", "ttl": 1, "status": "active"})") == Names{"status"});
}

TEST_CASE("a refusal names no parameter twice", "[wire]") {
  BodyLimits limits;
  limits.max_name = 3;
  const auto [body, names] = GENERATE(table<std::string, std::set<std::string>>({
      {R"({"resource": "long\u0000name", "ttl": 1})", {"resource"}},
      {R"({"resource": "r", "ttl": 1, "mode": "shared", "count": 0})", {"count"}},
  }));
  const auto parsed = parse_new_claim(body, limits);
  CHECK(blamed(parsed) == names);
  CHECK(std::get<Faults>(parsed).size() == names.size());
  const auto change = parse_claim_change(
      R"({"ttl": 1, "status": "active", "extra-parameters": 1, "missing-parameters": 2})", limits);
  CHECK(blamed(change).size() == std::get<Faults>(change).size());
}

TEST_CASE("a body of a hundred thousand unknown keys is refused in no time", "[wire]") {
  std::string body = R"({"resource": "r", "ttl": 1)";
  for (int i = 0; i < 100000; ++i) body += ", \"" + std::to_string(i) + "\": 0";
  const auto begin = std::chrono::steady_clock::now();
  CHECK(blamed_in_post(body + "}").size() == 100000);
  CHECK(std::chrono::steady_clock::now() - begin < 5s);
}

TEST_CASE("faults are one JSON object, whatever the key was", "[wire]") {
  const auto parsed =
      parse_new_claim("{\"resource\": 1, \"ttl\": 1, \"a\\\"\\n\\u0001\xC3\xA9\": 1}", kLimits);
  const auto json = nlohmann::json::parse(to_json(std::get<Faults>(parsed)));
  REQUIRE(json.size() == 1);
  CHECK(json.begin().key() == "a\"\n\x01\xC3\xA9");
  CHECK(json.begin()->is_string());
}

TEST_CASE("modes and counts", "[wire]") {
  const auto with = [](const std::string& more) {
    return R"({"resource": "r", "ttl": 1, )" + more + "}";
  };
  CHECK(posted(with_ttl("1")).mode == Mode::exclusive);
  CHECK(posted(with(R"("mode": "exclusive")")).mode == Mode::exclusive);
  CHECK(posted(with(R"("mode": "shared")")).mode == Mode::shared);
  CHECK(posted(with(R"("count": 1)")).mode == Mode::counted);
  CHECK(posted(with(R"("count": 1000000)")).count == 1000000);
  for (const std::string bad : {"null", "0", "-1", "1.0", "1.5", "\"3\"", "true", "[]", "1000001",
                                "4294967297", "1e3", "18446744073709551617"}) {
    INFO(bad);
    CHECK(blamed_in_post(with("\"count\": " + bad)) == std::set<std::string>{"count"});
  }
  for (const std::string bad : {"null", "\"Shared\"", "\"\"", "1", "\"counted\"", "[\"shared\"]"}) {
    INFO(bad);
    CHECK(blamed_in_post(with("\"mode\": " + bad)) == std::set<std::string>{"mode"});
  }
  CHECK(blamed_in_post(with(R"("mode": "shared", "count": 2)")) == std::set<std::string>{"count"});
}

TEST_CASE("a waiting_ttl is more than nothing", "[wire]") {
  const auto with = [](const std::string& silence) {
    return R"({"resource": "r", "ttl": 1, "waiting_ttl": )" + silence + "}";
  };
  CHECK(posted(with("0.5")).waiting_ttl == 500ms);
  CHECK(posted(with_ttl("1")).waiting_ttl == 0us);
  for (const std::string bad : {"0", "-1", "null", "\"x\"", "1e11", "true", "1e-9"}) {
    INFO(bad);
    CHECK(blamed_in_post(with(bad)) == std::set<std::string>{"waiting_ttl"});
  }
}

TEST_CASE("a change is one of ttl and status", "[wire]") {
  const auto change = [](const std::string& body) { return parse_claim_change(body, kLimits); };
  const auto [word, status] = GENERATE(table<std::string, Status>({
      {"active", Status::active},
      {"released", Status::released},
      {"aborted", Status::aborted},
      {"revoked", Status::revoked},
      {"withdrawn", Status::withdrawn},
  }));
  const auto parsed = change(R"({"status": ")" + word + "\"}");
  REQUIRE(std::holds_alternative<ClaimChange>(parsed));
  CHECK(std::get<ClaimChange>(parsed).status == status);
  CHECK_FALSE(std::get<ClaimChange>(parsed).ttl);

  using Names = std::set<std::string>;
  CHECK(blamed(change("{}")) == Names{"missing-parameters"});
  CHECK(blamed(change(R"({"status": null})")) == Names{"missing-parameters"});
  CHECK(blamed(change(R"({"status": "active", "status": null})")) == Names{"missing-parameters"});
  CHECK(blamed(change(R"({"ttl": 1, "status": null})")) == Names{"status", "extra-parameters"});
  CHECK(blamed(change(R"({"ttl": 1, "status": "active"})")) == Names{"extra-parameters"});
  CHECK(blamed(change(R"({"ttl": -1, "status": "x"})")) ==
        Names{"ttl", "status", "extra-parameters"});
  CHECK(blamed(change(R"({"ttl": 1, "x": 1})")) == Names{"x"});
  CHECK(blamed(change(R"({"x": 1})")) == Names{"missing-parameters", "x"});
  CHECK(blamed(change(R"({"resource": "r", "ttl": 1})")) == Names{"resource"});
  for (const std::string bad : {"\"waiting\"", "\"expired\"", "\"Active\"", "\"\"", "1",
                                "[\"active\"]", "{}", "true", "\"active\\u0000\""}) {
    INFO(bad);
    CHECK(blamed(change("{\"status\": " + bad + "}")) == Names{"status"});
  }
}

TEST_CASE("a revocation has a reason and a filter", "[wire]") {
  const auto parse = [](const std::string& body) { return parse_revocation(body, kLimits); };
  const auto all = parse(
      R"({"reason": "over", "claim": 7, "resource": "r", "owner": "o", "status": "waiting"})");
  REQUIRE(std::holds_alternative<Revocation>(all));
  const auto& wish = std::get<Revocation>(all);
  CHECK(wish.reason == "over");
  CHECK(wish.claim == 7);
  CHECK(wish.resource == "r");
  CHECK(wish.owner == "o");
  CHECK(wish.status == Status::waiting);
  CHECK(std::get<Revocation>(parse(R"({"reason": "x", "status": "active"})")).status ==
        Status::active);

  using Names = std::set<std::string>;
  CHECK(blamed(parse("{}")).count("reason") == 1);
  CHECK(blamed(parse(R"({"reason": "x"})")) == Names{"missing-parameters"});
  for (const std::string bad : {"null", "\"\"", "1", "[]", "\"a\\u0000b\""}) {
    INFO(bad);
    CHECK(blamed(parse(R"({"claim": 1, "reason": )" + bad + "}")) == Names{"reason"});
  }
  for (const std::string bad :
       {R"("claim": "7")", R"("claim": -1)", R"("claim": 1.5)", R"("claim": null)"}) {
    INFO(bad);
    CHECK(blamed(parse(R"({"reason": "x", )" + bad + "}")) == Names{"claim"});
  }
  CHECK(blamed(parse(R"({"reason": "x", "status": "expired"})")) == Names{"status"});
  CHECK(blamed(parse(R"({"reason": "x", "resource": ""})")) == Names{"resource"});
  CHECK(blamed(parse(R"({"reason": "x", "owner": []})")) == Names{"owner"});
  CHECK(blamed(parse(R"({"reason": "x", "all": true})")) == Names{"all"});
}

TEST_CASE("numbers in queries", "[wire]") {
  const auto [text, value] = GENERATE(table<std::string, double>({
      {"0", 0},
      {"+1", 1},
      {"-1.5", -1.5},
      {"1e3", 1000},
      {"5.", 5},
      {".5", .5},
      {"1700000000", 1700000000},
  }));
  CHECK(to_real(text) == value);
  const auto bad = GENERATE(as<std::string>(), "", " 1", "1 ", "nan", "inf", "0x1", "1_0", "+", "-",
                            "+-1", "-+1", "1e", "1e999", "1.2.3", "1-2", "\xC2\xB2");
  INFO(bad);
  CHECK_FALSE(to_real(bad));
}
