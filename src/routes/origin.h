#pragma once

#include "http/message.h"

namespace holdfast::routes {

/// Whether a web page of somebody else made a browser send this, as far as the browser tells. It
/// does for all that changes something; clients that are no browsers never do.
///
/// A page is ours if it comes from the host that the request is for. Unless `is_any_name_ours` that
/// must be an address or a name of this host as well, since the owner of any other name may let it
/// mean 127.0.0.1 after the page was loaded. Over a unix socket only a proxy brings pages.
bool is_of_foreign_page(const http::Request& request, bool is_any_name_ours);

}  // namespace holdfast::routes
