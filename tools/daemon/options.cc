#include "daemon/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "base/exit_code.h"
#include "cli/version.h"
#include "wire/body.h"

namespace holdfast::daemon {
namespace {

constexpr const char* kAbout =
    "Leases for people who share machines: an HTTP server that says who may use what, in which "
    "order,\n"
    "and for how long. See holdfastd(8).";

constexpr const char* kEpilogue =
    "\n"
    "  holdfastd                                        on 127.0.0.1:8420, claims in the user's "
    "state folder\n"
    "  holdfastd --listen 127.0.0.1:0 --store memory:   to try it out\n"
    "  curl -sd '{\"resource\": \"gpu0\", \"ttl\": 60}' -H 'Content-Type: application/json' "
    "http://127.0.0.1:8420/v1/claims/\n";

/// Three decades, and in nanoseconds far from overflow.
constexpr double kMaxSeconds = 1e9;
constexpr double kMaxNumber = 1e15;

/// CLI11's own checks let "nan" pass, and make a large number of "-1".
CLI::Validator number_up_to(double most) {
  const auto fault = [most](const std::string& text) -> std::string {
    const auto number = wire::to_real(text);
    if (number && *number >= 0 && *number <= most) return {};
    return text + " is not a number from 0 to " + std::to_string(static_cast<std::int64_t>(most));
  };
  return CLI::Validator(fault, "");
}

/// Takes a name that comes again as one more value: CLI11 by itself forgets all but the first.
class ConfigLines final : public CLI::ConfigTOML {
 public:
  std::vector<CLI::ConfigItem> from_config(std::istream& text) const override {
    std::vector<CLI::ConfigItem> all;
    for (CLI::ConfigItem& item : CLI::ConfigTOML::from_config(text)) {
      const auto same = std::find_if(all.begin(), all.end(), [&](const CLI::ConfigItem& earlier) {
        return earlier.fullname() == item.fullname();
      });
      if (same == all.end()) {
        all.push_back(std::move(item));
      } else {
        same->inputs.insert(same->inputs.end(), item.inputs.begin(), item.inputs.end());
      }
    }
    return all;
  }
};

/// For people; CLI11 speaks of INI.
std::string reason(const CLI::ParseError& error) {
  std::string text = error.what();
  constexpr std::string_view kUnknown = "INI was not able to parse ";
  if (text.compare(0, kUnknown.size(), kUnknown) != 0) return text;
  return "the config has a name that is no option: " + text.substr(kUnknown.size());
}

/// Numbers as they are written in options, before they are given their types.
struct Raw {
  std::string log = "quiet";
  std::string scopes = "claim,read";
  double grant_grace = 0;
  double max_wait = 300;
  double retain = 7 * 86400;
  double header_timeout = 10;
  double body_timeout = 30;
  double idle_timeout = 75;
  double token_life = 0;
};

std::chrono::microseconds to_micros(double seconds) {
  return std::chrono::microseconds(static_cast<std::int64_t>(seconds * 1e6));
}

std::string default_store() {
  const char* state = std::getenv("XDG_STATE_HOME");
  const char* home = std::getenv("HOME");
  const std::string folder = state != nullptr && *state != '\0' ? state
                             : home != nullptr && *home != '\0'
                                 ? std::string(home) + "/.local/state"
                                 : "/var/lib";
  return "sqlite:" + folder + "/holdfast/holdfastd.db";
}

void add_serving(CLI::App& app, Options& options, Raw& raw) {
  app.add_option("--listen", options.listen,
                 "ADDRESS:PORT or unix:PATH, as often as wanted; port 0: any that is free")
      ->type_name("WHERE")
      ->capture_default_str()
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  app.add_option("--tokens", options.tokens,
                 "file of bearer tokens: from then on everybody needs one")
      ->type_name("FILE");
  app.add_flag("--no-auth", options.no_auth,
               "let anybody in who can connect, from other hosts too");
  app.add_option("--tls-cert", options.tls_cert, "certificate chain, PEM")->type_name("FILE");
  app.add_option("--tls-key", options.tls_key, "its key, PEM")->type_name("FILE");
  app.add_option("--log", raw.log, "quiet, info (a line for each request) or debug")
      ->capture_default_str()
      ->check(CLI::IsMember({"quiet", "info", "debug"}));
  app.add_option("--archive", options.rules.archive,
                 "ended claims that are dropped go here, as JSON lines")
      ->type_name("FILE");
}

void add_times(CLI::App& app, Raw& raw) {
  const auto add = [&](const char* name, double& value, const char* text) {
    app.add_option(name, value, text)
        ->type_name("SECONDS")
        ->capture_default_str()
        ->check(number_up_to(kMaxSeconds))
        ->group("Times");
  };
  add("--grant-grace", raw.grant_grace,
      "a claim that becomes active unasked is kept at least so long");
  add("--max-wait", raw.max_wait, "how long \"Prefer: wait\" may last");
  add("--retain", raw.retain, "how long ended claims are kept");
  add("--header-timeout", raw.header_timeout, "for the head of a request");
  add("--body-timeout", raw.body_timeout, "for its body");
  add("--idle-timeout", raw.idle_timeout, "between two requests");
}

void add_limits(CLI::App& app, Options& options) {
  const auto add = [&](const char* name, std::size_t& value, const char* text) {
    app.add_option(name, value, text)
        ->type_name("N")
        ->capture_default_str()
        ->check(number_up_to(kMaxNumber))
        ->group("Limits");
  };
  add("--max-body", options.limits.max_body, "bytes of a request's body");
  add("--max-header", options.limits.max_header, "bytes of its head");
  add("--max-name", options.settings.body.max_name, "bytes of a resource's name");
  add("--max-depth", options.settings.body.max_depth, "of nested JSON");
  add("--max-connections", options.limits.max_connections, "at one time");
  add("--max-queue", options.rules.max_queue, "claims that wait for one resource");
  add("--max-claims-per-owner", options.rules.max_claims_per_owner, "live ones; 0: any number");
  add("--retain-claims", options.rules.retain_claims, "ended claims that are kept");
  app.add_option("--rate", options.limits.rate, "requests per second and peer; 0: any number")
      ->type_name("N")
      ->capture_default_str()
      ->check(number_up_to(kMaxSeconds))
      ->group("Limits");
}

void add_tasks(CLI::App& app, Options& options, Raw& raw) {
  using Task = Options::Task;
  const auto add = [&](const char* name, const char* text, Task task) {
    return app.add_subcommand(name, text)->fallthrough()->callback([&options, task] {
      options.task = task;
    });
  };
  add("check", "look over the database of --store, and say what is wrong with it", Task::check);
  add("export", "write all claims of --store to standard output, as JSON lines",
      Task::export_claims);
  CLI::App* token =
      add("token", "add a token to the file of --tokens, and print it", Task::add_token);
  token->add_option("name", options.token_name, "who will use it")->required();
  token->add_option("--scope", raw.scopes, "what for: any of claim,read,admin")
      ->capture_default_str();
  token->add_option("--expires", raw.token_life, "in so many SECONDS")
      ->type_name("SECONDS")
      ->check(number_up_to(kMaxSeconds));
}

/// What could not be right, whatever the values are by themselves.
std::string contradiction(const Options& options) {
  if (options.tls_cert.empty() != options.tls_key.empty()) {
    return "--tls-cert and --tls-key go together";
  }
  if (options.task == Options::Task::add_token) {
    if (options.tokens.empty()) return "token needs --tokens FILE";
    if (!routes::is_token_name(options.token_name)) {
      return "the name of a token has letters, digits and . @ _ - in it, at most 64";
    }
    if (options.token_scopes == 0) return "--scope is any of claim,read,admin";
  }
  if (options.task != Options::Task::serve) return {};
  for (const std::string& where : options.listen) {
    const auto address = http::parse_address(where);
    if (!address) return "--listen " + where + ": is neither ADDRESS:PORT nor unix:PATH";
    if (!address->is_loopback() && options.tokens.empty() && !options.no_auth) {
      return "--listen " + where +
             ": other hosts could connect; give --tokens FILE, or --no-auth if all of them may";
    }
  }
  return {};
}

void give_types(Options& options, const Raw& raw) {
  options.log = raw.log == "debug"  ? Log::Level::debug
                : raw.log == "info" ? Log::Level::info
                                    : Log::Level::quiet;
  options.rules.grant_grace = to_micros(raw.grant_grace);
  options.rules.retain = to_micros(raw.retain);
  options.settings.max_wait = to_micros(raw.max_wait);
  options.settings.is_open_to_all = options.no_auth;
  options.limits.header_timeout = to_micros(raw.header_timeout);
  options.limits.body_timeout = to_micros(raw.body_timeout);
  options.limits.idle_timeout = to_micros(raw.idle_timeout);
  options.token_scopes = routes::to_scopes(raw.scopes).value_or(0);
  if (raw.token_life > 0) {
    options.token_life = std::chrono::seconds(static_cast<std::int64_t>(raw.token_life));
  }
}

/// Returns the text of each option, as given or as it is by default.
std::map<std::string, std::string> values_of(const CLI::App& app) {
  std::map<std::string, std::string> values;
  for (const CLI::Option* option : app.get_options()) {
    const std::string name = option->get_single_name();
    if (name == "help" || name == "version" || name == "config") continue;
    values[name] =
        option->empty() ? option->get_default_str() : CLI::detail::join(option->results(), " ");
  }
  return values;
}

}  // namespace

std::variant<Options, int> parse_options(int argc, const char* const* argv) {
  Options options;
  Raw raw;
  CLI::App app(kAbout, "holdfastd");
  app.footer(kEpilogue);
  app.set_version_flag("--version", std::string("holdfastd ") + cli::kVersion);
  app.set_config("--config", "",
                 "lines \"name = value\", as the long options; read again at SIGHUP")
      ->type_name("FILE");
  app.config_formatter(std::make_shared<ConfigLines>());
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--store", options.store, "sqlite:FILE, postgres:CONNINFO or memory:")
      ->type_name("STORE")
      ->default_str(default_store());
  add_serving(app, options, raw);
  add_times(app, raw);
  add_limits(app, options);
  add_tasks(app, options, raw);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) {
      app.exit(error, std::cout, std::cerr);
      return Exit(ServerExit::ok).code();
    }
    std::cerr << "holdfastd: " << reason(error) << "\nholdfastd --help says more\n";
    return Exit(ServerExit::usage).code();
  }
  if (options.store.empty()) {
    options.store = default_store();
    options.is_default_store = true;
  }
  give_types(options, raw);
  options.values = values_of(app);
  if (const std::string why = contradiction(options); !why.empty()) {
    std::cerr << "holdfastd: " << why << "\n";
    return Exit(ServerExit::usage).code();
  }
  return options;
}

}  // namespace holdfast::daemon
