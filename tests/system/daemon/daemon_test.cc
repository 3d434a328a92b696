#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <csignal>
#include <sstream>

#include "program.h"

using namespace holdfast::testing;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

/// What systemd would be: a socket that hears what the server says about itself.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path) : fd_(socket(AF_UNIX, SOCK_DGRAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    REQUIRE(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
    const timeval limit{20, 0};
    (void)setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  }
  NotifySocket(const NotifySocket&) = delete;
  NotifySocket& operator=(const NotifySocket&) = delete;
  ~NotifySocket() { close(fd_); }

  std::string next() const {
    char text[256];
    const ssize_t size = recv(fd_, text, sizeof text, 0);
    return size > 0 ? std::string(text, static_cast<std::size_t>(size)) : "nothing";
  }

 private:
  int fd_;
};

mode_t mode_of(const std::string& path) {
  struct stat about {};
  REQUIRE(stat(path.c_str(), &about) == 0);
  return about.st_mode & 07777;
}

/// Runs to the end with a store and a port, and with `words` instead of either.
Result try_start(Words words) {
  words.insert(words.begin(), {"holdfastd", "--listen", "127.0.0.1:0"});
  return run(words, {.limit = 10s});
}

void change_database(const std::string& file, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open(file.c_str(), &database) == SQLITE_OK);
  char* error = nullptr;
  const int result = sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error);
  INFO((error != nullptr ? error : ""));
  sqlite3_free(error);
  sqlite3_close(database);
  REQUIRE(result == SQLITE_OK);
}

std::vector<Json> lines_of(const std::string& text) {
  std::vector<Json> all;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    all.push_back(Json::parse(line, nullptr, false));
    CHECK(all.back().is_object());
  }
  return all;
}

bool is_parked(const Program& server, int number) {
  return eventually([&] { return server.ask("GET", "/v1/stats").json()["parked"] == number; });
}

}  // namespace

TEST_CASE("it says one line when it can be used, and tells systemd", "[daemon]") {
  TempDir dir;
  const NotifySocket systemd(dir / "notify");
  Program server({"--listen", "127.0.0.1:0", "--listen", "unix:" + dir / "socket"},
                 {{"NOTIFY_SOCKET", dir / "notify"}});
  CHECK(systemd.next() == "READY=1");
  CHECK(server.said() ==
        "holdfastd: listening on " + server.address() + " unix:" + dir / "socket" + "\n");
  CHECK(server.ask("GET", "/readyz").status == 200);
  CHECK(ask(server.address(1), "GET", "/readyz").status == 200);

  server.signal(SIGHUP);
  const std::string reloading = systemd.next();
  CHECK(reloading.starts_with("RELOADING=1\nMONOTONIC_USEC="));
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const long told = std::stol(reloading.substr(reloading.rfind('=') + 1)) / 1000000;
  CHECK((told <= now.tv_sec && told >= now.tv_sec - 10));
  CHECK(systemd.next() == "READY=1");

  CHECK(server.stop() == 0);
  CHECK(systemd.next() == "STOPPING=1");
  CHECK(server.complained() == "holdfastd: reload done: no option and no token changed\n");
  CHECK(access((dir / "socket").c_str(), F_OK) != 0);
  // One line was all.
  CHECK(std::ranges::count(server.said(), '\n') == 1);
}

TEST_CASE("it is ready within a fifth of a second", "[daemon]") {
  if (kIsSanitized) SKIP_TEST("sanitizers take their time");
  TempDir dir;
  auto best = 10s + 0ns;
  for (int i = 0; i < 10 && best >= 200ms; ++i) {
    const auto begin = Clock::now();
    const Program server({"--store", "sqlite:" + dir / "claims.db"});
    CHECK(server.ask("GET", "/readyz").status == 200);
    best = std::min<std::chrono::nanoseconds>(best, Clock::now() - begin);
  }
  CHECK(best < 200ms);
}

