/// The lease server: claims over HTTP, on SQLite or PostgreSQL.

#include <chrono>
#include <exception>
#include <iostream>

#include "daemon/options.h"
#include "daemon/serve.h"
#include "routes/auth.h"
#include "server/store.h"
#include "wire/claim_object.h"

namespace {

using namespace holdfast;
using daemon::Options;

Exit failed(const std::string& why) {
  std::cerr << "holdfastd: " << why << "\n";
  return ServerExit::failed;
}

Exit check(const Options& options) {
  const auto result =
      server::inspect_store(options.store, [](const server::Claim&, server::Stamp) {});
  if (const auto* error = std::get_if<server::StoreError>(&result)) return failed(error->why);
  const auto& found = std::get<server::Inspection>(result);
  for (const std::string& fault : found.faults) std::cout << fault << "\n";
  std::cout << found.claims << " claims, " << found.faults.size() << " faults\n";
  return found.faults.empty() ? ServerExit::ok : ServerExit::failed;
}

Exit export_claims(const Options& options) {
  const auto put = [](const server::Claim& claim, server::Stamp now) {
    std::string line;
    wire::put_claim(line, {claim, 0}, now, {});
    std::cout << line << "\n";
  };
  const auto result = server::inspect_store(options.store, put);
  if (const auto* error = std::get_if<server::StoreError>(&result)) return failed(error->why);
  for (const std::string& fault : std::get<server::Inspection>(result).faults) {
    std::cerr << "holdfastd: " << fault << "\n";
  }
  if (!std::get<server::Inspection>(result).faults.empty()) return ServerExit::failed;
  return std::cout.flush() ? ServerExit::ok : ServerExit::failed;
}

Exit add_token(const Options& options) {
  std::optional<std::chrono::seconds> expires;
  if (options.token_life) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    expires = std::chrono::duration_cast<std::chrono::seconds>(now) + *options.token_life;
  }
  const auto token =
      routes::add_token(options.tokens, options.token_name, options.token_scopes, expires);
  if (token.index() == 1) return failed(std::get<1>(token));
  std::cout << std::get<0>(token) << std::endl;
  return ServerExit::ok;
}

int run(int argc, char** argv) {
  const auto parsed = daemon::parse_options(argc, argv);
  if (const int* status = std::get_if<int>(&parsed)) return *status;
  const Options& options = std::get<Options>(parsed);
  const auto reload = [&]() -> std::optional<Options> {
    auto again = daemon::parse_options(argc, argv);
    if (std::holds_alternative<int>(again)) return std::nullopt;
    return std::get<Options>(std::move(again));
  };
  switch (options.task) {
    case Options::Task::check:
      return check(options).code();
    case Options::Task::export_claims:
      return export_claims(options).code();
    case Options::Task::add_token:
      return add_token(options).code();
    case Options::Task::serve:
      break;
  }
  return daemon::serve(options, reload).code();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return failed(error.what()).code();
  }
}
