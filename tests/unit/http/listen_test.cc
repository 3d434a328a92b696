#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <ctime>

#include "support/temp_dir.h"
#include "unit/http/rig.h"

namespace holdfast::http::testing {
namespace {

using holdfast::testing::TempDir;

TEST_CASE("a server tells the port it was given", "[http]") {
  Rig rig;
  CHECK_FALSE(rig.listened);
  CHECK(rig.url().starts_with("http://127.0.0.1:"));
  CHECK_FALSE(rig.url().ends_with(":0"));
}

TEST_CASE("a server listens on several addresses at once", "[http]") {
  const TempDir dir;
  Rig rig;
  const auto all = rig.on_loop([&] {
    CHECK_FALSE(rig.server().listen("127.0.0.1:0"));
    CHECK_FALSE(rig.server().listen("unix:" + dir / "s"));
    return rig.server().addresses();
  });
  REQUIRE(all.size() == 3);
  for (const std::string& url : all) {
    CHECK(RawClient(url).ask(raw_request("GET", "/what"))->status == 200);
  }
}

TEST_CASE("IPv6 is served", "[http]") {
  Rig rig({}, "[::1]:0");
  if (rig.listened) SKIP_TEST("no IPv6 here");
  CHECK(rig.url().starts_with("http://[::1]:"));
  const auto reply = rig.client().ask(raw_request("GET", "/what"));
  REQUIRE(reply);
  CHECK(reply->header("x-peer") == "::1");
}

TEST_CASE("an IPv4 peer of an IPv6 socket is named as such", "[http]") {
  Rig rig({}, "[::]:0");
  if (rig.listened) SKIP_TEST("no IPv6 here");
  std::string url = rig.url();
  url = "http://127.0.0.1" + url.substr(url.rfind(':'));
  CHECK(RawClient(url).ask(raw_request("GET", "/what"))->header("x-peer") == "127.0.0.1");
}

TEST_CASE("what cannot be listened on is refused with its reason", "[http]") {
  Rig rig;
  const std::string taken = rig.url().substr(7);
  rig.on_loop([&] {
    CHECK(rig.server().listen(taken) == std::errc::address_in_use);
    CHECK(rig.server().listen("nonsense") == std::errc::invalid_argument);
    CHECK(rig.server().listen("127.0.0.1:0", Scheme::https) == std::errc::invalid_argument);
    CHECK(rig.server().listen("192.0.2.1:0") == std::errc::address_not_available);
    CHECK(rig.server().listen("unix:/nowhere/at/all") == std::errc::no_such_file_or_directory);
    CHECK(rig.server().listen("unix:/" + std::string(200, 'x')) == std::errc::filename_too_long);
  });
}

TEST_CASE("a unix socket tells who connects, is open to all, and is removed at the end", "[http]") {
  const TempDir dir;
  const std::string path = dir / "socket";
  {
    Rig rig({}, "unix:" + path);
    REQUIRE_FALSE(rig.listened);
    CHECK(rig.url() == "unix:" + path);
    struct stat file {};
    REQUIRE(::stat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777U) == 0666);
    RawClient client = rig.client();
    REQUIRE(client.send(raw_request("GET", "/park")));
    REQUIRE(rig.has_parked(1));
    rig.on_loop([&] {
      CHECK(rig.parked[0]->request().peer().uid == ::getuid());
      CHECK(rig.parked[0]->request().peer().is_loopback);
    });
    REQUIRE(rig.reply_to_parked("hello"));
    CHECK(client.read_reply()->body == "hello");
  }
  CHECK(::access(path.c_str(), F_OK) != 0);
}

TEST_CASE("a unix socket left by the dead is replaced, one of the living is not", "[http]") {
  const TempDir dir;
  const std::string path = dir / "socket";
  const std::string aside = dir / "aside";
  {
    Rig dead({}, "unix:" + path);
    // Hidden from its end, as a kill would have left it.
    REQUIRE(::rename(path.c_str(), aside.c_str()) == 0);
  }
  REQUIRE(::rename(aside.c_str(), path.c_str()) == 0);
  Rig living({}, "unix:" + path);
  REQUIRE_FALSE(living.listened);
  {
    Rig second({}, "unix:" + path);
    CHECK(second.listened == std::errc::address_in_use);
  }
  CHECK(living.client().ask(raw_request("GET", "/what"))->status == 200);
}

TEST_CASE("a file that is no socket is never replaced", "[http]") {
  const TempDir dir;
  const std::string path = dir / "precious";
  holdfast::testing::write_file(path, "data");
  Rig rig({}, "unix:" + path);
  CHECK(rig.listened == std::errc::address_in_use);
  CHECK(holdfast::testing::read_file(path) == "data");
}

double cpu_seconds() {
  timespec now{};
  (void)::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// No descriptors beyond those that are open, until the end of the scope.
class Shortage {
 public:
  Shortage() {
    (void)::getrlimit(RLIMIT_NOFILE, &before_);
    const int next = ::dup(0);
    (void)::close(next);
    const rlimit low{static_cast<rlim_t>(next), before_.rlim_max};
    (void)::setrlimit(RLIMIT_NOFILE, &low);
  }
  ~Shortage() { (void)::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_CASE("without free descriptors a server neither dies nor spins, and goes on afterwards",
          "[http]") {
  if (holdfast::testing::kIsSanitized) SKIP_TEST("the sanitizer opens descriptors of its own");
  Rig rig;
  RawClient open = rig.client();
  CHECK(open.ask(raw_request("GET", "/what"))->status == 200);
  // The shortage is made while the loop stands still, so that the next one waits in the queue.
  std::unique_ptr<Shortage> shortage;
  std::unique_ptr<RawClient> next;
  rig.on_loop([&] {
    next = std::make_unique<RawClient>(rig.server().addresses()[0]);
    shortage = std::make_unique<Shortage>();
  });
  const double before = cpu_seconds();
  CHECK(open.ask(raw_request("GET", "/what"))->status == 200);
  REQUIRE(next->send(raw_request("GET", "/what")));
  CHECK(next->is_silent(400ms));
  CHECK(cpu_seconds() - before < 0.2);
  CHECK(open.ask(raw_request("GET", "/what"))->status == 200);
  shortage.reset();
  CHECK(next->read_reply()->status == 200);
}

}  // namespace
}  // namespace holdfast::http::testing
