#include "server/sqlite_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace holdfast::server {
namespace {

std::string failed(const std::string& file) {
  return file + ": " + std::generic_category().message(errno);
}

/// Returns why `fd`, a descriptor of `file` or of its lock file, cannot be locked.
std::optional<std::string> lock_at_once(int fd, const std::string& file) {
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return std::nullopt;
  if (errno != EWOULDBLOCK) return failed(file);
  return file + ": another holdfastd serves it already";
}

/// Opens for reading, which is enough for flock; SQLite says why if the file cannot be written.
/// O_CREAT is left out for a file that exists: in a folder like /tmp it can be refused then.
int open_or_make(const std::string& file) {
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 || errno != ENOENT) return fd;
  return ::open(file.c_str(), O_RDONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
}

}  // namespace

SqliteLock::~SqliteLock() {
  if (itself_ >= 0) ::close(itself_);
  if (beside_ >= 0) ::close(beside_);
}

std::optional<std::string> SqliteLock::take(const std::string& file) {
  if (auto why = take_beside(file)) return why;
  return take_itself(file);
}

std::optional<std::string> SqliteLock::take_beside(const std::string& file) {
  const std::string name = file + "-lock";
  beside_ = ::open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0640);
  if (beside_ < 0) return failed(name);
  return lock_at_once(beside_, file);
}

std::optional<std::string> SqliteLock::take_itself(const std::string& file) {
  itself_ = open_or_make(file);
  if (itself_ < 0) return failed(file);
  struct stat about {};
  if (fstat(itself_, &about) != 0) return failed(file);
  if (about.st_nlink > 1) {
    return file + ": has " + std::to_string(about.st_nlink) +
           " hard links, and under another name it could be served twice; remove the other names "
           "(find -samefile shows them)";
  }
  identity_ = {about.st_dev, about.st_ino};
  return lock_at_once(itself_, file);
}

}  // namespace holdfast::server
