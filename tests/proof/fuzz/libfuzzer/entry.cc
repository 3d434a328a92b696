/// The door through which libFuzzer comes in; FUZZ_CHECK is one of the checks of surface.h. What is
/// thrown there ends the process, which libFuzzer takes for a finding.

#include <cstddef>
#include <cstdint>

#include "proof/fuzz/surface.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  holdfast::testing::FUZZ_CHECK({reinterpret_cast<const char*>(data), size});
  return 0;
}
