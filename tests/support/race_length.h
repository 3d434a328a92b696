#pragma once

#include <chrono>
#include <cstdlib>

namespace holdfast::testing {

/// How long a crowd is let loose: HOLDFAST_RACE_SECONDS, or a minute.
inline std::chrono::seconds race_length() {
  const char* given = std::getenv("HOLDFAST_RACE_SECONDS");
  return std::chrono::seconds(given ? std::atol(given) : 60);
}

}  // namespace holdfast::testing
