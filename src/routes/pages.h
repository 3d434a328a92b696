#pragma once

#include <string_view>

namespace holdfast::routes {

/// Files that are part of the program; cmake/embed.cmake makes them.
std::string_view dashboard_page();
std::string_view openapi_file();

}  // namespace holdfast::routes
