/// What the tests of the lease server's inside share.
#pragma once

#include <string>

#include "server/claim.h"

/// REQUIRE for where it is asked millions of times.
#define MUST(...)                             \
  do {                                        \
    if (!(__VA_ARGS__)) REQUIRE(__VA_ARGS__); \
  } while (false)

namespace holdfast::server {

/// A moment; the wall clock shows something else, so that a mix-up is seen.
inline Stamp at(std::int64_t micros) {
  return {Micros(micros), Micros(micros + 1'700'000'000'000'000)};
}

bool same(const Claim& one, const Claim& other);

/// Every field of a claim.
std::string told(const Claim& claim);

}  // namespace holdfast::server
