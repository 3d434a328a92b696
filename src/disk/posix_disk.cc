#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "disk/disk.h"

namespace holdfast::disk {
namespace {

// The shell's modes: the umask does the rest.
constexpr mode_t kDirMode = 0777;
constexpr mode_t kFileMode = 0666;

std::error_code last_error() {
  return {errno, std::generic_category()};
}
std::error_code ok_or_errno(int result) {
  return result == 0 ? std::error_code{} : last_error();
}

/// openat2 that follows no link at all; the same by single steps where the kernel is too old for it
/// or a seccomp filter of its time hides it.
int open_below(int dir, const std::string& name, int flags, mode_t mode) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(flags);
  how.mode = (flags & O_CREAT) ? mode : 0;
  how.resolve = RESOLVE_NO_SYMLINKS;
  const long fd = syscall(SYS_openat2, dir, name.c_str(), &how, sizeof how);
  if (fd >= 0 || (errno != ENOSYS && errno != EPERM)) return static_cast<int>(fd);

  Handle step;
  std::size_t from = 0;
  for (std::size_t slash; (slash = name.find('/', from)) != std::string::npos; from = slash + 1) {
    const std::string part = name.substr(from, slash - from);
    const int next = openat(dir, part.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) return -1;
    step = Handle(next);
    dir = next;
  }
  return openat(dir, name.c_str() + from, flags, mode);
}

/// The folder in which a call acts, and the name there. The folder is opened only where a part on
/// the way to it must not be a link: most calls cost one system call.
class Target {
 public:
  explicit Target(const At& at) : name_(at.name.c_str()) {
    const std::size_t slash = at.name.rfind('/');
    if (at.dir) {
      fd_ = at.dir->fd();
    } else if (at.below > 0 && slash != std::string::npos && slash > at.below) {
      open_folder(at, slash);
    }
  }

  bool is_open() const { return fd_ != kNone; }
  int fd() const { return fd_; }
  const char* name() const { return name_; }

 private:
  static constexpr int kNone = -1;
  static constexpr int kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;

  void open_folder(const At& at, std::size_t slash) {
    fd_ = kNone;
    const Handle typed(::open(at.name.substr(0, at.below).c_str(), kFlags));
    if (!typed.is_open()) return;
    folder_ = Handle(
        open_below(typed.fd(), at.name.substr(at.below, slash - at.below), kFlags | O_NOFOLLOW, 0));
    fd_ = folder_.fd();
    name_ += slash + 1;
  }

  Handle folder_;
  int fd_ = AT_FDCWD;
  const char* name_;
};

class PosixDisk final : public Disk {
 public:
  std::error_code make_dir(const At& at) override {
    return act(at, [](int dir, const char* name) { return mkdirat(dir, name, kDirMode); });
  }
  std::error_code remove_dir(const At& at) override {
    return act(at, [](int dir, const char* name) { return unlinkat(dir, name, AT_REMOVEDIR); });
  }
  std::error_code unlink(const At& at) override {
    return act(at, [](int dir, const char* name) { return unlinkat(dir, name, 0); });
  }
  std::error_code rename(const At& from, const At& to) override {
    const Target old_name(from);
    if (!old_name.is_open()) return last_error();
    return act(to, [&](int dir, const char* name) {
      return renameat(old_name.fd(), old_name.name(), dir, name);
    });
  }
  std::error_code create(const At& at, Handle& file) override {
    return open(at, O_WRONLY | O_CREAT | O_EXCL, file);
  }
  std::error_code symlink(const std::string& target, const At& at) override {
    return act(at, [&](int dir, const char* name) { return symlinkat(target.c_str(), dir, name); });
  }
  std::error_code write(Handle& file, std::string_view text) override {
    ssize_t written = 0;
    do {
      written = ::write(file.fd(), text.data(), text.size());
    } while (written < 0 && errno == EINTR);
    if (written < 0) return last_error();
    const bool whole = static_cast<std::size_t>(written) == text.size();
    return whole ? std::error_code{} : std::make_error_code(std::errc::no_space_on_device);
  }
  std::error_code close(Handle& file) override { return ok_or_errno(::close(file.release())); }
  std::error_code touch(const At& at) override {
    return act(at, [](int dir, const char* name) {
      return utimensat(dir, name, nullptr, AT_SYMLINK_NOFOLLOW);
    });
  }

