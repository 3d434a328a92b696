#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast::http {

/// Where a server listens: "127.0.0.1:8420", "[::1]:0", "localhost:80", "unix:/run/holdfastd.sock".
struct Address {
  bool is_unix = false;
  std::string host;  ///< numeric, without brackets
  std::uint16_t port = 0;
  std::string path;  ///< of the unix socket

  bool is_loopback() const;  ///< nobody but this host can connect
};

std::optional<Address> parse_address(std::string_view text);

}  // namespace holdfast::http
