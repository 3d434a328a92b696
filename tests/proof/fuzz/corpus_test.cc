/// Every file of the corpus, those that once broke something among them.

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "proof/fuzz/surface.h"
#include "support/process.h"

namespace {

using namespace holdfast::testing;

std::vector<std::filesystem::path> seeds(const std::string& surface) {
  const std::filesystem::path folder = source_dir();
  std::vector<std::filesystem::path> files;
  for (const auto& file :
       std::filesystem::directory_iterator(folder / "tests/proof/fuzz/corpus" / surface)) {
    files.push_back(file.path());
  }
  return files;
}

std::string bytes_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string reply(const std::string& status, const std::string& body,
                  const std::string& more = "") {
  return "HTTP/1.1 " + status + "\r\nServer: holdfastd\r\nX-Request-Id: 1\r\n" +
         "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n" + more + "\r\n" + body;
}

}  // namespace

TEST_CASE("no body, date or target of the corpus breaks a parser", "[fuzz]") {
  REQUIRE(seeds("wire").size() > 20);
  for (const auto& file : seeds("wire")) {
    INFO(file);
    CHECK_NOTHROW(check_wire(bytes_of(file)));
  }
}

TEST_CASE("no bytes of the corpus get an improper reply or an unsound store", "[fuzz]") {
  REQUIRE(seeds("http").size() > 20);
  for (const auto& file : seeds("http")) {
    INFO(file);
    CHECK_NOTHROW(check_http(bytes_of(file)));
  }
}

TEST_CASE("replies out of form are noticed", "[fuzz]") {
  CHECK_NOTHROW(check_replies(reply("200 OK", "[]") + reply("400 Bad Request", "{}"), false));
  CHECK_NOTHROW(check_replies("HTTP/1.1 100 Continue\r\n\r\n" + reply("201 Created", "{}"), false));
  CHECK_THROWS_AS(check_replies(reply("500 Internal Server Error", "{}"), false), Broken);
  CHECK_THROWS_AS(check_replies(reply("200 OK", "[}"), false), Broken);
  CHECK_THROWS_AS(check_replies(reply("200 OK", "\"\xff\""), false), Broken);
  CHECK_THROWS_AS(check_replies(reply("200 OK", "[]").substr(0, 30), false), Broken);
  CHECK_THROWS_AS(check_replies(reply("200 OK", "[1, 2]").substr(0, 110), false), Broken);
  CHECK_THROWS_AS(check_replies(reply("200 OK", "[]", "X: a\x01 b\r\n"), false), Broken);
  CHECK_THROWS_AS(check_replies("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false), Broken);
}
