/// POST /v1/claims/: what is granted, what is queued, what is refused and how.

#include <catch2/catch.hpp>
#include <regex>

#include "service.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::StartsWith;

namespace {

long count_of(const std::string& resource) {
  return static_cast<long>(service().list("limit=1000&resource=" + percent(resource)).size());
}

std::string nested(int levels) {
  return std::string(static_cast<std::size_t>(levels), '[') +
         std::string(static_cast<std::size_t>(levels), ']');
}

std::string with_user_data(const std::string& resource, const std::string& user_data) {
  return R"({"resource": )" + Json(resource).dump() + R"(, "ttl": 60, "user_data": )" + user_data +
         "}";
}

std::string repeated(const std::string& text, std::size_t times) {
  std::string all;
  for (std::size_t i = 0; i < times; ++i) all += text;
  return all;
}

}  // namespace

TEST_CASE("a free resource is granted at once with 201", "[server][post]") {
  const std::string name = fresh_name();
  const Reply reply = service().post({{"resource", name}, {"ttl", 60}, {"user_data", {{"a", 1}}}});
  REQUIRE(reply.status == 201);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  const Json claim = reply.json();
  CHECK(claim.at("resource") == name);
  CHECK(claim.at("status") == "active");
  CHECK(claim.at("user_data") == Json{{"a", 1}});
  CHECK(claim.at("ttl").get<double>() > 50);
  CHECK(claim.at("ttl").get<double>() <= 60);
  CHECK(claim.at("active_duration").get<double>() >= 0);
  CHECK(claim.at("waiting_duration").get<double>() >= 0);
  CHECK(claim.at("waiting_duration").get<double>() < 5);
}

TEST_CASE("a claim on a held resource is queued with 202", "[server][post]") {
  const std::string name = fresh_name();
  service().claim(name);
  const Reply reply = service().post(claim_body(name));
  REQUIRE(reply.status == 202);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  const Json claim = reply.json();
  CHECK(claim.at("status") == "waiting");
  CHECK(claim.at("ttl").is_null());
  CHECK(claim.at("active_duration").is_null());
  CHECK(claim.at("waiting_duration").get<double>() >= 0);
}

TEST_CASE("the history of a claim begins with waiting", "[server][post]") {
  const std::string name = fresh_name();
  const Json owner = service().show(service().claim(name));
  const Json waiter = service().show(service().claim(name));
  REQUIRE(owner.at("status_history").size() == 2);
  CHECK(owner.at("status_history")[0].at("status") == "waiting");
  CHECK(owner.at("status_history")[1].at("status") == "active");
  REQUIRE(waiter.at("status_history").size() == 1);
  CHECK(waiter.at("status_history")[0].at("status") == "waiting");
}

TEST_CASE("Location is the absolute URL of the claim, equal to its url", "[server][post]") {
  const std::string name = fresh_name();
  for (const int expected : {201, 202}) {
    const Reply reply = service().post(claim_body(name), {{"Host", "lab.example.org:8080"}});
    REQUIRE(reply.status == expected);
    const std::string url = reply.json().at("url");
    CHECK(reply.header("location") == url);
    CHECK(url == "http://lab.example.org:8080" + path_of(id_of(reply.json())));
  }
}

TEST_CASE("all replies show the same claim object", "[server][post]") {
  const Reply posted = service().post(claim_body(fresh_name()));
  const long id = id_of(posted.json());
  const auto fields = [](const Json& claim) {
    std::vector<std::string> names;
    for (const auto& [name, value] : claim.items()) names.push_back(name);
    return names;
  };
  const std::vector<std::string> expected = fields(posted.json());
  for (const char* name : {"url", "resource", "status", "created", "user_data", "ttl",
                           "active_duration", "waiting_duration", "status_history"})
    CHECK_THAT(expected, Catch::VectorContains(std::string(name)));
  CHECK(fields(service().show(id)) == expected);
  CHECK(fields(service().patch(id, {{"ttl", 50}}).json()) == expected);
  const Json all = service().list("resource=" + percent(posted.json().at("resource")));
  REQUIRE(all.size() == 1);
  CHECK(fields(all[0]) == expected);
}

TEST_CASE("instants are RFC 2822 text in UTC", "[server][post]") {
  const Json claim = service().show(service().claim(fresh_name()));
  const std::regex form(
      "(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) "
      "[0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} -0000");
  const std::string created = claim.at("created");
  CHECK(std::regex_match(created, form));
  for (const Json& item : claim.at("status_history"))
    CHECK(std::regex_match(item.at("timestamp").get<std::string>(), form));
  std::tm parts{};
  REQUIRE(strptime(created.c_str(), "%a, %d %b %Y %H:%M:%S", &parts) != nullptr);
  CHECK(std::abs(std::difftime(timegm(&parts), std::time(nullptr))) < 60);
}

