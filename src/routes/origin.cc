#include "routes/origin.h"

#include <arpa/inet.h>
#include <unistd.h>

#include <array>
#include <string>
#include <string_view>

#include "base/text.h"

namespace holdfast::routes {
namespace {

std::string in_small(std::string_view text) {
  std::string small(text);
  for (char& c : small) c = lower(c);
  return small;
}

/// "localhost" of "localhost:8420", "[::1]" of "[::1]:8420".
std::string without_port(const std::string& host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.find(':'));
}

bool is_address(const std::string& name) {
  in_addr ignored{};
  return name.starts_with('[') || inet_pton(AF_INET, name.c_str(), &ignored) == 1;
}

bool is_name_of_this_host(const std::string& name) {
  if (name == "localhost" || name.ends_with(".localhost")) return true;
  std::array<char, 256> own{};
  return gethostname(own.data(), own.size() - 1) == 0 && name == in_small(own.data());
}

}  // namespace

bool is_of_foreign_page(const http::Request& request, bool is_any_name_ours) {
  if (request.header("Sec-Fetch-Site") == "cross-site") return true;
  if (!request.has_header("Origin")) return false;
  const std::string origin = in_small(request.header("Origin"));
  const std::size_t scheme = origin.find("://");
  const std::string host = in_small(request.header("Host"));
  if (scheme == std::string::npos || origin.substr(scheme + 3) != host) return true;
  if (is_any_name_ours || request.peer().uid) return false;
  const std::string name = without_port(host);
  return !is_address(name) && !is_name_of_this_host(name);
}

}  // namespace holdfast::routes
