/// A filesystem that passes everything on to a folder, but for one call that goes wrong.
///
///   fault_fs FOLDER CONTROL SECONDS MOUNTPOINT [SUBTYPE]
///
/// CONTROL is a file with one line "CALL FAULT NUMBER NTH": the NTH such call after the file was
/// put there meets it, and CONTROL.hit appears then. A new file must come by a rename. CALL is one
/// of mkdir, create, write, truncate, close, rename, unlink, rmdir, touch (which change something),
/// open, list, stat (which look), or change, which is any of the first but for close. FAULT:
///
///   fail      not done, and reported as errno NUMBER
///   refuse    the same for all that follow too, as long as the file is there
///   lost      done, and reported as errno NUMBER: the reply was lost
///   twice     done, and done once more; the second result is reported, as by a server that forgot
///             the first
///   delay     done NUMBER milliseconds late
///
/// SECONDS is how long the kernel may believe a name, and that there is no such name, without
/// asking. The mount's type is fuse.SUBTYPE, or fuse.fault_fs.
#define FUSE_USE_VERSION FUSE_MAKE_VERSION(3, 12)
#include <dirent.h>
#include <fcntl.h>
#include <fuse.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <mutex>
#include <string>
#include <vector>

namespace {

struct Fault {
  std::string call;
  std::string kind;
  int number = 0;
};

class Control {
 public:
  void watch(const std::string& path) { path_ = path; }

  /// What this call meets: nothing in most cases.
  Fault meet(const std::string& call) {
    const std::lock_guard guard(mutex_);
    reload();
    if (!is_meant(call)) return {};
    --left_;
    if (left_ > 0 || (left_ < 0 && fault_.kind != "refuse")) return {};
    std::ofstream(path_ + ".hit") << call;
    return fault_;
  }

 private:
  bool is_meant(const std::string& call) const {
    if (fault_.call != "change") return fault_.call == call;
    return call != "close" && call != "open" && call != "list" && call != "stat";
  }

  void reload() {
    struct stat st {};
    if (stat(path_.c_str(), &st) != 0) st.st_ino = 0;
    if (st.st_ino == seen_.st_ino && st.st_ctim.tv_sec == seen_.st_ctim.tv_sec &&
        st.st_ctim.tv_nsec == seen_.st_ctim.tv_nsec)
      return;
    seen_ = st;
    fault_ = {};
    std::ifstream(path_) >> fault_.call >> fault_.kind >> fault_.number >> left_;
  }

