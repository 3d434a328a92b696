/// The installed package, as somebody outside uses it.

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
namespace bfs = boost::filesystem;

namespace {

constexpr const char* kProgram = R"(
#include <iostream>
#include <policy/locker.h>

int main(int, char** argv) {
  holdfast::Locker locker(argv[1]);
  auto guard = locker.try_lock();
  if (!guard) {
    std::cout << locker.refusal().why << std::endl;
    return 1;
  }
  auto second = holdfast::Locker(argv[1]).try_lock();
  std::cout << (guard->is_held() && !second ? "held" : "broken") << std::endl;
}
)";

constexpr const char* kProject = R"(
cmake_minimum_required(VERSION 3.25)
project(outside LANGUAGES CXX)
find_package(holdfast 0.1 REQUIRED)
add_executable(outside outside.cc)
target_link_libraries(outside PRIVATE holdfast::holdfast)
)";

struct Installed {
  TempDir dir;
  std::string prefix = dir / "prefix";

  Installed() {
    const auto install = run({"cmake", "--install", build_dir(), "--prefix", prefix});
    INFO(install.err);
    REQUIRE(install.code == 0);
    bfs::create_directory(dir / "outside");
    write_file(dir / "outside/outside.cc", kProgram);
    write_file(dir / "outside/CMakeLists.txt", kProject);
  }

  void check_program(const std::string& program) const {
    CHECK(run({program, dir / "lock"}).out == "held\n");
    CHECK_FALSE(bfs::exists(dir / "lock"));
    Process holder(kSleeper);
    REQUIRE(run({prefix + "/bin/lock_local", "lock", dir / "lock", holder.pid_text()}).code == 0);
    const auto refused = run({program, dir / "lock"});
    CHECK(refused.code == 1);
    CHECK_THAT(refused.out, Catch::Contains("held by pid " + holder.pid_text()));
  }
};

}  // namespace

TEST_CASE_METHOD(Installed, "an outside program finds the library through cmake and locks with it",
                 "[package]") {
  const std::string source = dir / "outside";
  const std::string build = dir / "outside/build";
  const auto configured =
      run({"cmake", "-S", source, "-B", build, "-DCMAKE_PREFIX_PATH=" + prefix});
  INFO(configured.out << configured.err);
  REQUIRE(configured.code == 0);
  const auto built = run({"cmake", "--build", build});
  INFO(built.out << built.err);
  REQUIRE(built.code == 0);
  check_program(build + "/outside");
}

TEST_CASE_METHOD(Installed,
                 "an outside program finds the library through pkg-config and locks with it",
                 "[package]") {
  if (!has_program("pkg-config")) SKIP_TEST("no pkg-config");
  const auto built =
      shell("cd " + (dir / "outside") + " && PKG_CONFIG_PATH=$(dirname $(find " + prefix +
            " -name holdfast.pc)) && export PKG_CONFIG_PATH && "
            "c++ -std=c++20 -o by_pc outside.cc $(pkg-config --cflags --libs holdfast)");
  INFO(built.err);
  REQUIRE(built.code == 0);
  check_program(dir / "outside/by_pc");
}

TEST_CASE_METHOD(Installed, "the installed tree has every tool and the shape of the shell package",
                 "[package]") {
  const std::string lockers = prefix + "/libexec/holdfast/lockers";
  CHECK(tree(lockers) == std::vector<std::string>{"lib/", "lib/check_lock.sh@", "lib/fast_lock.sh@",
                                                  "lib/grace_lock.sh@", "lib/hostpid_lock.sh@",
                                                  "local_id.sh@", "lock_local.sh@", "lock_ssh.sh@",
                                                  "semaphore.sh@", "semaphore_ssh.sh@",
                                                  "ssh_id.sh@"});
  CHECK(run({lockers + "/lib/fast_lock.sh", "lock", dir / "l", "a"}).code == 0);
  CHECK(run({lockers + "/lib/check_lock.sh", "owner_nocheck", dir / "l"}).out == "a\n");
  CHECK(run({prefix + "/bin/fast_lock", "unlock", dir / "l", "a"}).code == 0);
  CHECK(run({lockers + "/local_id.sh", "pid", "1:2"}).code == 1);
  for (const char* tool : {"holdfast", "fast_lock", "check_lock", "local_id", "lock_local"}) {
    INFO(tool);
    CHECK(bfs::exists(prefix + "/bin/" + tool));
    CHECK(bfs::exists(prefix + "/share/man/man1/" + tool + ".1"));
  }
  CHECK(bfs::exists(prefix + "/share/man/man5/holdfast-layout.5"));
  CHECK(bfs::exists(prefix + "/share/man/man7/holdfast-exit.7"));
  for (const char* file :
       {"sbin/holdfastd", "share/man/man8/holdfastd.8", "lib/systemd/system/holdfastd.service",
        "lib/sysusers.d/holdfastd.conf", "share/doc/holdfast/holdfastd.conf",
        "share/doc/holdfast/holdfastd.openapi.json"}) {
    INFO(file);
    CHECK(bfs::exists(prefix + "/" + file));
  }
}

TEST_CASE_METHOD(Installed, "the installed tree can be moved and linked to from anywhere",
                 "[package]") {
  bfs::rename(prefix, dir / "elsewhere");
  bfs::create_symlink(dir / "elsewhere/libexec/holdfast/lockers/lock_local.sh", dir / "my_lock");
  CHECK(run({dir / "my_lock", "owner", dir / "l"}).code == 0);
  CHECK(run({dir / "elsewhere/bin/lock_local", "--version"}).out ==
        "lock_local (holdfast) 0.1.0\n");
}

TEST_CASE("the program needs no shared library but libc and its loader", "[package]") {
  const auto needed = shell("readelf -d " + tool("holdfast") +
                            " | sed -n 's/.*NEEDED.*\\[\\(.*\\)\\]/\\1/p' | grep -v '^ld-linux'");
  CHECK(needed.out == "libc.so.6\n");
}

TEST_CASE("a lock costs at most sixty system calls", "[package]") {
  if (!has_program("strace")) SKIP_TEST("no strace");
  if (bfs::read_symlink("/proc/self/ns/pid") != "pid:[4026531836]") {
    SKIP_TEST("in an inner pid namespace three more make sure that procfs is of that namespace");
  }
  TempDir dir;
  const auto traced =
      shell("cd " + dir.path() + " && strace -f -qq -o trace lock_local lock l $$ && " +
            "grep -cE '^[0-9]+ +[a-z0-9_]+\\(' trace");
  INFO(traced.err);
  CHECK(std::stoi(traced.out) <= 60);
  CHECK(std::stoi(traced.out) > 30);
}
