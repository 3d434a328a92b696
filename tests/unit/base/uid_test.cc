#include "base/uid.h"

#include <catch2/catch.hpp>

using holdfast::Uid;

TEST_CASE("what can be one file name is an id and nothing else is", "[base]") {
  const auto [text, is_id] = GENERATE(table<std::string, bool>({
      {"1234:5678:1794792792", true},
      {"--help 1", true},
      {"-", true},
      {" ", true},
      {".hidden", true},
      {"...", true},
      {"a\tb", true},
      {std::string(255, 'x'), true},
      {std::string(256, 'x'), false},
      {"", false},
      {".", false},
      {"..", false},
      {"a/b", false},
      {"/", false},
      {"a\nb", false},
      {".gone.1", false},
      {".nfs0001", false},
  }));
  std::string why;
  const auto id = Uid::parse(text, why);
  INFO(text);
  CHECK(id.has_value() == is_id);
  CHECK(why.empty() == is_id);
  if (id) CHECK(id->str() == text);
}
