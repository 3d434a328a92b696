#include "inventory/search.h"

#include <algorithm>
#include <cerrno>

#include "base/text.h"
#include "composite/semaphore.h"
#include "lock/fast_lock.h"
#include "lock/layout.h"

namespace holdfast::inventory {
namespace {

using lock::Layout;
using lock::Leaf;
using lock::Mode;

/// The folder was removed, or is a link or file by now.
bool has_vanished(std::error_code ec) {
  return ec == std::errc::no_such_file_or_directory || ec == std::errc::not_a_directory ||
         ec == std::errc::too_many_symbolic_link_levels ||
         ec == std::error_code(ESTALE, std::generic_category());
}

FoundKind kind_of(const disk::Path& lock) {
  const std::string name = lock.filename().native();
  const auto number = to_number(name);
  const bool is_slot =
      number && *number > 0 && *number <= composite::Semaphore::kLargestMax && name.front() != '0';
  return is_slot ? FoundKind::slot : FoundKind::lock;
}

class Search {
 public:
  Search(disk::Disk& disk, std::size_t deepest) : disk_(disk), deepest_(deepest) {}

  Found run(const disk::Path& folder) {
    std::vector<disk::Entry> entries;
    const disk::SafePath typed(folder);
    if (const auto ec = disk_.list_kinds(typed / ".", entries)) {
      found_.unsearched.push_back({folder, ec.message()});
    } else {
      visit(Layout(typed).lock(), entries, 0);
    }
    const auto by_path = [](const auto& a, const auto& b) { return a.path < b.path; };
    std::sort(found_.locks.begin(), found_.locks.end(), by_path);
    std::sort(found_.unsearched.begin(), found_.unsearched.end(), by_path);
    return std::move(found_);
  }

 private:
  void visit(const disk::SafePath& folder, const std::vector<disk::Entry>& entries,
             std::size_t depth) {
    const bool has_owner = std::any_of(entries.begin(), entries.end(), [&](const auto& entry) {
      return entry.kind == disk::Kind::dir &&
             (folder / entry.name).native() == Layout(folder).owner().native();
    });
    const bool is_lock = has_owner && take(folder);
    for (const disk::Entry& entry : entries) {
      if (entry.kind != disk::Kind::dir) continue;
      const bool is_never_a_lock = Layout::is_part(entry.name) && entry.name.front() == '.';
      if (is_never_a_lock || (is_lock && Layout::is_part(entry.name))) continue;
      descend(folder / entry.name, depth + 1);
    }
  }

  void descend(const disk::SafePath& folder, std::size_t depth) {
    std::vector<disk::Entry> entries;
    if (depth > deepest_) {
      found_.unsearched.push_back(
          {folder.whole(), "it is more than " + std::to_string(deepest_) + " levels deep"});
    } else if (const auto ec = disk_.list_kinds(folder, entries); !ec) {
      visit(folder, entries, depth);
    } else if (!has_vanished(ec)) {
      found_.unsearched.push_back({folder.whole(), ec.message()});
    }
  }

  /// Reports the folder if it is a held lock. Returns whether `owner` in it belongs to a lock.
  bool take(const disk::SafePath& folder) {
    std::error_code ec;
    std::vector<Leaf> leaves = lock::FastLock(disk_, folder).owner(ec);
    if (ec) {
      if (!has_vanished(ec)) found_.unsearched.push_back({folder.whole(), ec.message()});
      return true;
    }
    std::erase_if(leaves, [&](const Leaf& leaf) { return !is_made_by_locker(folder, leaf); });
    if (leaves.empty()) return false;
    if (is_proposal(folder, leaves)) return true;
    FoundLock one{folder.whole(), kind_of(folder.whole()), {}};
    for (Leaf& leaf : leaves) {
      one.holders.push_back({std::move(leaf.id), leaf.mode, std::move(leaf.record)});
    }
    found_.locks.push_back(std::move(one));
    return true;
  }

  /// A folder as a leaf (--dir-leaf) is empty; a folder of the user mostly is not.
  bool is_made_by_locker(const disk::SafePath& lock, const Leaf& leaf) const {
    if (leaf.is_foreign) return false;
    if (leaf.record || leaf.object.kind != disk::Kind::dir) return true;
    std::vector<std::string> names;
    return !disk_.list(Layout(lock).leaf(leaf.id), names) && names.empty();
  }

  /// LOCK/build/<id> holds owner/<id> while <id> tries to lock LOCK.
  static bool is_proposal(const disk::SafePath& folder, const std::vector<Leaf>& leaves) {
    return leaves.size() == 1 && folder.below() > 0 &&
           folder.native() == Layout(folder.parent().parent()).scratch(leaves.front().id).native();
  }

  disk::Disk& disk_;
  std::size_t deepest_;
  Found found_;
};

}  // namespace

Mode FoundLock::mode() const {
  return holders.size() == 1 ? holders.front().mode : Mode::shared;
}

Found find_locks(disk::Disk& disk, const disk::Path& folder, std::size_t deepest) {
  return Search(disk, deepest).run(folder);
}

}  // namespace holdfast::inventory
