#include <catch2/catch.hpp>

#include "race.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;

TEST_CASE("somebody who removes every empty folder lets no second holder in", "[race]") {
  const TempDir dir;
  race_and_check("with a remover", dir.path(),
                 {.sections = 4'000, .tool_sections = 80, .has_remover = true});
}

TEST_CASE("somebody who cleans away live proposals lets no second holder in", "[race]") {
  const TempDir dir;
  race_and_check("with a cleaner", dir.path(),
                 {.sections = 3'000, .tool_sections = 60, .has_cleaner = true});
}
