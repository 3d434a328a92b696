#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "base/record.h"
#include "base/uid.h"
#include "disk/disk.h"
#include "lock/leaf.h"

namespace holdfast::inventory {

enum class FoundKind {
  lock,
  /// The lock's name is a number from 1 to a million without leading zeros, as the slots of a
  /// semaphore are called. A semaphore is only a folder of slots, so an ordinary lock with such a
  /// name cannot be told from a slot. A slot with another name (`acquire_slot`) is a `lock`.
  slot,
};

struct FoundHolder {
  Uid id;
  lock::Mode mode;               ///< of this leaf
  std::optional<Record> record;  ///< none: a shell peer holds it, or the record cannot be read
};

/// One lock that somebody holds.
struct FoundLock {
  disk::Path path;  ///< the folder as it was given, and the names below it
  FoundKind kind = FoundKind::lock;
  std::vector<FoundHolder> holders;  ///< sorted by id; never empty

  /// How the lock is held. Several holders share it, whatever their leaves say: one of them may be
  /// about to upgrade.
  lock::Mode mode() const;
};

/// A folder that was not searched.
struct Unsearched {
  disk::Path path;
  std::string why;
};

struct Found {
  std::vector<FoundLock> locks;        ///< sorted by path
  std::vector<Unsearched> unsearched;  ///< sorted by path; empty: the answer is complete
};

/// As deep as the search goes below the folder that was given.
inline constexpr std::size_t kDeepest = 32;

/// Finds every held lock at `folder` and below it.
///
/// Sees:     Held locks. A free lock leaves nothing that tells it from a folder of the user. A
///           folder is a held lock if `owner` in it holds a leaf that a locker made: a record, an
///           empty file, an empty folder or a shared link. Proposals and the right to upgrade are
///           parts of a lock and are not reported.
/// Depth:    At most `deepest` levels below `folder`. A folder beyond that is in `unsearched`.
/// Links:    `folder` may be a link. A link below it is never followed.
/// Races:    Other processes lock and unlock meanwhile. A folder that vanishes is left out without
///           an error; a lock that changes its holder has the one or the other.
/// Errors:   A folder that may not be read is in `unsearched`, and the search goes on. If `folder`
///           itself is missing or cannot be read, it is the only entry there.
/// Changes:  Nothing.
Found find_locks(disk::Disk& disk, const disk::Path& folder, std::size_t deepest = kDeepest);

}  // namespace holdfast::inventory
