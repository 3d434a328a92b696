#pragma once

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/uid.h"
#include "disk/disk.h"

namespace holdfast::lock {

/// Every name inside a lock directory; holdfast-layout(5) is its page. Nothing else spells one.
///
///     LOCK/owner/<id>                held by <id>: a symlink is one shared hold of several,
///                                    anything else holds alone
///     LOCK/build/<id>/owner/<id>     a proposal of <id>
///     LOCK/build/<id>/leaf           the leaf by which <id> changes the mode of its hold
///     LOCK/build/.gone.<unique>      a proposal on its way out
///     LOCK/in_use/<id>/              grace policy: time of the last sign of life or the last check
///     LOCK/.upgrade/                 a lock: held by the one sharer that upgrades
///     LOCK/.queue/new.<id>           somebody who is about to get in line
///     LOCK/.queue/<number>.<m>.<id>  a place in line: 10 digits, m is r or w
///     LOCK/.queue/asked.<id>         grace policy: time of the last check of a waiter
class Layout {
 public:
  explicit Layout(const disk::SafePath& lock) : lock_(without_slashes(lock)) {}

  const disk::SafePath& lock() const { return lock_; }
  disk::SafePath inside() const {
    return lock_ / ".";
  }  ///< the lock may be a link to a folder: looks through it
  disk::SafePath owner() const { return lock_ / kOwner; }
  disk::SafePath build() const { return lock_ / kBuild; }
  disk::SafePath in_use() const { return lock_ / kInUse; }
  disk::SafePath upgrade() const { return lock_ / kUpgrade; }
  disk::SafePath queue() const { return lock_ / kQueue; }

  // Whole paths, for messages: what is done there is done below a handle.
  disk::SafePath leaf(const Uid& id) const { return owner() / id.str(); }
  disk::SafePath scratch(const Uid& id) const { return build() / id.str(); }
  disk::SafePath proposal(const Uid& id) const { return scratch(id) / kOwner; }
  disk::SafePath proposed_leaf(const Uid& id) const { return proposal(id) / id.str(); }
  disk::SafePath asked(const Uid& id) const { return queue() / (kAsked + id.str()); }

  // Below a handle on build/.
  static disk::At scratch(const disk::Handle& build, const Uid& id) { return {build, id.str()}; }
  static disk::At gone(const disk::Handle& build, const std::string& unique) {
    return {build, std::string(kGone) + unique};
  }
  static disk::At owner_beside(const disk::Handle& build) { return {build, "../owner"}; }
  static disk::At leaf_beside(const disk::Handle& build, const Uid& id) {
    return {build, "../owner/" + id.str()};
  }
  static disk::At build_itself(const disk::Handle& build) { return {build, "../build"}; }

  // Below a handle on build/<id>/.
  static disk::At proposal(const disk::Handle& scratch) { return {scratch, kOwner}; }
  static disk::At proposed_leaf(const disk::Handle& scratch, const Uid& id) {
    return {scratch, std::string(kOwner) + "/" + id.str()};
  }

  static disk::At replacement(const disk::Handle& scratch) { return {scratch, kLeaf}; }

  // Below a handle on owner/.
  static disk::At leaf(const disk::Handle& owner, const Uid& id) { return {owner, id.str()}; }
  static disk::At itself(const disk::Handle& dir) { return {dir, "."}; }

  // Below a handle on .queue/.
  static disk::At newcomer(const disk::Handle& queue, const Uid& id) {
    return {queue, kNew + id.str()};
  }
  /// The id in new.<id>, or nothing if the name is another one. The next one does so for
  /// asked.<id>.
  /// The longest id that fits into the name of a ticket.
  static constexpr std::size_t kLongestWaiter = 255 - std::string_view("0000000001.w.").size();
  static std::optional<Uid> newcomer(const std::string& name) { return id_after(kNew, name); }
  static std::optional<Uid> asked_about(const std::string& name) { return id_after(kAsked, name); }

  // Below a handle on in_use/.
  static disk::At mark(const disk::Handle& in_use, const Uid& id) { return {in_use, id.str()}; }

  /// A name that only stands in a lock directory.
  static bool is_part(const std::string& name) {
    return std::find(kParts.begin(), kParts.end(), name) != kParts.end();
  }

  /// Every name that can stand below a lock directory because of `id`. Tests plant a link under
  /// each of them.
  static std::vector<std::string> every_name(const Uid& id) {
    const std::string own = "/" + id.str();
    const std::string scratch = kBuild + own;
    const std::string gone = std::string(kBuild) + "/" + kGone + std::string(32, '0');
    const std::string queue = std::string(kQueue) + "/";
    std::vector<std::string> names(kParts.begin(), kParts.end());
    names.insert(names.end(),
                 {kOwner + own, scratch, scratch + "/" + kOwner, scratch + "/" + kOwner + own,
                  scratch + "/" + kLeaf, gone, gone + own, kInUse + own, queue + kNew + id.str(),
                  queue + kAsked + id.str(), queue + "0000000001.w." + id.str()});
    const std::size_t count = names.size();
    for (std::size_t i = 0; i < count; ++i) {  // the right to upgrade is a lock itself
      names.push_back(std::string(kUpgrade) + "/" + names[i]);
    }
    return names;
  }

  static bool is_gone(const std::string& name) { return name.starts_with(kGone); }
  /// What an NFS client leaves in place of an unlinked open file.
  static bool is_silly(const std::string& name) { return name.starts_with(".nfs"); }

 private:
  static constexpr const char* kOwner = "owner";
  static constexpr const char* kBuild = "build";
  static constexpr const char* kInUse = "in_use";
  static constexpr const char* kGone = ".gone.";
  static constexpr const char* kLeaf = "leaf";
  static constexpr const char* kUpgrade = ".upgrade";
  static constexpr const char* kQueue = ".queue";
  static constexpr const char* kNew = "new.";
  static constexpr const char* kAsked = "asked.";
  static constexpr std::array kParts{kOwner, kBuild, kInUse, kUpgrade, kQueue};

  static std::optional<Uid> id_after(std::string_view prefix, const std::string& name) {
    if (!name.starts_with(prefix)) return std::nullopt;
    return Uid::found(name.substr(prefix.size()));
  }

  /// "lock/" and "lock" are one lock; a trailing slash would make the kernel follow a link at the
  /// end.
  static disk::SafePath without_slashes(const disk::SafePath& path) {
    if (path.below() > 0) return path;  // the names of this program end without one
    std::string text = path.native();
    while (text.size() > 1 && text.back() == '/') text.pop_back();
    return text;
  }

  disk::SafePath lock_;
};

/// The names in a directory whose entries are locks: a semaphore.
///
///     SEM/<slot>/     an ordinary lock, with a Layout of its own
///     SEM/.<name>     no slot: what other tools keep beside them
class SlotLayout {
 public:
  explicit SlotLayout(const disk::SafePath& folder) : folder_(Layout(folder).lock()) {}

  const disk::SafePath& folder() const { return folder_; }
  disk::SafePath inside() const { return Layout(folder_).inside(); }
  disk::SafePath slot(const std::string& name) const { return folder_ / name; }

  static bool is_slot(const std::string& name) {
    return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos;
  }

 private:
  disk::SafePath folder_;
};

}  // namespace holdfast::lock
