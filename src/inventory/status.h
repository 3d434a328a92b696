#pragma once

#include <optional>
#include <vector>

#include "composite/status.h"
#include "disk/disk.h"

namespace holdfast::inventory {

/// Whether `folder` is a lock that somebody holds. A folder of locks, one of which is called
/// `owner`, is not: that `owner` has parts of a lock inside it. False if it cannot be read.
bool is_held(disk::Disk& disk, const disk::Path& folder);

/// The folder itself if it is a held lock, else all folders in it, sorted: what `rw_lock status`
/// looks at. Throws std::system_error if the folder cannot be read.
std::vector<disk::Path> locks_in(disk::Disk& disk, const disk::Path& folder);

/// Who holds the lock, for the status documents. Nothing if the lock is free. Throws
/// std::system_error if the lock is there but cannot be read.
std::optional<composite::LockStatus> status_of(disk::Disk& disk, const disk::Path& lock);

}  // namespace holdfast::inventory
