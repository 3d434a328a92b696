#pragma once

#include <sys/types.h>

#include "composite/holder.h"
#include "composite/lock_table.h"
#include "disk/disk.h"

namespace holdfast::composite {

/// The storage of a LockTable on disk: dataset 7003 is the rw lock <root>/7003, so that rw_lock,
/// plain lockers and other tables on the same root are excluded too.
///
/// Decides:  nothing; FastLock does. One attempt, without a place in line: a table never waits for
///           a hold to end.
/// Fork:     a child does not hold what its parent holds; a hold that reaches it does nothing.
class RwStorage final : public LockStorage {
 public:
  /// `holder` is this process; it outlives the table.
  RwStorage(disk::SafePath root, const Holder& holder, disk::Disk& disk = disk::posix())
      : root_(std::move(root)), holder_(holder), disk_(disk) {}

  Opened open(std::int64_t dataset, Mode mode) override;

 private:
  disk::SafePath root_;
  const Holder& holder_;
  disk::Disk& disk_;
};

}  // namespace holdfast::composite