TEST_CASE("a number as resource is taken as its text", "[server][post]") {
  const auto [given, text] =
      GENERATE(table<std::string, std::string>({{"4711", "4711"},
                                                {"0", "0"},
                                                {"-7", "-7"},
                                                {"2.5", "2.5"},
                                                {"18446744073709551615", "18446744073709551615"}}));
  const Reply reply = service().post_text(R"({"resource": )" + given + R"(, "ttl": 60})");
  CHECK((reply.status == 201 || reply.status == 202));
  CHECK(reply.json().at("resource") == text);
}

TEST_CASE("a number and the text of it are one resource", "[server][post]") {
  const std::string name = std::to_string(getpid()) + "00417";
  CHECK(service().post_text(R"({"resource": )" + name + R"(, "ttl": 60})").status == 201);
  CHECK(service().post(claim_body(name)).status == 202);
}

TEST_CASE("a ttl may be a numeric string", "[server][post]") {
  const std::string ttl = GENERATE("60", "60.5", "6e1");
  const Reply reply = service().post({{"resource", fresh_name()}, {"ttl", ttl}});
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("ttl").get<double>() > 50);
  CHECK(reply.json().at("ttl").get<double>() <= 61);
}

TEST_CASE("a ttl may be nothing, a fraction, or thirty years", "[server][post]") {
  const double ttl = GENERATE(0.0, 0.25, 1e9, 1e10);
  const Reply reply = service().post(claim_body(fresh_name(), ttl));
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("ttl").get<double>() <= ttl);
  CHECK(reply.json().at("ttl").get<double>() > ttl - 20);
  CHECK(service().get(path_of(id_of(reply.json()))).status == 200);
}

TEST_CASE("a claim with a ttl of thirty years can wait and be promoted", "[server][post]") {
  const std::string name = fresh_name();
  const long owner = service().claim(name);
  const long waiter = service().claim(name, 1e9);
  CHECK(service().patch(owner, {{"status", "released"}}).status == 204);
  CHECK(service().show(waiter).at("ttl").get<double>() > 9e8);
}

TEST_CASE("user_data comes back as it was given", "[server][post]") {
  const std::string text = GENERATE(
      "null", "true", "false", "0", "-1", "3.25", "1e300", "18446744073709551615",
      "-9223372036854775808", R"("")", R"("text")", R"("\u0000 in it")", R"("\ud83d\ude00 \u00e9")",
      "[]", "[1, 2, 3]", R"([{"a": []}, null])", "{}", R"({"b": {"c": [1.5, "x"]}, "": 0})");
  const Reply reply = service().post_text(with_user_data(fresh_name(), text));
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("user_data") == Json::parse(text));
  CHECK(service().show(id_of(reply.json())).at("user_data") == Json::parse(text));
}

TEST_CASE("absent user_data is null", "[server][post]") {
  CHECK(service().show(service().claim(fresh_name())).at("user_data").is_null());
}

TEST_CASE("names are kept byte by byte", "[server][post]") {
  const std::string given =
      GENERATE(as<std::string>{}, " blanks ", "\t\n", "UPPER lower", "a/b//c/", "..", "%41",
               "a+b&c=d", "\xc3\xa9", "e\xcc\x81", "\xf0\x9f\x98\x80", "\xe2\x80\xae",
               "\x01\x1f\x7f", "\"\\'", "\xef\xbf\xbf\xef\xbb\xbf", "null", "';--");
  const std::string name = fresh_name() + given;
  const Reply reply = service().post(claim_body(name));
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("resource") == name);
  CHECK(service().show(id_of(reply.json())).at("resource") == name);
  CHECK(count_of(name) == 1);
}

TEST_CASE("names that look alike are different resources", "[server][post]") {
  const std::string stem = fresh_name();
  const auto [one, other] = GENERATE(table<std::string, std::string>({{"\xc3\xa9", "e\xcc\x81"},
                                                                      {"a", "A"},
                                                                      {"x", "x "},
                                                                      {"x", " x"},
                                                                      {"/", "//"},
                                                                      {"ss", "\xc3\x9f"}}));
  CHECK(service().post(claim_body(stem + one)).status == 201);
  CHECK(service().post(claim_body(stem + other)).status == 201);
}

