#pragma once

namespace holdfast::testing {

/// ThreadSanitizer does not know openat2(2) and close_range(2). If one thread closes a descriptor
/// by close_range and another one gets its number, ThreadSanitizer reports a race on one file that
/// both use. So under ThreadSanitizer both calls answer ENOSYS from now on, here and in all
/// children, and src/disk uses openat(2) and close(2) instead, as it does on old kernels. Elsewhere
/// does nothing.
void show_calls_to_sanitizer();

}  // namespace holdfast::testing
