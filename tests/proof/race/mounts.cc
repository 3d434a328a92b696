#include "mounts.h"

#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <cerrno>
#include <cstring>

#include "support/process.h"

namespace holdfast::testing {

namespace bfs = boost::filesystem;

Mounted::Mounted(const std::string& kind) : path_(dir_ / "mnt") {
  bfs::create_directory(path_);
  if (!is_root()) {
    why_ = "only root can mount " + kind;
  } else if (unshare(CLONE_NEWNS) != 0 ||
             ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    why_ = std::string("no mount namespace of our own: ") + std::strerror(errno);
  } else {
    is_mounted_ = mount(kind);
  }
}

bool Mounted::mount(const std::string& kind) {
  std::vector<std::string> words = {"mount", "-t", kind};
  std::string source = "none";
  if (kind == "overlay") {
    for (const char* name : {"lower", "upper", "work"}) bfs::create_directory(dir_ / name);
    words.insert(words.end(), {"-o", "lowerdir=" + dir_ / "lower" + ",upperdir=" + dir_ / "upper" +
                                         ",workdir=" + dir_ / "work"});
  } else {
    const std::string mkfs = "mkfs." + kind;
    if (!has_program(mkfs)) {
      why_ = "there is no " + mkfs;
      return false;
    }
    source = dir_ / "image";
    write_file(source, "");
    bfs::resize_file(source, 320 << 20);  // the least that mkfs.xfs takes is 300 MB; sparse
    const Result made = run({mkfs, kind == "ext4" ? "-qF" : "-qf", source});
    if (made.code != 0) {
      why_ = mkfs + " failed: " + made.err;
      return false;
    }
    words.insert(words.end(), {"-o", "loop"});
  }
  words.push_back(source);
  words.push_back(path_);
  const Result mounted = run(words);
  if (mounted.code != 0) why_ = "cannot mount " + kind + ": " + mounted.err;
  return mounted.code == 0;
}

Mounted::~Mounted() {
  if (is_mounted_ && umount2(path_.c_str(), 0) != 0) umount2(path_.c_str(), MNT_DETACH);
}

}  // namespace holdfast::testing
