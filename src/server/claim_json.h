#pragma once

#include <string>
#include <string_view>

#include "server/store.h"

namespace holdfast::server {

/// Seconds as a JSON number, to the microsecond: 60, 0.25, -1.5.
void put_seconds(std::string& out, Micros time);

/// The claim object of the API, as things stood at `now`. `url_base` is what stands before the id;
/// empty: an object without a url, for files.
void put_claim(std::string& out, const View& view, Stamp now, std::string_view url_base);

}  // namespace holdfast::server