TEST_CASE("a name may have ten thousand bytes of any UTF-8", "[server][post]") {
  const std::string piece = GENERATE("x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80");
  const std::string stem = fresh_name();
  const std::string name = stem + repeated(piece, 10000 / piece.size());
  const Reply reply = service().post(claim_body(name));
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("resource") == name);
  CHECK(service().post(claim_body(name)).status == 202);
  CHECK(service().post(claim_body(name + "y")).status == 201);
  CHECK(count_of(name) == 2);
}

TEST_CASE("ten thousand bytes without any repetition are a name too", "[server][post]") {
  std::string name = fresh_name();  // nothing for a store to compress
  unsigned seed = 1;
  while (name.size() < 10000) {
    seed = seed * 1103515245U + 12345U;
    name += static_cast<char>('!' + (seed >> 16U) % 94U);
  }
  CHECK(service().post(claim_body(name)).status == 201);
  CHECK(service().post(claim_body(name)).status == 202);
}

TEST_CASE("a body of 1 MiB works", "[server][post]") {
  const std::string name = fresh_name();
  std::string body = with_user_data(name, "\"\"");
  body.insert(body.size() - 2, std::string((1U << 20U) - body.size(), 'x'));
  REQUIRE(body.size() == 1U << 20U);
  const Reply reply = service().post_text(body);
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("user_data") == Json::parse(body).at("user_data"));
  CHECK(service().show(id_of(reply.json())).at("user_data").get<std::string>().size() > 1000000);
}

TEST_CASE("a body of 10 MiB is refused with 413", "[server][post]") {
  const std::string name = fresh_name();
  const Reply reply =
      service().post_text(with_user_data(name, '"' + std::string(10U << 20U, 'x') + '"'));
  CHECK(reply.status == 413);
  CHECK(count_of(name) == 0);
}

TEST_CASE("sixty levels of user_data are kept", "[server][post]") {
  const std::string deep = nested(60);
  const Reply reply = service().post_text(with_user_data(fresh_name(), deep));
  REQUIRE(reply.status == 201);
  CHECK(reply.json().at("user_data") == Json::parse(deep));
}

TEST_CASE("nesting deeper than a thousand levels is refused", "[server][post]") {
  const int levels = GENERATE(1001, 100000, 400000);
  const std::string name = fresh_name();
  const std::string unclosed(static_cast<std::size_t>(levels), '[');
  for (const std::string& body : {with_user_data(name, nested(levels)), nested(levels),
                                  with_user_data(name, unclosed), unclosed})
    CHECK(service().post_text(body).status == 400);
  CHECK(count_of(name) == 0);
}

TEST_CASE("a parameter at fault is named with the reason, and nothing is queued",
          "[server][post]") {
  struct Fault {
    const char* body;  ///< NAME stands for the resource
    std::vector<std::string> keys;
  };
  const auto fault = GENERATE(values<Fault>({
      {R"({})", {"resource", "ttl"}},
      {R"({"ttl": 60})", {"resource"}},
      {R"({"resource": null, "ttl": 60})", {"resource"}},
      {R"({"resource": "", "ttl": 60})", {"resource"}},
      {R"({"resource": true, "ttl": 60})", {"resource"}},
      {R"({"resource": ["NAME"], "ttl": 60})", {"resource"}},
      {R"({"resource": {"NAME": 1}, "ttl": 60})", {"resource"}},
      {R"({"resource": "a\u0000b", "ttl": 60})", {"resource"}},
      {R"({"resource": "NAME"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": null})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": -1})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": -0.001})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": ""})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "soon"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "60 s"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "-1"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "NaN"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "inf"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "Infinity"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "1e400"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": "0x10"})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": 1e11})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": 10000000001})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": 99999999999999999999999})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": true})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": [60]})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": {}})", {"ttl"}},
      {R"({"resource": "NAME", "ttl": 60, "colour": "red"})", {"colour"}},
      {R"({"resource": "NAME", "ttl": 60, "status": "active"})", {"status"}},
      {R"({"resource": "", "ttl": -1, "colour": 1})", {"resource", "ttl", "colour"}},
      {R"({"resource": null, "ttl": "x"})", {"resource", "ttl"}},
  }));
  const std::string name = fresh_name();
  const std::string body = std::regex_replace(fault.body, std::regex("NAME"), name);
  CAPTURE(body);
  const Reply reply = service().post_text(body);
  CHECK(reply.status == 400);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  const Json reasons = reply.json();
  REQUIRE(reasons.is_object());
  for (const std::string& key : fault.keys) {
    CAPTURE(key, reply.body);
    CHECK(reasons.contains(key));
    CHECK_FALSE(reasons.value(key, "").empty());
  }
  CHECK(reasons.size() == fault.keys.size());
  CHECK(count_of(name) == 0);
  CHECK(service().post(claim_body(name)).status == 201);
}