TEST_CASE("told to stop, it answers those who wait and lets nobody in", "[daemon]") {
  const int number = GENERATE(SIGTERM, SIGINT);
  TempDir dir;
  Program server({"--store", "sqlite:" + dir / "claims.db"});
  (void)server.claim("gpu");
  RawClient post(server.address()), patch(server.address()), stream(server.address()),
      idle(server.address()), half(server.address());
  (void)idle.ask(request_text("GET", "/healthz"));
  post.send(request_text("POST", "/v1/claims/", claim_text("gpu"), "Prefer: wait=60\r\n"));
  REQUIRE(is_parked(server, 1));
  patch.send(request_text("PATCH", path_of(2), R"({"status": "active"})", "Prefer: wait=60\r\n"));
  REQUIRE(is_parked(server, 2));
  stream.send(request_text("GET", "/v1/events"));
  REQUIRE(stream.read_bytes(12) == "HTTP/1.1 200");
  const std::string request = request_text("POST", "/v1/claims/", claim_text("other"));
  half.send(request.substr(0, request.size() - 5));
  REQUIRE(eventually([&] { return server.ask("GET", "/v1/stats").json()["connections"] >= 6; }));

  const auto begin = Clock::now();
  server.signal(number);
  const auto waited = post.read_reply();
  REQUIRE(waited);
  CHECK(waited->status == 202);
  CHECK(waited->header("connection") == "close");
  const auto refused = patch.read_reply();
  REQUIRE(refused);
  CHECK(refused->status == 409);
  CHECK(stream.read_to_end());
  CHECK(idle.read_to_end());
  CHECK_THROWS(RawClient(server.address()));
  server.signal(number);
  server.signal(SIGHUP);
  half.send(request.substr(request.size() - 5));
  const auto finished = half.read_reply();
  REQUIRE(finished);
  CHECK(finished->status == 201);
  CHECK(server.wait() == 0);
  CHECK(Clock::now() - begin < 8s);

  const Program again({"--store", "sqlite:" + dir / "claims.db"});
  CHECK(again.ask("GET", path_of(2)).json()["status"] == "waiting");
  CHECK(again.ask("GET", path_of(3)).json()["resource"] == "other");
}

TEST_CASE("told to stop again and again, until the last moment, it ends well", "[daemon]") {
  for (int round = 0; round < 10; ++round) {
    Program server;
    server.signal(SIGTERM);
    const auto limit = Clock::now() + 20s;
    while (server.is_running() && Clock::now() < limit) {
      server.signal(SIGINT);
      server.signal(SIGTERM);
    }
    REQUIRE(server.wait() == 0);
  }
}

TEST_CASE("a request that never ends keeps the server for ten seconds at most", "[daemon]") {
  Program server;
  RawClient half(server.address());
  half.send("POST /v1/claims/ HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{");
  REQUIRE(eventually([&] { return server.ask("GET", "/v1/stats").json()["connections"] == 2; }));
  const auto begin = Clock::now();
  CHECK(server.stop() == 0);
  CHECK(Clock::now() - begin < 15s);
}

TEST_CASE("the config is read again at SIGHUP, as a whole or not at all", "[daemon]") {
  TempDir dir;
  const std::string file = dir / "config";
  const std::string fixed = "# ours\nlisten = 127.0.0.1:0\nstore = \"memory:\"\n";
  write_file(file, fixed + "max-queue = 1\nmax-name = 10\n");
  const Program server({"--config", file});
  const auto post = [&](const std::string& name) {
    return server.ask("POST", "/v1/claims/", claim_text(name)).status;
  };
  CHECK(post("a") == 201);
  CHECK(post("a") == 202);
  CHECK(post("a") == 429);
  CHECK(post("eleven chars") == 400);

  for (const char* bad : {"max-queue = many\n", "max-queue = -1\n", "max-que = 3\n",
                          "listen = 0.0.0.0:0\n", "tls-cert = x\n", "tokens = /none\n"}) {
    INFO(bad);
    const std::size_t before = server.complained().size();
    write_file(file, fixed + "max-queue = 3\nmax-name = 100\n" + bad);
    server.signal(SIGHUP);
    CHECK(eventually([&] {
      return server.complained().find("reload refused, all settings stay as they were", before) !=
             std::string::npos;
    }));
    CHECK(post("a") == 429);
    CHECK(post("eleven chars") == 400);
  }
  write_file(file, fixed + "max-queue = 2\nmax-name = 100\n");
  server.signal(SIGHUP);
  CHECK(eventually([&] { return post("eleven chars") < 400; }));
  CHECK(post("a") == 202);
  CHECK(post("a") == 429);
}

