#include <catch2/catch.hpp>
#include <csignal>

#include "program.h"

using namespace holdfast::testing;

namespace {

/// A server whose settings come from a config file that the test changes.
class Reloaded {
 public:
  explicit Reloaded(const std::string& config) : server_{start(config)} {}

  /// Writes the file, sends SIGHUP and returns what the server logged about that reload.
  std::string reload(const std::string& config) {
    const std::size_t before = server_.complained().size();
    write_file(file(), config);
    server_.signal(SIGHUP);
    const auto is_logged = [&] {
      const std::string log = server_.complained().substr(before);
      return log.find("reload") != std::string::npos && log.ends_with("\n");
    };
    CHECK(eventually(is_logged));
    return server_.complained().substr(before);
  }

  /// The server listens on all addresses; the test reaches it through loopback.
  Reply post(const std::string& token = "") const {
    const std::string port = server_.address().substr(server_.address().rfind(':'));
    return ask("http://127.0.0.1" + port, "POST", "/v1/claims/", claim_text("gpu"),
               token.empty() ? "" : bearer(token));
  }

  const std::string& token() const { return token_; }
  std::string tokens_line() const { return "tokens = \"" + dir_ / "tokens" + "\"\n"; }
  std::string tokens_file() const { return dir_ / "tokens"; }

 private:
  std::string file() const { return dir_ / "config"; }
  Words start(const std::string& config) {
    write_file(file(), config.find("TOKENS") == std::string::npos
                           ? config
                           : config.substr(0, config.find("TOKENS")) + tokens_line());
    return {"--config", file()};
  }

  TempDir dir_;
  std::string token_ = new_token(dir_ / "tokens", "anna");
  Program server_;
};

const std::string kStore = "store = \"memory:\"\n";
const std::string kEverywhere = kStore + "listen = 0.0.0.0:0\n";
const std::string kHere = kStore + "listen = 127.0.0.1:0\n";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a reload never switches authentication off", "[daemon][auth][reload]") {
  Reloaded server(kEverywhere + "TOKENS");
  REQUIRE(server.post().status == 401);
  REQUIRE(server.post(server.token()).status == 201);
  const std::string configs[] = {"",
                                 "# nothing\n",
                                 kHere,
                                 kEverywhere,
                                 kEverywhere + "no-auth = true\n",
                                 kHere + "no-auth = true\n"};
  for (const std::string& config : configs) {
    INFO(config);
    const std::string log = server.reload(config);
    INFO(log);
    CHECK(has(log, "tokens"));
    CHECK(has(log, "reload refused"));
    CHECK(server.post().status == 401);
    CHECK(server.post(server.token()).status == 202);
  }
  // A refused reload is no obstacle to a later one.
  CHECK(!has(server.reload(kEverywhere + server.tokens_line() + "max-queue = 0\n"), "refused"));
  CHECK(server.post().status == 401);
  CHECK(server.post(server.token()).status == 429);
}

TEST_CASE("a reload is checked against the addresses that are bound", "[daemon][auth][reload]") {
  Reloaded server(kEverywhere + "no-auth = true\n");
  const std::string log = server.reload(kHere + "max-queue = 0\n");
  INFO(log);
  CHECK(has(log, "reload refused"));
  CHECK(has(log, "0.0.0.0:0"));
  CHECK(server.post().status == 201);
  CHECK(server.post().status == 202);  // max-queue is not in force either
  // From nothing to tokens is allowed.
  CHECK(!has(server.reload(kEverywhere + server.tokens_line()), "refused"));
  CHECK(server.post().status == 401);
}

TEST_CASE("every reload is logged with what it changed", "[daemon][reload]") {
  Reloaded server(kHere + "max-queue = 1\nTOKENS");
  const std::string start = kHere + server.tokens_line();
  const std::string changed = server.reload(start + "max-queue = 2\ngrant-grace = 5\n");
  INFO(changed);
  CHECK(has(changed, "max-queue 1 -> 2"));
  CHECK(has(changed, "grant-grace 0 -> 5"));
  CHECK(!has(changed, "listen"));

  const std::string same = start + "max-queue = 2\ngrant-grace = 5\n";
  CHECK(has(server.reload(same), "no option and no token changed"));

  const std::string more = new_token(server.tokens_file(), "bob");
  CHECK(has(server.reload(same), "tokens of bob"));
  CHECK(server.post(more).status == 201);
  write_file(server.tokens_file(), "");
  const std::string gone = server.reload(same);
  CHECK(has(gone, "tokens of anna"));
  CHECK(has(gone, "tokens of bob"));
  CHECK(server.post(more).status == 401);

  // These need a restart. A store can name a password, so its text is not logged.
  const std::string late =
      server.reload("listen = 127.0.0.1:1\nlog = info\n" + server.tokens_line() +
                    "store = \"postgres:host=db password=secret\"\n");
  INFO(late);
  CHECK(has(late, "listen 127.0.0.1:0 -> 127.0.0.1:1 (after a restart)"));
  CHECK(has(late, "log quiet -> info (after a restart)"));
  CHECK(has(late, "store (after a restart)"));
  CHECK(!has(late, "secret"));
  CHECK(has(late, "max-queue 2 -> 100000"));
}