TEST_CASE("a body that is no JSON object is refused with a message", "[server][post]") {
  const std::string body = GENERATE_COPY(from_range(
      std::vector<std::string>{"",
                               " ",
                               "{",
                               "}",
                               "nonsense",
                               "[]",
                               "[1]",
                               "\"text\"",
                               "42",
                               "null",
                               "true",
                               R"({"resource": "x", "ttl": NaN})",
                               R"({"resource": "x", "ttl": Infinity})",
                               R"({"resource": "x", "ttl": -Infinity})",
                               R"({"resource": "x", "ttl": 60,})",
                               R"({"resource": "x" "ttl": 60})",
                               R"({"resource": "x", "ttl": 60} x)",
                               R"({"resource": "x", "ttl": 60}{"resource": "y", "ttl": 60})",
                               R"({'resource': 'x', 'ttl': 60})",
                               R"({"resource": "x", "ttl": 060})",
                               R"({"resource": "x", "ttl": +60})",
                               R"({"resource": "x", "ttl": .5})",
                               "{\"resource\": \"a\nb\", \"ttl\": 60}",
                               "{\"resource\": \"\xff\xfe\", \"ttl\": 60}",
                               "{\"resource\": \"\xc3\", \"ttl\": 60}",
                               "{\"resource\": \"\xc0\x80\", \"ttl\": 60}",
                               "{\"resource\": \"\xed\xa0\x80\", \"ttl\": 60}",
                               "{\"resource\": \"\xf4\x90\x80\x80\", \"ttl\": 60}",
                               "{\"resource\": \"x\", \"ttl\": 60, \"user_data\": \"\x80\"}",
                               std::string("{\"resource\": \"a\0b\", \"ttl\": 60}", 30),
                               std::string(1, '\0'),
                               R"({"resource": "\ud800", "ttl": 60})",
                               R"({"resource": "\udc00x", "ttl": 60})",
                               R"({"resource": "x", "ttl": 60, "user_data": "\ud800"})",
                               R"({"resource": "x", "ttl": 60, "user_data": {"\udfff": 1}})",
                               R"({"resource": "\u00g0", "ttl": 60})",
                               R"({"resource": "\x41", "ttl": 60})"}));
  CAPTURE(body);
  const Reply reply = service().post_text(body);
  CHECK(reply.status == 400);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK_FALSE(reply.json().value("message", "").empty());
}

TEST_CASE("a ttl beyond all numbers is refused", "[server][post]") {
  const std::string ttl = GENERATE("1e400", "-1e400", "1e999999999999999999999");
  const std::string name = fresh_name();
  const Reply reply =
      service().post_text(R"({"resource": )" + Json(name).dump() + R"(, "ttl": )" + ttl + "}");
  CHECK(reply.status == 400);
  CHECK(reply.json().is_object());
  CHECK(count_of(name) == 0);
}

TEST_CASE("a body must be called JSON", "[server][post]") {
  const std::string type =
      GENERATE("", "text/plain", "application/x-www-form-urlencoded", "application/jsonx");
  const std::string name = fresh_name();
  Headers headers;
  if (!type.empty()) headers.emplace_back("Content-Type", type);
  const Reply reply = service().send({.method = "POST",
                                      .target = "/v1/claims/",
                                      .body = claim_body(name).dump(),
                                      .headers = headers});
  CHECK(reply.status == 415);
  CHECK_THAT(reply.header("content-type"), StartsWith("application/json"));
  CHECK(count_of(name) == 0);
}

TEST_CASE("the JSON type may say its character set", "[server][post]") {
  const std::string type = GENERATE("application/json; charset=utf-8",
                                    "application/json;charset=UTF-8", "Application/JSON");
  CHECK(service()
            .send({.method = "POST",
                   .target = "/v1/claims/",
                   .body = claim_body(fresh_name()).dump(),
                   .headers = {{"Content-Type", type}}})
            .status == 201);
}

TEST_CASE("a refused claim leaves a waiting queue as it was", "[server][post]") {
  const std::string name = fresh_name();
  service().claim(name);
  const long waiter = service().claim(name);
  CHECK(service().post(claim_body(name, -1)).status == 400);
  CHECK(service().post_text(R"({"resource": )" + Json(name).dump() + "").status == 400);
  CHECK(service().ids("resource=" + percent(name) + "&status=waiting") == std::vector{waiter});
}

TEST_CASE("ids grow and are never given twice", "[server][post]") {
  long last = 0;
  for (int i = 0; i < 20; ++i) {
    const long id = service().claim(fresh_name());
    CHECK(id > last);
    last = id;
    service().patch(id, {{"status", "released"}});
  }
}