TEST_CASE("a name that comes again in the config is one more value, or one too many", "[daemon]") {
  TempDir dir;
  write_file(dir / "config",
             "listen = 127.0.0.1:0\nstore = memory:\nlisten = unix:" + dir / "socket" + "\n");
  const Program server({"--config", dir / "config"});
  CHECK(server.ask("GET", "/healthz").status == 200);
  CHECK(ask(server.address(1), "GET", "/healthz").status == 200);
  write_file(dir / "twice", "store = memory:\nmax-queue = 1\nmax-queue = 2\n");
  const Result result = try_start({"--config", dir / "twice"});
  CHECK(result.code == 10);
  CHECK(result.err.find("max-queue") != std::string::npos);
}

TEST_CASE("the command line wins over the config", "[daemon]") {
  TempDir dir;
  write_file(dir / "config", "store = \"sqlite:/none/x\"\nlisten = 192.0.2.1:1\nmax-name = 3\n");
  const Program server({"--config", dir / "config", "--store", "memory:", "--listen", "127.0.0.1:0",
                        "--max-name", "4"});
  CHECK(server.ask("POST", "/v1/claims/", claim_text("four")).status == 201);
  CHECK(server.ask("POST", "/v1/claims/", claim_text("fives")).status == 400);
}

TEST_CASE("what was asked for wrongly is told, and nothing is started", "[daemon]") {
  TempDir dir;
  write_file(dir / "unknown", "max-queue = 3\nmax-quue = 3\n");
  write_file(dir / "help", "help = true\n");
  struct Row {
    Words words;
    std::string why;
  };
  const std::vector<Row> rows{
      {{"--bogus"}, "--bogus"},
      {{"serve"}, "serve"},
      {{"--listen", "nowhere"}, "--listen nowhere"},
      {{"--listen", "127.0.0.1:65536"}, "65536"},
      {{"--listen", "unix:"}, "unix:"},
      {{"--listen", "host.example:80"}, "host.example"},
      {{"--rate", "x"}, "--rate: x is not a number"},
      {{"--rate", "-1"}, "--rate: -1 is not a number"},
      {{"--max-body", "-1"}, "--max-body: -1 is not a number"},
      {{"--max-body", "1e99"}, "--max-body: 1e99 is not a number"},
      {{"--max-body", "1.5"}, "--max-body"},
      {{"--max-wait", "nan"}, "--max-wait: nan is not a number"},
      {{"--max-wait", "1e10"}, "from 0 to 1000000000"},
      {{"--log", "loud"}, "--log"},
      {{"--config", dir / "none"}, dir / "none"},
      {{"--config", dir / "unknown"}, "no option: max-quue"},
      {{"--config", dir / "help"}, "help"},
      {{"check", "--bogus"}, "--bogus"},
      {{"export", "more"}, "more"},
      {{"token", "me"}, "--tokens"},
      {{"token", "--tokens", dir / "tokens", "me/you"}, "letters"},
      {{"token", "--tokens", dir / "tokens", "me", "--scope", "all"}, "claim,read,admin"},
      {{"token", "--tokens", dir / "tokens", "me", "--expires", "-5"}, "--expires"},
      {{"token", "--tokens", dir / "tokens"}, "name"},
  };
  for (const Row& row : rows) {
    Words words = row.words;
    words.insert(words.end(), {"--store", "sqlite:" + dir / "claims.db"});
    const Result result = try_start(words);
    INFO(row.words.front() << " " << row.words.back() << ": " << result.err);
    CHECK(result.code == 10);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("holdfastd: "));
    CHECK(result.err.find(row.why) != std::string::npos);
  }
  CHECK(tree(dir.path()) == std::vector<std::string>{"help", "unknown"});
}

