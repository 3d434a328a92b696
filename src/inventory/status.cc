#include "inventory/status.h"

#include <algorithm>
#include <system_error>

#include "lock/fast_lock.h"
#include "lock/layout.h"
#include "policy/check_policy.h"

namespace holdfast::inventory {

using lock::Mode;

bool is_held(disk::Disk& disk, const disk::Path& folder) {
  std::vector<disk::Entry> leaves;
  if (disk.list_kinds(lock::Layout(folder).owner(), leaves)) return false;
  return !leaves.empty() && std::none_of(leaves.begin(), leaves.end(), [](const auto& leaf) {
    return leaf.kind == disk::Kind::dir && lock::Layout::is_part(leaf.name);
  });
}

std::vector<disk::Path> locks_in(disk::Disk& disk, const disk::Path& folder) {
  std::vector<disk::Entry> entries;
  if (const auto ec = disk.list_kinds(folder / ".", entries)) {
    throw std::system_error(ec, "cannot look into " + folder.native());
  }
  if (is_held(disk, folder)) return {folder};
  std::vector<disk::Path> locks;
  for (const disk::Entry& entry : entries) {
    const disk::Path path = folder / entry.name;
    const bool is_rest = path == lock::Layout(folder).upgrade().whole();  // of a free lock
    if (entry.kind == disk::Kind::dir && !is_rest) locks.push_back(path);
  }
  std::sort(locks.begin(), locks.end());
  return locks;
}

std::optional<composite::LockStatus> status_of(disk::Disk& disk, const disk::Path& lock) {
  composite::LockStatus status{lock.filename().native(), Mode::shared, 0, {}};
  for (const lock::Leaf& leaf : lock::FastLock(disk, lock).owner()) {
    if (leaf.mode == Mode::exclusive) status.mode = Mode::exclusive;
    status.holders.push_back(
        leaf.id.str() + (leaf.record ? ", " + describe(policy::with_user_name(*leaf.record)) : ""));
    ++status.count;
  }
  // A sharer that upgrades already has an exclusive leaf, beside the holders that it waits for.
  if (status.count > 1) status.mode = Mode::shared;
  return status.count > 0 ? std::optional(std::move(status)) : std::nullopt;
}

}  // namespace holdfast::inventory
