#include "base/text.h"

#include <catch2/catch.hpp>

#include "support/process.h"

using namespace holdfast;

TEST_CASE("a word for a shell is read by a shell as it was", "[base]") {
  const std::string text =
      GENERATE("plain", "/srv/a.lock", "12:34:56", "two words", "it's", "$(reboot)", "a;b", "*", "",
               "-n", "back\\slash", "new\nline", "'''");
  CHECK(testing::shell("printf '[%s]' " + shell_word(text)).out == "[" + text + "]");
}

TEST_CASE("a word without special characters is not quoted", "[base]") {
  CHECK(shell_word("/srv/a.lock") == "/srv/a.lock");
  CHECK(shell_word("host:12:34:56") == "host:12:34:56");
}
