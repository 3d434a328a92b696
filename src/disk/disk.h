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

/// A path in two parts: what the user typed, and names below it that this program added.
///
/// The user may have typed a symbolic link. Whoever can write to the directory behind it can plant
/// a link under any name below, so a name below is never followed if it is a link.
class SafePath {
 public:
  SafePath(Path typed) : whole_(std::move(typed)) {}
  SafePath(const std::string& typed) : whole_(typed) {}
  SafePath(const char* typed) : whole_(typed) {}

  /// One name, or several with slashes between them.
  SafePath operator/(const std::string& name) const;

  SafePath parent() const;
  const Path& whole() const { return whole_; }
  const std::string& native() const { return whole_.native(); }

  /// Where the names below begin in native(); 0 if there are none.
  std::size_t below() const { return below_; }

 private:
  Path whole_;
  std::size_t below_ = 0;
};

/// Where a call acts: a path, or a name below a directory that is held open.
///
/// No call follows a symbolic link in the last part of a name. Below a handle and in the lower part
/// of a SafePath, no part on the way may be a link either. A changing call below a handle takes one
/// name, or a sibling of the handle's directory ("../name"): neither has a part on the way.
struct At {
  At(const Path& path) : name(path.native()) {}
  At(const SafePath& path) : name(path.native()), below(path.below()) {}
  At(const Handle& dir_above, std::string name_below)
      : dir(&dir_above), name(std::move(name_below)) {}

  const Handle* dir = nullptr;
  std::string name;
  std::size_t below = 0;  ///< as SafePath::below
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

  /// flock(2) of a folder that open_file opened, without waiting: EAGAIN if another handle is in
  /// the way. It ends with `none` and with the handle. Network filesystems know it within one host
  /// only.
  enum class Share { alone, together, none };
  virtual std::error_code flock(const Handle& dir, Share share) = 0;
};

/// The real one.
Disk& posix();

/// mkdir -p. Tries the deepest first: mostly its parents are there.
std::error_code make_dirs(Disk& disk, const SafePath& path);

/// More than any file of procfs that we read, /proc/stat of the largest machines included.
inline constexpr std::size_t kSmallFile = 4 << 20;

struct Content {
  std::error_code error;
  std::string text;
};

/// Several small files in one go, closed together.
std::vector<Content> read_files(Disk& disk, std::initializer_list<Path> paths);

}  // namespace holdfast::disk
