#pragma once

#include <boost/filesystem/path.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "disk/handle.h"

namespace holdfast::disk {

using Path = boost::filesystem::path;

/// Where a call acts: a path, or a name below a directory that is held open.
///
/// Below a handle no open or change follows a symbolic link, in no part of the name. In a path,
/// links are followed on the way (the user chose it) but not in the last part. A changing call
/// below a handle takes one name, or a sibling of the handle's directory ("../name"): neither has a
/// part on the way that could be a link.
struct At {
  At(const Path& path) : name(path.native()) {}
  At(const Handle& below, std::string name_below) : dir(&below), name(std::move(name_below)) {}

  const Handle* dir = nullptr;
  std::string name;
};

enum class Kind { file, dir, symlink, other };

/// One name of a listing, and what it is.
struct Entry {
  std::string name;
  Kind kind = Kind::other;
};

struct Status {
  Kind kind = Kind::other;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::chrono::system_clock::time_point modified;

  bool is_same_object(const Status& other) const {
    return device == other.device && inode == other.inode;
  }
};

/// The one door to the filesystem. Each call that changes something is one system call with one
/// effect, so that a test can stop the world between any two, fail any of them, or do one and lose
/// its reply. Errors come back as they are: ENOENT is not a success here, EEXIST is not a success
/// either.
class Disk {
 public:
  virtual ~Disk() = default;

  // Changing.
  virtual std::error_code make_dir(const At& at) = 0;
  virtual std::error_code remove_dir(const At& at) = 0;  ///< only an empty one
  virtual std::error_code unlink(const At& at) = 0;
  virtual std::error_code rename(const At& from, const At& to) = 0;  ///< rename(2), never a copy
  virtual std::error_code create(const At& at, Handle& file) = 0;    ///< a new file, or EEXIST
  virtual std::error_code symlink(const std::string& target, const At& at) = 0;  ///< likewise
  virtual std::error_code write(Handle& file, std::string_view text) = 0;
  virtual std::error_code close(
      Handle& file) = 0;  ///< the last word of a network filesystem on what was written
  /// Dates a folder or file now, by the clock of the filesystem: a server's, not this host's.
  virtual std::error_code touch(const At& at) = 0;

  // Looking. Names come unsorted, without "." and "..".
  virtual std::error_code open_dir(const At& at, Handle& dir) = 0;
  virtual std::error_code open_file(const At& at, Handle& file) = 0;  ///< for reading; never waits
  /// The whole file; EFBIG if it has more than `limit` bytes.
  virtual std::error_code read(Handle& file, std::string& text, std::size_t limit) = 0;
  virtual std::error_code list(const At& at, std::vector<std::string>& names) = 0;
  virtual std::error_code list_kinds(const At& at, std::vector<Entry>& entries) = 0;
  virtual std::error_code status(const At& at, Status& status) = 0;
  virtual std::error_code read_link(const At& at, std::string& target) = 0;
};

/// The real one.
Disk& posix();

/// mkdir -p. Tries the deepest first: mostly its parents are there.
std::error_code make_dirs(Disk& disk, const Path& path);

/// More than any file of procfs that we read, /proc/stat of the largest machines included.
inline constexpr std::size_t kSmallFile = 4 << 20;

struct Content {
  std::error_code error;
  std::string text;
};

/// Several small files in one go, closed together.
std::vector<Content> read_files(Disk& disk, std::initializer_list<Path> paths);

}  // namespace holdfast::disk
