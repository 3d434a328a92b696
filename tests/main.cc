#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "support/process.h"

/// Asked by the thread sanitizer. It knows no openat2 and no close_range, so it takes a descriptor
/// number that was closed by one thread and given to another for one file that both use.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {
  return "race:disk/posix_disk.cc\nrace:disk/handle.cc\n";
}

/// 77 tells ctest that something was skipped; a failure is told as one whatever was skipped beside
/// it.
int main(int argc, char** argv) {
  constexpr int kSkipped = 77;
  const int failures = Catch::Session().run(argc, argv);
  return failures == 0 && holdfast::testing::was_skipped() ? kSkipped : failures;
}
