#include "routes/pages.h"

#include <openssl/evp.h>

#include <array>

#include "routes/api.h"

namespace holdfast::routes {
namespace {

/// What stands between the first <tag> and </tag>.
std::string_view inside(std::string_view page, const std::string& tag) {
  const std::string opening = "<" + tag + ">";
  const std::size_t from = page.find(opening) + opening.size();
  return page.substr(from, page.find("</" + tag + ">", from) - from);
}

/// As a policy names it: 'sha256-...'.
std::string hash_source(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha256(), nullptr);
  std::array<unsigned char, EVP_MAX_MD_SIZE + EVP_MAX_MD_SIZE> base64{};
  const int length = EVP_EncodeBlock(base64.data(), digest.data(), static_cast<int>(size));
  return "'sha256-" + std::string(base64.begin(), base64.begin() + length) + "'";
}

/// The page's own script and style, its own server, and nothing else: what somebody smuggled into
/// the page would neither run nor call home.
std::string policy_of(std::string_view page) {
  std::string policy = "default-src 'none'; style-src " + hash_source(inside(page, "style"));
  policy += "; script-src " + hash_source(inside(page, "script"));
  policy += "; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; ";
  policy += "frame-ancestors 'none'";
  return policy;
}

}  // namespace

void Api::get_dashboard(const Call& call) {
  static const std::string kPolicy = policy_of(dashboard_page());
  http::Response response;
  response.content_type = "text/html; charset=utf-8";
  response.headers = {{"Content-Security-Policy", kPolicy},
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
