#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/log.h"
#include "http/address.h"
#include "http/server.h"
#include "routes/api.h"
#include "server/store.h"

namespace holdfast::daemon {

/// What was asked for on the command line and in the config file.
struct Options {
  enum class Task { serve, check, export_claims, add_token };
  Task task = Task::serve;

  std::vector<std::string> listen{"127.0.0.1:8420"};
  std::string store;
  bool is_default_store = false;  ///< nobody named one
  std::string tokens;
  bool no_auth = false;
  std::string tls_cert, tls_key;
  Log::Level log = Log::Level::quiet;
  http::Limits limits;
  server::Rules rules;
  routes::Settings settings;  ///< but for the tokens

  /// The text of every option that serves, by its name without dashes: for the log of a reload.
  std::map<std::string, std::string> values;

  std::string token_name;  ///< of add_token
  unsigned token_scopes = 0;
  std::optional<std::chrono::seconds> token_life;
};

/// The options, or the status with which to exit: help was shown, or the words make no sense.
/// Called again with the same words it reads the config file again.
std::variant<Options, int> parse_options(int argc, const char* const* argv);

}  // namespace holdfast::daemon
