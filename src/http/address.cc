#include "http/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "base/text.h"

namespace holdfast::http {
namespace {

constexpr std::string_view kUnix = "unix:";

bool is_numeric(const std::string& host) {
  in6_addr bytes{};
  return ::inet_pton(AF_INET, host.c_str(), &bytes) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), &bytes) == 1;
}

/// "[HOST]:PORT" or "HOST:PORT" taken apart; an address with colons needs its brackets.
bool split_host(std::string_view text, std::string_view& host, std::string_view& port) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  host = text.substr(0, colon);
  port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
    return host.find(':') != std::string_view::npos;
  }
  return host.find(':') == std::string_view::npos;
}

}  // namespace

bool Address::is_loopback() const {
  return is_unix || host == "::1" || host.starts_with("127.");
}

std::optional<Address> parse_address(std::string_view text) {
  Address address;
  if (text.starts_with(kUnix)) {
    address.is_unix = true;
    address.path = text.substr(kUnix.size());
    if (address.path.empty()) return std::nullopt;
    return address;
  }
  std::string_view host;
  std::string_view port;
  if (!split_host(text, host, port)) return std::nullopt;
  const std::optional<std::uint64_t> number = to_number(port);
  if (!number || *number > 65535) return std::nullopt;
  address.host = host == "localhost" ? "127.0.0.1" : std::string(host);
  address.port = static_cast<std::uint16_t>(*number);
  if (!is_numeric(address.host)) return std::nullopt;
  return address;
}

}  // namespace holdfast::http
