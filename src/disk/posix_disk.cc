#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
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
int fd_of(const At& at) {
  return at.dir ? at.dir->fd() : AT_FDCWD;
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

class PosixDisk final : public Disk {
 public:
  std::error_code make_dir(const At& at) override {
    return ok_or_errno(mkdirat(fd_of(at), at.name.c_str(), kDirMode));
  }
  std::error_code remove_dir(const At& at) override {
    return ok_or_errno(unlinkat(fd_of(at), at.name.c_str(), AT_REMOVEDIR));
  }
  std::error_code unlink(const At& at) override {
    return ok_or_errno(unlinkat(fd_of(at), at.name.c_str(), 0));
  }
  std::error_code rename(const At& from, const At& to) override {
    return ok_or_errno(renameat(fd_of(from), from.name.c_str(), fd_of(to), to.name.c_str()));
  }
  std::error_code create(const At& at, Handle& file) override {
    return open(at, O_WRONLY | O_CREAT | O_EXCL, file);
  }
  std::error_code symlink(const std::string& target, const At& at) override {
    return ok_or_errno(symlinkat(target.c_str(), fd_of(at), at.name.c_str()));
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
    return ok_or_errno(utimensat(fd_of(at), at.name.c_str(), nullptr, AT_SYMLINK_NOFOLLOW));
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
    if (fstatat(fd_of(at), at.name.c_str(), &st, AT_SYMLINK_NOFOLLOW) != 0) return last_error();
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
    const ssize_t length = readlinkat(fd_of(at), at.name.c_str(), buffer.data(), buffer.size());
    if (length < 0) return last_error();
    target.assign(buffer.data(), static_cast<std::size_t>(length));
    return {};
  }

 private:
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
    int fd = -1;
    do {
      const bool one_name = !at.dir || at.name.find('/') == std::string::npos;
      fd = one_name ? openat(fd_of(at), at.name.c_str(), flags, kFileMode)
                    : open_below(at.dir->fd(), at.name, flags, kFileMode);
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
