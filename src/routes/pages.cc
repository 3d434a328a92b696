#include "routes/pages.h"

#include "routes/api.h"

namespace holdfast::routes {

void Api::get_dashboard(const Call& call) {
  http::Response response;
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
                       "frame-ancestors 'none'"},
                      {"X-Content-Type-Options", "nosniff"},
                      {"Referrer-Policy", "no-referrer"},
                      {"Cache-Control", "no-cache"}};
  response.body = dashboard_page();
  call.exchange->reply(std::move(response));
}

void Api::get_openapi(const Call& call) {
  reply(call, 200, std::string(openapi_file()));
}

}  // namespace holdfast::routes
