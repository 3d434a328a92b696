#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <thread>

#include "disk/disk.h"
#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::disk;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

int open_descriptors() {
  return static_cast<int>(
      std::distance(bfs::directory_iterator("/proc/self/fd"), bfs::directory_iterator()));
}

}  // namespace

TEST_CASE("a short read is not taken for the end of a record", "[disk]") {
  int ends[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  Handle reader(ends[0]);
  {
    const Handle writer(ends[1]);  // each packet is a read of its own
    for (const std::string part : {"{\"v\":1,", "\"host\":\"a\"}\n"})
      REQUIRE(send(writer.fd(), part.data(), part.size(), 0) == static_cast<ssize_t>(part.size()));
  }
  std::string text;
  CHECK_FALSE(posix().read(reader, text, kSmallFile));
  CHECK(text == "{\"v\":1,\"host\":\"a\"}\n");
}

TEST_CASE("errors come back as they are", "[disk]") {
  TempDir dir;
  Disk& disk = posix();
  CHECK(disk.make_dir(Path(dir.path())) == std::errc::file_exists);
  CHECK(disk.make_dir(Path(dir / "a/b")) == std::errc::no_such_file_or_directory);
  CHECK(disk.unlink(Path(dir / "none")) == std::errc::no_such_file_or_directory);
  CHECK(disk.remove_dir(Path(dir / "none")) == std::errc::no_such_file_or_directory);
  write_file(dir / "file", "x");
  CHECK(disk.remove_dir(Path(dir / "file")) == std::errc::not_a_directory);
  Handle handle;
  CHECK(disk.create(Path(dir / "file"), handle) == std::errc::file_exists);
  CHECK(disk.rename(Path(dir / "none"), Path(dir / "x")) == std::errc::no_such_file_or_directory);
}

TEST_CASE("below a handle no link is followed in any part of a name", "[disk][security]") {
  TempDir dir;
  bfs::create_directories(dir / "inside");
  bfs::create_directories(dir / "outside");
  write_file(dir / "outside/secret", "x");
  bfs::create_symlink(dir / "outside", dir / "inside/link");
  bfs::create_symlink(dir / "outside/secret", dir / "inside/leaf");
  Disk& disk = posix();
  Handle inside;
  REQUIRE_FALSE(disk.open_dir(Path(dir / "inside"), inside));
  Handle out;
  CHECK(disk.open_file({inside, "leaf"}, out));
  CHECK(disk.open_file({inside, "link/secret"}, out));
  CHECK(disk.open_dir({inside, "link"}, out));
  CHECK(disk.create({inside, "link/new"}, out));
  CHECK(disk.create({inside, "leaf"}, out));
  std::vector<std::string> names;
  CHECK(disk.list({inside, "link"}, names));
  CHECK_FALSE(disk.open_file({inside, "../outside/secret"}, out));
  CHECK(tree(dir / "outside") == std::vector<std::string>{"secret"});
}

TEST_CASE("the last part of a path is not followed", "[disk][security]") {
  TempDir dir;
  bfs::create_directories(dir / "real");
  bfs::create_symlink(dir / "real", dir / "link");
  Handle handle;
  CHECK(posix().open_dir(Path(dir / "link"), handle));
  CHECK_FALSE(posix().open_dir(Path(dir / "link/."), handle));
  CHECK(posix().remove_dir(Path(dir / "link")) == std::errc::not_a_directory);
}

TEST_CASE("a touch dates a folder now and nothing behind a link", "[disk]") {
  TempDir dir;
  Disk& disk = posix();
  CHECK(disk.touch(Path(dir / "none")) == std::errc::no_such_file_or_directory);
  CHECK_FALSE(bfs::exists(dir / "none"));
  bfs::create_directories(dir / "old");
  bfs::create_symlink(dir / "old", dir / "link");
  const timespec long_ago[] = {{1000, 0}, {1000, 0}};
  REQUIRE(utimensat(AT_FDCWD, (dir / "old").c_str(), long_ago, 0) == 0);
  Status status;
  CHECK_FALSE(disk.touch(Path(dir / "link")));
  REQUIRE_FALSE(disk.status(Path(dir / "old"), status));
  CHECK(status.modified.time_since_epoch() == std::chrono::seconds(1000));
  CHECK_FALSE(disk.touch(Path(dir / "old")));
  write_file(dir / "new", "");
  Status just_made;
  REQUIRE_FALSE(disk.status(Path(dir / "old"), status));
  REQUIRE_FALSE(disk.status(Path(dir / "new"), just_made));
  CHECK(std::chrono::abs(just_made.modified - status.modified) < std::chrono::minutes(5));
}

TEST_CASE("a fifo in the place of a leaf does not hold a reader up", "[disk]") {
  TempDir dir;
  REQUIRE(mkfifo((dir / "fifo").c_str(), 0600) == 0);
  Handle file;
  CHECK_FALSE(posix().open_file(Path(dir / "fifo"), file));
}

TEST_CASE("a long listing and a long file are read whole", "[disk]") {
  TempDir dir;
  for (int i = 0; i < 3000; ++i) write_file(dir / std::to_string(i), "");
  std::vector<std::string> names;
  REQUIRE_FALSE(posix().list(Path(dir.path()), names));
  CHECK(names.size() == 3000);
  CHECK(std::count(names.begin(), names.end(), ".") == 0);
  write_file(dir / "long", std::string(100'000, 'y'));
  Handle file;
  std::string text;
  REQUIRE_FALSE(posix().open_file(Path(dir / "long"), file));
  REQUIRE_FALSE(posix().read(file, text, kSmallFile));
  CHECK(text.size() == 100'000);
  text.clear();
  REQUIRE_FALSE(posix().open_file(Path(dir / "long"), file));
  CHECK(posix().read(file, text, 99'999) == std::errc::file_too_large);
}

TEST_CASE("no descriptor is left open", "[disk]") {
  TempDir dir;
  write_file(dir / "file", "x");
  const int before = open_descriptors();
  {
    std::vector<Handle> kept(5);
    for (Handle& handle : kept) REQUIRE_FALSE(posix().open_file(Path(dir / "file"), handle));
    close_together(std::move(kept));
    Handle a, b, c;
    for (Handle* handle : {&a, &b, &c}) REQUIRE_FALSE(posix().open_dir(Path(dir.path()), *handle));
    b = Handle();  // a gap in the numbers
    close_together({&a, &b, &c});
    Handle moved;
    REQUIRE_FALSE(posix().open_file(Path(dir / "file"), moved));
    REQUIRE_FALSE(posix().open_file(Path(dir / "file"), moved));
    const auto contents = read_files(posix(), {dir / "file", dir / "none", dir / "file"});
    CHECK(contents[0].text == "x");
    CHECK(contents[1].error == std::errc::no_such_file_or_directory);
    CHECK(contents[2].text == "x");
  }
  CHECK(open_descriptors() == before);
}

TEST_CASE("closing together closes nothing of others", "[disk]") {
  TempDir dir;
  Handle a, b, c;
  for (Handle* handle : {&a, &b, &c}) REQUIRE_FALSE(posix().open_dir(Path(dir.path()), *handle));
  close_together({&a, &c});
  CHECK(fcntl(b.fd(), F_GETFD) >= 0);
}

TEST_CASE("a signal in the middle of a call does not fail it", "[disk]") {
  struct sigaction action {
  }, old{};
  action.sa_handler = [](int) {};  // no SA_RESTART
  sigaction(SIGUSR1, &action, &old);
  TempDir dir;
  const pthread_t target = pthread_self();
  std::atomic<bool> stop{false};
  std::jthread pest([&] {
    while (!stop) pthread_kill(target, SIGUSR1);
  });
  int failures = 0;
  for (int i = 0; i < 2000; ++i) {
    Handle file;
    std::string text;
    failures += static_cast<bool>(posix().create(Path(dir / "f"), file));
    failures += static_cast<bool>(posix().write(file, "text"));
    failures += static_cast<bool>(posix().close(file));
    failures += static_cast<bool>(posix().open_file(Path(dir / "f"), file));
    failures += static_cast<bool>(posix().read(file, text, kSmallFile)) || text != "text";
    failures += static_cast<bool>(posix().unlink(Path(dir / "f")));
  }
  stop = true;
  pest.join();
  sigaction(SIGUSR1, &old, nullptr);
  CHECK(failures == 0);
}
