#include "base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "support/temp_dir.h"

using namespace holdfast;

namespace {

/// What `action` writes to stderr.
template <class Action>
std::string stderr_of(Action action) {
  const testing::TempDir dir;
  const int saved = dup(STDERR_FILENO);
  const int file = open((dir / "err").c_str(), O_CREAT | O_RDWR, 0600);
  dup2(file, STDERR_FILENO);
  action();
  dup2(saved, STDERR_FILENO);
  close(saved);
  close(file);
  return testing::read_file(dir / "err");
}

void say_all(const Log& log) {
  log.debug("d{}", 1);
  log.info("i{}", 2);
  log.warn("w{}", 3);
  log.error("e{}", 4);
}

}  // namespace

TEST_CASE("each level writes its lines in the shell's form", "[base]") {
  CHECK(stderr_of([] { say_all(Log(Log::Level::silent)); }).empty());
  CHECK(stderr_of([] { say_all(Log()); }) == "w3\n ERROR - e4\n");
  CHECK(stderr_of([] { say_all(Log(Log::Level::info)); }) == "i2\nw3\n ERROR - e4\n");
}

TEST_CASE("one that tells once tells each warning once, and so do its copies", "[base]") {
  const auto say_twice = [](const Log& log) {
    const Log copy = log;
    for (const Log* one : {&log, &copy, &log}) say_all(*one);
    log.warn("another");
  };
  CHECK(stderr_of([&] { say_twice(Log().telling_once()); }) ==
        "w3\n ERROR - e4\n ERROR - e4\n ERROR - e4\nanother\n");
  const std::string all = stderr_of([&] { say_twice(Log(Log::Level::debug).telling_once()); });
  CHECK(std::count(all.begin(), all.end(), '\n') == 13);
}

TEST_CASE("a line stays one line and moves no cursor whatever an id contains", "[base]") {
  CHECK(stderr_of([] { Log().warn("{}", "a\033[2Jb\nc\x7F"); }) == "a?[2Jb?c?\n");
}

TEST_CASE("at debug every line begins with the date", "[base]") {
  const std::string text = stderr_of([] { say_all(Log(Log::Level::debug)); });
  CHECK_THAT(text, Catch::Matches(
                       "([A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9][0-9] [0-9:]{8} [A-Z0-9+-]+ [0-9]{4} "
                       "( ERROR - )?[diwe][1-4]\n){4}"));
}
