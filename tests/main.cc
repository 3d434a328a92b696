#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>

/// Asked by the thread sanitizer. It knows no openat2 and no close_range, so it takes a descriptor
/// number that was closed by one thread and given to another for one file that both use.
extern "C" const char* __tsan_default_suppressions();  // NOLINT(bugprone-reserved-identifier)
extern "C" const char* __tsan_default_suppressions() {
  return "race:disk/posix_disk.cc\nrace:disk/handle.cc\n";
}
