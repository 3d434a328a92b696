#include "support/fault_mount.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace holdfast::testing {

namespace {

constexpr long kFuseMagic = 0x65735546;

bool is_mounted(const std::string& path) {
  struct statfs fs {};
  return statfs(path.c_str(), &fs) == 0 && fs.f_type == kFuseMagic;
}

}  // namespace

FaultMount::FaultMount(std::string folder, int memory, const std::string& subtype)
    : folder_(std::move(folder)) {
  mkdir(path_.c_str(), 0755);
  if (!is_root()) {
    why_ = "only root can mount a filesystem of its own";
  } else if (access("/dev/fuse", R_OK | W_OK) != 0) {
    why_ = "there is no /dev/fuse";
  } else if (unshare(CLONE_NEWNS) != 0 ||
             mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    why_ = std::string("no mount namespace of our own: ") + std::strerror(errno);
  }
  if (!why_.empty()) return;
  server_ = std::make_unique<Process>(std::vector<std::string>{
      helper("fault_fs"), folder_, control_, std::to_string(memory), path_, subtype});
  if (!eventually([&] { return is_mounted(path_); })) why_ = "fault_fs does not come up";
}

FaultMount::~FaultMount() {
  if (!server_) return;
  umount2(path_.c_str(), MNT_DETACH);
  server_->kill_and_wait();
}

void FaultMount::set(const Fault& fault, int nth) const {
  clear();
  write_file(control_ + ".new", fault.call + " " + fault.kind + " " + std::to_string(fault.number) +
                                    " " + std::to_string(nth) + "\n");
  std::rename((control_ + ".new").c_str(), control_.c_str());
}

bool FaultMount::was_hit() const {
  return access((control_ + ".hit").c_str(), F_OK) == 0;
}

void FaultMount::clear() const {
  unlink(control_.c_str());
  unlink((control_ + ".hit").c_str());
}

}  // namespace holdfast::testing
