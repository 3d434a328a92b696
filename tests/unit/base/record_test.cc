#include "base/record.h"

#include <catch2/catch.hpp>

using namespace holdfast;

namespace {

Record full() {
  Record r;
  r.host = "build7";
  r.boot = "801b75f9-3a0d-4112-b5aa-d9413b05eedc";
  r.pidns = "pid:[4026531836]";
  r.timens = "time:[4026531834]";
  r.pid = 4242;
  r.start = 5120;
  r.nonce = "00ff";
  r.uid = 0;
  r.user = "anna";
  r.cmd = "make";
  r.since = "2026-11-16T02:10:59Z";
  return r;
}

}  // namespace

TEST_CASE("a record reads back as it was written", "[base]") {
  const std::string cmd =
      GENERATE("make", "say \"hi\" \\ there", "a\tb\nc", "gr\xC3\xBC\xC3\x9F", "");
  Record r = full();
  r.cmd = cmd;
  const std::string line = to_line(r);
  CHECK(line.find('\n') == line.size() - 1);
  const auto back = parse_record(line);
  REQUIRE(back);
  CHECK(back->cmd == cmd);
  CHECK(back->pid == 4242);
  CHECK(back->start == 5120);
  CHECK(back->uid == 0U);
  CHECK(to_line(*back) == line);
}

TEST_CASE("bytes that are no text do not break a record", "[base]") {
  Record r = full();
  r.cmd = "\xFF\xC3(\xE2\x82";
  const auto back = parse_record(to_line(r));
  REQUIRE(back);
  CHECK(back->cmd == std::string("??") + "(??");
}

TEST_CASE("what is no whole record is no record", "[base]") {
  const std::string text =
      GENERATE("", "{", "{}", "[]", "null", "{\"v\":2,\"pid\":1}", "{\"pid\":1}", "{\"v\":1",
               "{\"v\":1,\"pid\":\"x}", "{\"v\":1,\"pid\":-1}", "{\"v\":1,\"pid\":1.5}",
               "{\"v\":1} x", "{\"v\":1,\"cmd\":\"\\q\"}", "{\"v\":1,\"cmd\":{}}",
               "{\"v\":1,\"pid\":99999999999999999999999}");
  INFO(text);
  CHECK_FALSE(parse_record(text));
}

TEST_CASE("every beginning of a record is no record", "[base]") {
  const std::string line = to_line(full());
  for (std::size_t length = 0; length + 2 < line.size(); ++length) {
    INFO(line.substr(0, length));
    CHECK_FALSE(parse_record(line.substr(0, length)));
  }
}

TEST_CASE("a record of a later kind with more fields is still read", "[base]") {
  const auto r = parse_record("{ \"v\" : 1 , \"pid\" : 7 , \"colour\" : \"blue\", \"n\":3 }\n");
  REQUIRE(r);
  CHECK(r->pid == 7);
}

TEST_CASE("only a record with pid boot and namespace names a process", "[base]") {
  CHECK(full().names_process());
  CHECK_FALSE(Record{}.names_process());
  Record r = full();
  r.boot.clear();
  CHECK_FALSE(r.names_process());
}

TEST_CASE("a moment is written in UTC to the second", "[base]") {
  using namespace std::chrono;
  const auto [at, text] = GENERATE(table<long, std::string>({
      {0, "1970-01-01T00:00:00Z"},
      {951782400, "2000-02-29T00:00:00Z"},
      {1794795059, "2026-11-16T02:10:59Z"},
  }));
  CHECK(to_since(system_clock::time_point(seconds(at))) == text);
}

TEST_CASE("a description names what is known", "[base]") {
  CHECK(describe(full()) == "pid 4242 (make) of anna (uid 0) on build7 since 2026-11-16T02:10:59Z");
  Record r;
  r.host = "build7";
  CHECK(describe(r) == "on build7");
  CHECK(describe(Record{}) == "someone who left no record");
}

TEST_CASE("a time that a record names is read back, and what is no time is not", "[base]") {
  const auto when = std::chrono::system_clock::time_point(std::chrono::seconds(1'763'455'234));
  CHECK(parse_since(to_since(when)) == when);
  for (const char* text : {"", "2026-11-16", "2026-13-16T01:40:34Z", "2026-11-16T01:40:34", "x"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_since(text));
  }
}
