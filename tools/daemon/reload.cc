#include "daemon/reload.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "http/address.h"

namespace holdfast::daemon {
namespace {

/// Options that a running server cannot change.
constexpr std::array<std::string_view, 3> kNeedRestart{"listen", "log", "store"};

std::string shown(const std::string& value) {
  return value.empty() ? "(none)" : value;
}

std::string value_of(const Options& options, const std::string& name) {
  const auto found = options.values.find(name);
  return found == options.values.end() ? std::string() : found->second;
}

std::string change_of(const std::string& name, const std::string& before,
                      const std::string& after) {
  std::string text = name;
  if (name != "store") {
    text += ' ';
    text += shown(before);
    text += " -> ";
    text += shown(after);
  }
  // A listener that was opened with TLS keeps it, and one without gets none.
  const bool switches_tls = name.starts_with("tls-") && before.empty() != after.empty();
  const bool is_late =
      std::find(kNeedRestart.begin(), kNeedRestart.end(), name) != kNeedRestart.end();
  if (is_late || switches_tls) text += " (after a restart)";
  return text;
}

}  // namespace

std::string why_not_to_reload(const Options& in_force, const Options& wanted) {
  if (!wanted.tokens.empty()) return {};
  if (!in_force.tokens.empty()) {
    return "--tokens is missing, and a reload never switches authentication off; to serve without "
           "tokens, restart the server";
  }
  if (wanted.no_auth) return {};
  for (const std::string& where : in_force.listen) {
    const auto address = http::parse_address(where);
    if (address && address->is_loopback()) continue;
    return "the server listens on " + where +
           ", where other hosts can connect; give --tokens FILE or --no-auth, or restart the "
           "server to change --listen";
  }
  return {};
}

Options after_reload(const Options& in_force, Options wanted) {
  wanted.listen = in_force.listen;
  wanted.store = in_force.store;
  wanted.log = in_force.log;
  for (const std::string_view name : kNeedRestart) {
    wanted.values[std::string(name)] = value_of(in_force, std::string(name));
  }
  return wanted;
}

std::string describe_changes(const Options& before, const Options& after,
                             const routes::Tokens* tokens_before,
                             const routes::Tokens* tokens_after) {
  std::string text;
  const auto also = [&text](const std::string& change) {
    if (!text.empty()) text += ", ";
    text += change;
  };
  for (const auto& [name, value] : after.values) {
    const std::string earlier = value_of(before, name);
    if (earlier != value) also(change_of(name, earlier, value));
  }
  if (tokens_before != nullptr && tokens_after != nullptr) {
    for (const std::string& name : tokens_before->names_that_differ(*tokens_after)) {
      also("tokens of " + name);
    }
  }
  if (text.empty()) text = "no option and no token changed";
  return after.tls_cert.empty() ? text : text + "; the certificate was read again";
}

}  // namespace holdfast::daemon
