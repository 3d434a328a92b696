#include "support/fault_disk.h"

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>

#include "support/temp_dir.h"

using namespace holdfast::disk;
using namespace holdfast::testing;
namespace bfs = boost::filesystem;

TEST_CASE("a stopped world lets no further write through", "[disk]") {
  TempDir dir;
  FaultDisk disk;
  disk.stop_after(1);
  CHECK_FALSE(disk.make_dir(Path(dir / "a")));
  CHECK_THROWS_AS(disk.make_dir(Path(dir / "b")), Crash);
  CHECK(disk.make_dir(Path(dir / "c")));
  CHECK(disk.remove_dir(Path(dir / "a")));
  CHECK(tree(dir.path()) == std::vector<std::string>{"a/"});
}

TEST_CASE("a lost reply is a deed done and denied", "[disk][H5]") {
  TempDir dir;
  FaultDisk disk;
  disk.lose_reply(1, ENOENT);
  CHECK_FALSE(disk.make_dir(Path(dir / "a")));
  CHECK(disk.make_dir(Path(dir / "b")) == std::errc::no_such_file_or_directory);
  CHECK(bfs::exists(dir / "b"));
  Handle handle;
  disk.lose_reply(2, ESTALE);
  CHECK(disk.create(Path(dir / "f"), handle));
  CHECK_FALSE(handle.is_open());
  CHECK(bfs::exists(dir / "f"));
}

TEST_CASE("a failed call is not made", "[disk]") {
  TempDir dir;
  FaultDisk disk;
  disk.fail(0, ENOSPC);
  CHECK(disk.make_dir(Path(dir / "a")) == std::errc::no_space_on_device);
  CHECK_FALSE(bfs::exists(dir / "a"));
}
