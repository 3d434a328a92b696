#include "claims/status.h"

#include <catch2/catch.hpp>

namespace holdfast::claims::testing {
namespace {

TEST_CASE("every word of a status is read back", "[claims]") {
  for (std::size_t i = 0; i < kStatusCount; ++i) {
    const auto status = static_cast<Status>(i);
    CHECK(to_status(word(status)) == status);
    CHECK(is_final(status) == (i >= 2));
  }
  CHECK_FALSE(to_status("Active"));
  CHECK_FALSE(to_status(""));
}

TEST_CASE("every word of a mode is read back", "[claims]") {
  for (std::size_t i = 0; i < kModeCount; ++i) {
    const auto mode = static_cast<Mode>(i);
    CHECK(to_mode(word(mode)) == mode);
  }
  CHECK_FALSE(to_mode("unknown"));
  CHECK_FALSE(to_mode(""));
}

}  // namespace
}  // namespace holdfast::claims::testing