TEST_CASE("what cannot be is told with its reason", "[daemon]") {
  TempDir dir;
  const Program first({"--store", "sqlite:" + dir / "used.db"});
  const std::string taken = first.address().substr(7);
  write_file(dir / "junk.db", std::string(8192, 'j'));
  write_file(dir / "file", "");
  struct Row {
    Words words;
    std::string why;
  };
  const std::vector<Row> rows{
      {{"--listen", taken, "--store", "memory:"}, taken + ": Address already in use"},
      {{"--listen", "192.0.2.1:0", "--no-auth", "--store", "memory:"},
       "192.0.2.1:0: Cannot assign"},
      {{"--listen", "unix:" + dir / "none/socket", "--store", "memory:"}, "No such file"},
      {{"--listen", "unix:" + dir / "file", "--store", "memory:"}, "in use"},
      {{"--listen", "unix:/" + std::string(200, 'x'), "--store", "memory:"}, "too long"},
      {{"--store", "sqlite:" + dir / "used.db"}, "used.db"},
      {{"--store", "sqlite:" + dir / "junk.db"}, "junk.db"},
      {{"--store", "sqlite:" + dir.path()}, dir.path()},
      {{"--store", "sqlite:" + dir / "none/claims.db"}, "none/claims.db"},
      {{"--store", "sqlite:"}, "sqlite:FILE"},
      {{"--store", "mysql:x"}, "no such kind of store: mysql:x"},
      {{"--tokens", dir / "none", "--store", "memory:"}, "none: No such file"},
      {{"--tokens", dir.path(), "--store", "memory:"}, "cannot be read"},
      {{"check", "--store", "sqlite:" + dir / "none.db"}, "none.db"},
      {{"export", "--store", "sqlite:" + dir / "none.db"}, "none.db"},
      {{"check", "--store", "memory:"}, "memory:"},
      {{"token", "--tokens", dir / "none/tokens", "me"}, "No such file"},
  };
  for (const Row& row : rows) {
    const Result result = try_start(row.words);
    INFO(row.words.back() << ": " << result.err);
    CHECK(result.code == 1);
    CHECK(result.out.empty());
    CHECK(result.err.starts_with("holdfastd: "));
    CHECK(result.err.find(row.why) != std::string::npos);
    CHECK(std::ranges::count(result.err, '\n') == 1);
  }
  CHECK_FALSE(std::ranges::count(tree(dir.path()), "none/"));
  CHECK(first.ask("GET", "/readyz").status == 200);
}

TEST_CASE("without a store it makes one in the user's state folder, for that user", "[daemon]") {
  TempDir dir;
  const std::string state = dir / "state/of/me";
  {
    const Program server({"--config", "/dev/null", "--listen", "127.0.0.1:0"},
                         {{"XDG_STATE_HOME", state}});
    (void)server.claim("gpu");
  }
  CHECK(mode_of(state + "/holdfast") == 0700);
  CHECK(mode_of(state + "/holdfast/holdfastd.db") == 0600);
  const Program by_home({"--config", "/dev/null", "--listen", "127.0.0.1:0"},
                        {{"XDG_STATE_HOME", ""}, {"HOME", dir / "home"}});
  CHECK(mode_of(dir / "home/.local/state/holdfast/holdfastd.db") == 0600);
  const Result told = run({"holdfastd", "export"}, {.env = {{"XDG_STATE_HOME", state}}});
  CHECK(lines_of(told.out).size() == 1);
}

TEST_CASE("its help names every option and the ways to begin", "[daemon]") {
  const Result help = run({"holdfastd", "--help"});
  CHECK(help.code == 0);
  CHECK(help.err.empty());
  for (const char* word : {"--listen",
                           "--store",
                           "--config",
                           "--tokens",
                           "--no-auth",
                           "--tls-cert",
                           "--tls-key",
                           "--grant-grace",
                           "--max-wait",
                           "--retain",
                           "--retain-claims",
                           "--archive",
                           "--max-body",
                           "--max-name",
                           "--max-depth",
                           "--max-header",
                           "--header-timeout",
                           "--body-timeout",
                           "--idle-timeout",
                           "--max-connections",
                           "--rate",
                           "--max-queue",
                           "--max-claims-per-owner",
                           "--log",
                           "check",
                           "export",
                           "token",
                           "curl",
                           "holdfastd(8)"}) {
    INFO(word);
    CHECK(help.out.find(word) != std::string::npos);
  }
  CHECK(run({"holdfastd", "token", "--help"}).out.find("--scope") != std::string::npos);
  const Result version = run({"holdfastd", "--version"});
  CHECK(version.code == 0);
  CHECK(version.out.starts_with("holdfastd "));
}

