#include "identity/ssh_uid.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace holdfast::identity {
namespace {

constexpr std::size_t kLongestHostName = 253;

/// A process whose name has blanks may have a negative word there: its nice value.
bool is_integer(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return to_number(text).has_value();
}

}  // namespace

bool is_host_name(std::string_view text) {
  const auto is_alnum = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kLongestHostName &&
         (is_alnum(text[0]) || text[0] == '_') &&
         std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_alnum(c) || c == '.' || c == '-' || c == '_'; });
}

std::optional<SshUid> SshUid::parse(std::string_view text) {
  const auto fields = split(text, ":", false);
  if (fields.size() != 4 || !is_host_name(fields[0]) || !is_integer(fields[2])) return std::nullopt;
  auto process = TextId::parse(fields[1], fields[2], fields[3]);
  if (!process) return std::nullopt;
  return SshUid{std::string(fields[0]), std::move(*process)};
}

std::string full_host_name() {
  std::array<char, 256> node{};
  if (gethostname(node.data(), node.size() - 1) != 0) return {};
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_DGRAM;
  wanted.ai_flags = AI_CANONNAME;
  addrinfo* found = nullptr;
  if (getaddrinfo(node.data(), nullptr, &wanted, &found) != 0) return {};
  std::string name = found->ai_canonname ? found->ai_canonname : "";
  freeaddrinfo(found);
  return name;
}

}  // namespace holdfast::identity