  std::mutex mutex_;
  std::string path_;
  struct stat seen_ {};
  Fault fault_;
  long left_ = 0;
};

Control control;
std::string folder;
double memory = 0;

std::string real(const char* path) {
  return folder + path;
}
int or_errno(long result) {
  return result < 0 ? -errno : static_cast<int>(result);
}

/// `act` gives what a call returns to the kernel: 0 or a length, or a negative errno.
int perform(const std::string& call, const std::function<int()>& act) {
  const Fault fault = control.meet(call);
  if (fault.kind == "fail" || fault.kind == "refuse") return -fault.number;
  if (fault.kind == "delay") usleep(static_cast<useconds_t>(fault.number) * 1000);
  const int result = act();
  if (fault.kind == "twice") return act();
  return fault.kind == "lost" && result >= 0 ? -fault.number : result;
}

/// The same for calls that give a descriptor.
int perform_open(const std::string& call, const char* path, int flags, mode_t mode,
                 fuse_file_info* info) {
  int fd = -1;
  const int result = perform(call, [&] {
    if (fd >= 0) close(fd);
    fd = open(real(path).c_str(), flags, mode);
    return fd < 0 ? -errno : 0;
  });
  if (result < 0 && fd >= 0) close(fd);
  info->fh = static_cast<std::uint64_t>(fd);
  return result;
}

int fd_of(const fuse_file_info* info) {
  return static_cast<int>(info->fh);
}

void* init(fuse_conn_info* /*connection*/, fuse_config* config) {
  config->use_ino = 1;
  config->hard_remove = 1;
  config->entry_timeout = config->negative_timeout = config->attr_timeout = memory;
  return nullptr;
}

int do_stat(const char* path, struct stat* st, fuse_file_info* info) {
  return perform("stat", [&] {
    return or_errno(info ? fstat(fd_of(info), st) : lstat(real(path).c_str(), st));
  });
}
int do_mkdir(const char* path, mode_t mode) {
  return perform("mkdir", [&] { return or_errno(mkdir(real(path).c_str(), mode)); });
}
int do_rmdir(const char* path) {
  return perform("rmdir", [&] { return or_errno(rmdir(real(path).c_str())); });
}
int do_touch(const char* path, const timespec times[2], fuse_file_info* /*info*/) {
  return perform("touch", [&] {
    return or_errno(utimensat(AT_FDCWD, real(path).c_str(), times, AT_SYMLINK_NOFOLLOW));
  });
}
int do_unlink(const char* path) {
  return perform("unlink", [&] { return or_errno(unlink(real(path).c_str())); });
}
int do_rename(const char* from, const char* to, unsigned flags) {
  return perform("rename", [&] {
    return or_errno(renameat2(AT_FDCWD, real(from).c_str(), AT_FDCWD, real(to).c_str(), flags));
  });
}
int do_create(const char* path, mode_t mode, fuse_file_info* info) {
  return perform_open("create", path, info->flags | O_CREAT, mode, info);
}
int do_open(const char* path, fuse_file_info* info) {
  return perform_open("open", path, info->flags, 0, info);
}
int do_read(const char* /*path*/, char* to, size_t size, off_t from, fuse_file_info* info) {
  return or_errno(pread(fd_of(info), to, size, from));
}
int do_write(const char* /*path*/, const char* text, size_t size, off_t at, fuse_file_info* info) {
  return perform("write", [&] { return or_errno(pwrite(fd_of(info), text, size, at)); });
}
int do_truncate(const char* path, off_t size, fuse_file_info* info) {
  return perform("truncate", [&] {
    return or_errno(info ? ftruncate(fd_of(info), size) : truncate(real(path).c_str(), size));
  });
}
int do_sync(const char* /*path*/, int /*is_data_only*/, fuse_file_info* info) {
  return or_errno(fsync(fd_of(info)));
}
int do_flush(const char* /*path*/, fuse_file_info* info) {
  if ((info->flags & O_ACCMODE) == O_RDONLY) return 0;
  return perform("close", [&] { return or_errno(close(dup(fd_of(info)))); });
}
int do_release(const char* /*path*/, fuse_file_info* info) {
  return or_errno(close(fd_of(info)));
}
int do_list(const char* path, void* to, fuse_fill_dir_t fill, off_t /*from*/,
            fuse_file_info* /*info*/, fuse_readdir_flags /*flags*/) {
  return perform("list", [&] {
    DIR* dir = opendir(real(path).c_str());
    if (!dir) return -errno;
    while (const dirent* entry = readdir(dir))
      fill(to, entry->d_name, nullptr, 0, fuse_fill_dir_flags{});
    closedir(dir);
    return 0;
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5 && argc != 6) {
    std::cerr << "usage: fault_fs FOLDER CONTROL SECONDS MOUNTPOINT [SUBTYPE]\n";
    return 10;
  }
  folder = argv[1];
  control.watch(argv[2]);
  memory = std::atof(argv[3]);
  umask(0);
  fuse_operations calls{};
  calls.init = init;
  calls.getattr = do_stat;
  calls.mkdir = do_mkdir;
  calls.rmdir = do_rmdir;
  calls.unlink = do_unlink;
  calls.utimens = do_touch;
  calls.rename = do_rename;
  calls.create = do_create;
  calls.open = do_open;
  calls.read = do_read;
  calls.write = do_write;
  calls.truncate = do_truncate;
  calls.fsync = do_sync;
  calls.flush = do_flush;
  calls.release = do_release;
  calls.readdir = do_list;
  const std::string subtype = argc == 6 ? argv[5] : "fault_fs";
  std::vector<std::string> words = {argv[0], "-f", "-o", "subtype=" + subtype, argv[4]};
  std::vector<char*> texts;
  for (std::string& word : words) texts.push_back(word.data());
  return fuse_main(static_cast<int>(texts.size()), texts.data(), &calls, nullptr);
}