TEST_CASE("check finds what no server would have written", "[daemon]") {
  TempDir dir;
  const std::string file = dir / "claims.db";
  const Words check{"holdfastd", "check", "--store", "sqlite:" + file};
  {
    const Program server({"--store", "sqlite:" + file});
    (void)server.claim("gpu");
    (void)server.claim("gpu");
    (void)server.claim("disk");
    const Result running = run(check);
    INFO(running.err);
    CHECK(running.code == 0);
    CHECK(running.out == "3 claims, 0 faults\n");
    CHECK(server.claim("tape") == 4);
  }
  CHECK(run(check).out == "4 claims, 0 faults\n");
  change_database(file, "UPDATE claims SET status = 1, fence = 7 WHERE id = 2");
  Result found = run(check);
  CHECK(found.code == 1);
  CHECK(found.out.find("\"gpu\": 2 claims are active that exclude each other") !=
        std::string::npos);
  change_database(file, "UPDATE claims SET status = 77 WHERE id = 3");
  found = run(check);
  CHECK(found.code == 1);
  CHECK(found.out.find("claim 3 of \"disk\": its status or mode is unknown") != std::string::npos);
  const Result exported = run({"holdfastd", "export", "--store", "sqlite:" + file});
  CHECK(exported.code == 1);
  CHECK(exported.err.find("claim 3") != std::string::npos);
  CHECK(lines_of(exported.out).size() == 3);

  std::string bytes = read_file(file);
  for (std::size_t i = 4096; i < bytes.size(); ++i) bytes[i] = 'x';
  write_file(file, bytes);
  found = run(check);
  CHECK(found.code == 1);
  CHECK_FALSE(found.out.empty());
}

TEST_CASE("export writes all claims as they stand", "[daemon]") {
  TempDir dir;
  const std::string store = "sqlite:" + dir / "claims.db";
  const Words words{"holdfastd", "export", "--store", store};
  const Program server({"--store", store});
  const std::string data =
      Json{{"resource", "gpu\n\"0\""}, {"ttl", 100}, {"user_data", {{"a", {1, "\n"}}}}}.dump();
  REQUIRE(server.ask("POST", "/v1/claims/", data).status == 201);
  (void)server.claim("gpu\n\"0\"");
  (void)server.claim("done");
  CHECK(server.ask("PATCH", path_of(3), R"({"status": "released"})").status == 204);
  const Result result = run(words);
  CHECK(result.code == 0);
  CHECK(result.err.empty());
  const std::vector<Json> all = lines_of(result.out);
  REQUIRE(all.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    Json shown = server.ask("GET", path_of(static_cast<long>(i) + 1)).json();
    CHECK_FALSE(all[i].contains("url"));
    CHECK(all[i]["id"] == i + 1);
    for (const char* same : {"resource", "status", "created", "user_data", "owner", "mode", "fence",
                             "status_history", "initial_ttl"}) {
      CHECK(all[i][same] == shown[same]);
    }
    CHECK(all[i]["waiting_duration"] >= 0);
    CHECK(all[i]["waiting_duration"] <= shown["waiting_duration"]);
  }
  CHECK(all[0]["active_duration"] >= 0);
  CHECK(all[0]["ttl"] <= 100);
  CHECK(all[0]["ttl"] > 50);
  CHECK(
      run({"/bin/sh", "-c", tool("holdfastd") + " export --store " + store + " >/dev/full"}).code ==
      1);
}

TEST_CASE("a server that stood still hears the holder before it gives the lease away",
          "[daemon][time]") {
  const bool has_queue = GENERATE(false, true);
  TempDir dir;
  const Program server({"--store", "sqlite:" + dir / "claims.db"});
  const long held = server.claim("gpu", 2);
  if (has_queue) (void)server.claim("gpu", 60);
  RawClient holder(server.address()), rival(server.address());
  (void)holder.ask(request_text("GET", "/healthz"));
  (void)rival.ask(request_text("GET", "/healthz"));
  server.signal(SIGSTOP);
  const auto begin = Clock::now();
  // The rival first: it is not the order in the sockets that decides.
  rival.send(request_text("POST", "/v1/claims/", claim_text("gpu")));
  holder.send(request_text("PATCH", path_of(held), R"({"ttl": 60})"));
  (void)eventually([&] { return Clock::now() - begin > 4s; });
  server.signal(SIGCONT);
  const auto posted = rival.read_reply();
  const auto renewed = holder.read_reply();
  REQUIRE(renewed);
  CHECK(renewed->status == 200);
  REQUIRE(posted);
  CHECK(posted->status == 202);
}