  std::error_code open_dir(const At& at, Handle& dir) override {
    return open(at, O_PATH | O_DIRECTORY, dir);
  }
  std::error_code open_file(const At& at, Handle& file) override {
    return open(at, O_RDONLY | O_NONBLOCK, file);  // a planted FIFO must not hold us up
  }
  std::error_code read(Handle& file, std::string& text, std::size_t limit) override {
    std::array<char, 8192> buffer;
    ssize_t got = 0;
    while ((got = ::read(file.fd(), buffer.data(), buffer.size())) != 0) {
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return last_error();
      text.append(buffer.data(), static_cast<std::size_t>(got));
      if (text.size() > limit) return std::make_error_code(std::errc::file_too_large);
      // a short read need not be the last one, but records and procfs end with a line
      if (static_cast<std::size_t>(got) < buffer.size() && text.back() == '\n') break;
    }
    return {};
  }
  std::error_code list(const At& at, std::vector<std::string>& names) override {
    return for_each_entry(
        at, [&](int, const dirent& entry) { names.emplace_back(std::string_view(entry.d_name)); });
  }
  std::error_code list_kinds(const At& at, std::vector<Entry>& entries) override {
    return for_each_entry(at, [&](int dir, const dirent& entry) {
      entries.push_back({entry.d_name, kind_of(dir, entry)});
    });
  }
  std::error_code status(const At& at, Status& status) override {
    struct stat st {};
    const std::error_code ec = act(at, [&](int dir, const char* name) {
      return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
    });
    if (ec) return ec;
    status.kind = kind_of(st.st_mode);
    status.device = st.st_dev;
    status.inode = st.st_ino;
    status.modified = std::chrono::system_clock::time_point(
        std::chrono::seconds(st.st_mtim.tv_sec) +
        std::chrono::duration_cast<std::chrono::system_clock::duration>(
            std::chrono::nanoseconds(st.st_mtim.tv_nsec)));
    return {};
  }
  std::error_code read_link(const At& at, std::string& target) override {
    std::array<char, 4096> buffer;  // the longest that a link can be
    ssize_t length = 0;
    const std::error_code ec = act(at, [&](int dir, const char* name) {
      length = readlinkat(dir, name, buffer.data(), buffer.size());
      return length < 0 ? -1 : 0;
    });
    if (ec) return ec;
    target.assign(buffer.data(), static_cast<std::size_t>(length));
    return {};
  }

  std::error_code flock(const Handle& dir, Share share) override {
    const int how = share == Share::alone      ? LOCK_EX | LOCK_NB
                    : share == Share::together ? LOCK_SH | LOCK_NB
                                               : LOCK_UN;
    return ok_or_errno(::flock(dir.fd(), how));
  }

 private:
  template <class Call>
  static std::error_code act(const At& at, Call call) {
    const Target target(at);
    return target.is_open() ? ok_or_errno(call(target.fd(), target.name())) : last_error();
  }

  static Kind kind_of(mode_t mode) {
    return S_ISREG(mode)   ? Kind::file
           : S_ISDIR(mode) ? Kind::dir
           : S_ISLNK(mode) ? Kind::symlink
                           : Kind::other;
  }
  /// As the listing has it, or else as it is: not every filesystem tells. What is gone by then is
  /// `other`.
  static Kind kind_of(int dir, const dirent& entry) {
    struct stat st {};
    if (entry.d_type != DT_UNKNOWN) return kind_of(DTTOIF(entry.d_type));
    const bool is_there = fstatat(dir, entry.d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
    return is_there ? kind_of(st.st_mode) : Kind::other;
  }

  template <class Take>
  static std::error_code for_each_entry(const At& at, Take take) {
    Handle dir;
    if (const std::error_code ec = open(at, O_RDONLY | O_DIRECTORY, dir)) return ec;
    DIR* stream = fdopendir(dir.fd());
    if (!stream) return last_error();
    const int fd = dir.release();  // closedir closes it
    errno = 0;
    while (const dirent* entry = readdir(stream)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") take(fd, *entry);
      errno = 0;
    }
    const std::error_code ec = errno ? last_error() : std::error_code{};
    closedir(stream);
    return ec;
  }

  static std::error_code open(const At& at, int flags, Handle& out) {
    flags |= O_NOFOLLOW | O_CLOEXEC;
    const Target target(at);
    if (!target.is_open()) return last_error();
    int fd = -1;
    do {
      const bool one_name = !at.dir || at.name.find('/') == std::string::npos;
      fd = one_name ? openat(target.fd(), target.name(), flags, kFileMode)
                    : open_below(target.fd(), at.name, flags, kFileMode);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0) return last_error();
    Handle opened(fd);
    if (fd <= STDERR_FILENO) {  // a standard stream was closed: keep clear of its number
      const int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      if (high < 0) return last_error();
      opened = Handle(high);
    }
    out = std::move(opened);
    return {};
  }
};

}  // namespace

Disk& posix() {
  static PosixDisk disk;
  return disk;
}

}  // namespace holdfast::disk
