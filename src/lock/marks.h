#pragma once

#include <chrono>
#include <optional>
#include <vector>

#include "base/uid.h"
#include "disk/disk.h"
#include "lock/layout.h"

namespace holdfast::lock {

/// When an id was last seen alive, or last asked about.
struct Mark {
  Uid id;
  std::chrono::system_clock::time_point time;
};

/// The folders in_use/<id> of a lock, by which those who find checks dear share them out: who is
/// about to ask dates the mark of that id, and the others leave it in peace for a while.
///
/// Decides:  nothing. A mark that is lost, or wrong, costs a check or puts one off.
/// Times:    are the filesystem's own, also what now() gives: clocks of hosts differ.
/// Killed:   leaves marks of ids that are gone, which the next one to look removes.
class Marks {
 public:
  Marks(disk::Disk& disk, Layout at) : disk_(disk), at_(std::move(at)) {}

  std::vector<Mark> list() const;

  /// As the server has it, not as a cache remembers it. Nothing if there is no such mark.
  std::optional<std::chrono::system_clock::time_point> time(const Uid& id) const;

  /// The filesystem's clock, read by dating in_use/ itself, whose time means nothing. Nothing if
  /// that cannot be done.
  std::optional<std::chrono::system_clock::time_point> now();

  /// A mark of now, for an id that is in owner/ or build/. One that is there already keeps its
  /// time. True if it is new and the only one.
  bool make(const Uid& id);

  /// Dates a mark that is there.
  std::error_code renew(const Uid& id);

  void remove(const Uid& id);

  /// Removes in_use/ and the lock directory, as far as they are empty.
  void tidy();

 private:
  disk::Disk& disk_;
  Layout at_;
};

}  // namespace holdfast::lock
