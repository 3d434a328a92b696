#pragma once

#include <optional>
#include <string>

#include "base/record.h"
#include "base/uid.h"
#include "disk/disk.h"

namespace holdfast::lock {

/// How a lock is held: by one id alone, or by several that all agreed to share.
enum class Mode { exclusive, shared };

/// One entry of owner/, or of a proposal.
struct Leaf {
  Uid id;
  std::optional<Record> record;
  bool is_readable = true;  ///< no: there may be a record that we may not or cannot read
  Mode mode = Mode::exclusive;
  /// No locker made it: a file with other content than a record, or a link to somewhere. It is
  /// never removed.
  bool is_foreign = false;
  disk::Status object{};  ///< of a leaf without a record: tells it from a later one of the same id
};

/// Whether the leaf belongs to the caller, whose id is `id`. This is the one rule for all locks.
///
/// If the leaf and the caller both name a process, the processes decide. The text of an id does
/// not: the id of one process changes when the clock is stepped or the process gets a name with a
/// blank in it, and two containers that start within one clock tick give their first processes the
/// same id. Else the text of the id decides.
bool is_own(const Leaf& leaf, const Uid& id, const Record& caller);

/// Whether the leaf has the id of the caller but belongs to another process.
bool is_twin(const Leaf& leaf, const Uid& id, const Record& caller);

/// For a refusal by such a leaf.
std::string describe_twin(const disk::SafePath& lock, const Leaf& leaf);

/// Whether both are one and the same hold.
bool is_same_hold(const Leaf& a, const Leaf& b);

/// What a shared leaf, which is a symlink, says: the word "shared" and the record.
std::string shared_target(const Record& record);

/// Of a leaf that is a file: its record, and whether it is foreign.
std::error_code read_content(disk::Disk& disk, disk::Handle& file, Leaf& leaf);

/// Nothing if there is no such leaf.
std::optional<Leaf> read_leaf(disk::Disk& disk, const disk::At& at, const std::string& name);
}  // namespace holdfast::lock
