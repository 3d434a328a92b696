#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

namespace holdfast::server {

/// The right to be the only server of an SQLite file.
///
/// Decides:  by two flocks. The one on FILE-lock is what earlier versions take. The one on FILE
///           itself also holds when FILE-lock was removed or FILE was renamed.
/// Links:    A file with more than one hard link is refused: SQLite names its journal after the
///           path, so a reader under another name would miss the journal.
/// Order:    Closing any descriptor of a file drops all POSIX locks that the process has on that
///           file, and SQLite relies on those. So take() comes before SQLite opens the file, and
///           the destructor runs after SQLite has closed it. No other code of the process opens
///           the file.
/// Killed:   The kernel releases both locks; FILE-lock stays and means nothing.
class SqliteLock {
 public:
  using Identity = std::pair<dev_t, ino_t>;

  SqliteLock() = default;
  SqliteLock(const SqliteLock&) = delete;
  SqliteLock& operator=(const SqliteLock&) = delete;
  ~SqliteLock();

  /// Makes an empty file if there is none. Returns the reason if the file must not be served.
  std::optional<std::string> take(const std::string& file);

  /// Returns which file is locked, after take().
  Identity identity() const { return identity_; }

 private:
  std::optional<std::string> take_beside(const std::string& file);
  std::optional<std::string> take_itself(const std::string& file);

  int beside_ = -1;  ///< of FILE-lock
  int itself_ = -1;  ///< of FILE
  Identity identity_{};
};

}  // namespace holdfast::server
