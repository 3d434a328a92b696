#include "routes/target.h"

#include <array>
#include <utility>

#include "base/text.h"

namespace holdfast::routes {
namespace {

struct Fixed {
  std::string_view path;
  Place place;
};

constexpr std::array kFixed{
    Fixed{"", Place::dashboard},
    Fixed{"v1/claims", Place::claims},
    Fixed{"v1/resources", Place::resources},
    Fixed{"v1/events", Place::events},
    Fixed{"v1/admin/revoke", Place::revoke},
    Fixed{"v1/stats", Place::stats},
    Fixed{"v1/whoami", Place::whoami},
    Fixed{"v1/openapi.json", Place::openapi},
    Fixed{"metrics", Place::metrics},
    Fixed{"healthz", Place::healthz},
    Fixed{"readyz", Place::readyz},
};

int to_hex(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// Without a slash at either end, and with single ones in between.
std::string joined(std::string_view path) {
  std::string out;
  out.reserve(path.size());
  for (const char c : path) {
    if (c != '/' || (!out.empty() && out.back() != '/')) out += c;
  }
  if (!out.empty() && out.back() == '/') out.pop_back();
  return out;
}

bool has_prefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

Target find_resource(std::string_view rest) {
  const std::size_t last = rest.rfind('/');
  if (last == std::string_view::npos) return {};
  const std::string_view what = rest.substr(last + 1);
  const Place place = what == "queue"   ? Place::queue
                      : what == "fence" ? Place::fence
                                        : Place::nowhere;
  auto name = decode(rest.substr(0, last), false);
  if (place == Place::nowhere || !name) return {};
  return {place, std::move(*name)};
}

}  // namespace

std::optional<std::string> decode(std::string_view text, bool plus) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%') {
      if (i + 2 >= text.size()) return std::nullopt;
      const int high = to_hex(text[i + 1]);
      const int low = to_hex(text[i + 2]);
      if (high < 0 || low < 0) return std::nullopt;
      out += static_cast<char>(high * 16 + low);
      i += 2;
    } else {
      out += plus && text[i] == '+' ? ' ' : text[i];
    }
  }
  if (!is_utf8(out)) return std::nullopt;
  return out;
}

Query::Query(std::string_view text) {
  for (const std::string_view pair : split(text, "&", true)) {
    const std::size_t equals = pair.find('=');
    auto key = decode(pair.substr(0, equals), true);
    auto value = decode(equals == std::string_view::npos ? "" : pair.substr(equals + 1), true);
    if (key && value && !has_nul(*key) && !has_nul(*value)) {
      pairs_.emplace_back(std::move(*key), std::move(*value));
    } else {
      is_malformed_ = true;
    }
  }
}

std::optional<std::string> Query::value(std::string_view key) const {
  for (auto pair = pairs_.rbegin(); pair != pairs_.rend(); ++pair) {
    if (pair->first == key) return pair->second;
  }
  return std::nullopt;
}

Target find_target(std::string_view path) {
  const std::string plain = joined(path);
  for (const Fixed& fixed : kFixed) {
    if (fixed.path == plain) return {fixed.place, {}};
  }
  constexpr std::string_view kClaim = "v1/claims/";
  if (has_prefix(plain, kClaim)) return {Place::claim, plain.substr(kClaim.size())};
  constexpr std::string_view kResource = "v1/resources/";
  if (has_prefix(plain, kResource))
    return find_resource(std::string_view(plain).substr(kResource.size()));
  return {};
}

}  // namespace holdfast::routes
