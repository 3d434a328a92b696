#pragma once

namespace holdfast::cli {

inline constexpr const char* kVersion = HOLDFAST_VERSION;

}  // namespace holdfast::cli
