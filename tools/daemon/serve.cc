#include "daemon/serve.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <iostream>
#include <utility>

#include "daemon/notify.h"
#include "daemon/reload.h"
#include "event/loop.h"
#include "http/server.h"
#include "routes/api.h"
#include "routes/loop_scheduler.h"
#include "server/store.h"

namespace holdfast::daemon {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kDrain = 10s;

Exit failed(const std::string& why) {
  std::cerr << "holdfastd: " << why << "\n";
  return ServerExit::failed;
}

/// For the database that nobody named; a folder that somebody named has to be there.
void make_state_folder(const Options& options) {
  if (!options.is_default_store) return;
  const std::filesystem::path file(options.store.substr(options.store.find(':') + 1));
  std::error_code opening_it_will_tell;
  std::filesystem::create_directories(file.parent_path(), opening_it_will_tell);
}

/// As many as the connections need, or as many as we may have: the usual limit is a thousand.
void allow_descriptors(std::size_t connections) {
  constexpr rlim_t kBesides = 200;  // the database, listeners, and those who are told to go away
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= connections + kBesides) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_max, connections + kBesides);
  (void)setrlimit(RLIMIT_NOFILE, &limit);  // with fewer some are let in later
}

/// The settings with the tokens in them; the reason if those cannot be read.
std::variant<routes::Settings, std::string> with_tokens(const Options& options) {
  routes::Settings settings = options.settings;
  if (options.tokens.empty()) return settings;
  auto tokens = routes::Tokens::load(options.tokens);
  if (auto* why = std::get_if<std::string>(&tokens)) return *why;
  settings.tokens =
      std::make_shared<const routes::Tokens>(std::get<routes::Tokens>(std::move(tokens)));
  return settings;
}

/// "127.0.0.1:8420" of "http://127.0.0.1:8420".
std::string host_of(const std::string& url) {
  const std::size_t slashes = url.find("://");
  return slashes == std::string::npos ? "localhost" : url.substr(slashes + 3);
}

/// All is done: another one, while the process ends, must not make a failure of it.
void ignore_requests_to_stop() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

class Daemon {
 public:
  Daemon(Options options, std::unique_ptr<server::Store> store, routes::Settings settings,
         event::Loop& loop)
      : options_(std::move(options)),
        loop_(loop),
        log_(options_.log),
        store_(std::move(store)),
        tokens_(settings.tokens),
        api_(loop, *store_, std::move(settings), log_),
        server_(
            loop,
            [this](std::shared_ptr<http::Exchange> exchange) { api_.handle(std::move(exchange)); },
            api_, options_.limits) {
    api_.count_connections_by([this] { return server_.connections(); });
  }

  /// The reason if it cannot.
  std::optional<std::string> listen() {
    const bool has_tls = !options_.tls_cert.empty();
    std::string why;
    if (has_tls && !server_.load_tls(options_.tls_cert, options_.tls_key, why)) return why;
    for (const std::string& where : options_.listen) {
      const bool is_plain = !has_tls || http::parse_address(where)->is_unix;
      const auto error = server_.listen(where, is_plain ? http::Scheme::http : http::Scheme::https);
      if (error) return where + ": " + error.message();
    }
    api_.set_default_host(host_of(server_.addresses().front()));
    return std::nullopt;
  }

  void run(const std::function<std::optional<Options>()>& reload) {
    loop_.on_signal({SIGTERM, SIGINT}, [this](int) { stop(); });
    loop_.on_signal({SIGHUP}, [this, reload](int) { apply(reload()); });
    std::cout << "holdfastd: listening on";
    for (const std::string& address : server_.addresses()) std::cout << ' ' << address;
    std::cout << std::endl;
    notify("READY=1");
    loop_.run();
    ignore_requests_to_stop();
  }

 private:
  void stop() {
    if (std::exchange(is_stopping_, true)) return;
    notify("STOPPING=1");
    api_.drain();
    server_.drain(kDrain, [this] { store_->close([this] { loop_.stop(); }); });
  }

  void apply(const std::optional<Options>& options) {
    if (is_stopping_) return;
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    notify("RELOADING=1\nMONOTONIC_USEC=" +
           std::to_string(now.tv_sec * 1000000 + now.tv_nsec / 1000));
    const std::string why = options ? take_over(*options) : "the options have the fault above";
    if (!why.empty())
      log_.error("holdfastd: reload refused, all settings stay as they were: {}", why);
    notify("READY=1");
  }

  /// Takes over all of the options and logs what changed, or takes none and returns the reason.
  std::string take_over(const Options& options) {
    if (std::string why = why_not_to_reload(options_, options); !why.empty()) return why;
    auto loaded = with_tokens(options);
    if (const auto* why = std::get_if<std::string>(&loaded)) return *why;
    std::string why;
    if (!options.tls_cert.empty() && !server_.load_tls(options.tls_cert, options.tls_key, why)) {
      return why;
    }
    auto& settings = std::get<routes::Settings>(loaded);
    // Also when quiet: an operator must be able to see afterwards who was let in since when.
    log_.warn("holdfastd: reload done: {}",
              describe_changes(options_, options, tokens_.get(), settings.tokens.get()));
    tokens_ = settings.tokens;
    api_.set(std::move(settings));
    server_.set_limits(options.limits);
    store_->set_rules(options.rules);
    allow_descriptors(options.limits.max_connections);
    options_ = after_reload(options_, options);
    return {};
  }

  Options options_;  ///< in force; its `listen` is what is bound
  event::Loop& loop_;
  Log log_;
  std::unique_ptr<server::Store> store_;
  std::shared_ptr<const routes::Tokens> tokens_;  ///< in force
  routes::Api api_;
  http::Server server_;
  bool is_stopping_ = false;
};

}  // namespace

Exit serve(const Options& options, const std::function<std::optional<Options>()>& reload) {
  umask(0077);  // claims are nobody else's business
  auto settings = with_tokens(options);
  if (const auto* why = std::get_if<std::string>(&settings)) return failed(*why);
  make_state_folder(options);
  allow_descriptors(options.limits.max_connections);
  event::Loop loop;
  routes::LoopScheduler scheduler(loop);
  auto store = server::open_store(options.store, options.rules, scheduler, Log(options.log));
  if (const auto* error = std::get_if<server::StoreError>(&store)) return failed(error->why);
  Daemon daemon(options, std::get<std::unique_ptr<server::Store>>(std::move(store)),
                std::get<routes::Settings>(std::move(settings)), loop);
  if (const auto why = daemon.listen()) return failed(*why);
  daemon.run(reload);
  return ServerExit::ok;
}

}  // namespace holdfast::daemon