TEST_CASE("a server without descriptors lives, rests, and goes on", "[daemon]") {
  if (kIsSanitized) SKIP_TEST("a sanitizer needs descriptors of its own");
  TempDir dir;
  Program server({"--store", "sqlite:" + dir / "claims.db", "--max-connections", "1000"}, {},
                 {"prlimit", "--nofile=40"});
  std::vector<std::unique_ptr<RawClient>> all;
  for (int i = 0; i < 60; ++i) all.push_back(std::make_unique<RawClient>(server.address()));
  REQUIRE(all.front()->ask(request_text("POST", "/v1/claims/", claim_text("gpu"))));
  const auto ticks = [&] {
    std::istringstream text(read_file("/proc/" + std::to_string(server.pid()) + "/stat"));
    std::string word;
    long user = 0, system = 0;
    for (int i = 0; i < 13; ++i) text >> word;
    text >> user >> system;
    return user + system;
  };
  const long before = ticks();
  const auto begin = Clock::now();
  (void)eventually([&] { return Clock::now() - begin > 1s; });
  CHECK(ticks() - before < 20);  // hundredths of a second
  CHECK(all.front()->ask(request_text("GET", path_of(1)))->status == 200);
  all.erase(all.begin(), all.begin() + 40);
  const auto late = all.back()->ask(request_text("GET", "/healthz"));
  REQUIRE(late);
  CHECK(late->status == 200);
}

TEST_CASE("two thousand wait at once, and little memory is needed for it", "[daemon]") {
  const int kMany = kIsSanitized ? 200 : 2000;
  TempDir dir;
  // As a shell would start it: with a thousand descriptors, and the right to more.
  Program server({"--store", "sqlite:" + dir / "claims.db"}, {}, {"prlimit", "--nofile=1024:8192"});
  rlimit ours{};
  getrlimit(RLIMIT_NOFILE, &ours);
  ours.rlim_cur = ours.rlim_max;
  setrlimit(RLIMIT_NOFILE, &ours);
  if (ours.rlim_cur < 3 * static_cast<rlim_t>(kMany)) SKIP_TEST("too few descriptors");
  const auto memory = [&] {
    std::istringstream text(read_file("/proc/" + std::to_string(server.pid()) + "/statm"));
    long size = 0, resident = 0;
    text >> size >> resident;
    return resident * sysconf(_SC_PAGESIZE);
  };
  const long before = memory();
  std::vector<std::unique_ptr<RawClient>> all;
  for (int i = 0; i < kMany; ++i) {
    all.push_back(std::make_unique<RawClient>(server.address()));
    all.back()->send(request_text("POST", "/v1/claims/", claim_text("gpu"), "Prefer: wait=50\r\n"));
    if (i == 0) REQUIRE(all.back()->read_reply()->status == 201);
  }
  REQUIRE(is_parked(server, kMany - 1));
  if (!kIsSanitized) CHECK(memory() - before < kMany * 16384L);
  // Half of them go away, and the rest are served in their order.
  for (int i = 1; i < kMany; i += 2) all[static_cast<std::size_t>(i)]->reset();
  CHECK(
      eventually([&] { return server.ask("GET", "/v1/stats").json()["parked"] < kMany / 2 + 1; }));
  const Reply revoked =
      server.ask("POST", "/v1/admin/revoke", R"({"reason": "closing time", "resource": "gpu"})");
  CHECK(revoked.json()["revoked"] == kMany);
  for (int i = 2; i < kMany; i += 2) {
    const auto reply = all[static_cast<std::size_t>(i)]->read_reply();
    REQUIRE(reply);
    REQUIRE(reply->status == 409);
    REQUIRE(Reply{*reply}.json()["status"] == "revoked");
  }
  CHECK(server.ask("GET", "/v1/stats").json()["parked"] == 0);
}
