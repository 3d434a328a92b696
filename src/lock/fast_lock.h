#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "base/record.h"
#include "base/uid.h"
#include "disk/disk.h"
#include "disk/watch.h"
#include "lock/layout.h"
#include "lock/leaf.h"
#include "lock/marks.h"

namespace holdfast::lock {

enum class Outcome {
  held,          ///< lock: it is ours now
  released,      ///< unlock: it was ours and no longer is
  contended,     ///< lock: another id has it; trying again makes sense
  already_mine,  ///< lock: this id had it before this call
  not_mine,      ///< unlock: this id does not have it
  failed,        ///< the world said no; `why` has its reason, and what of ours may be left
  cross_device,  ///< lock: build/ and owner/ are on two filesystems, no atomic rename
  deadlock,      ///< upgrade: another one that shares it upgrades already
};

struct Answer {
  Outcome outcome;
  std::string why;  ///< for people; empty where the outcome says it all
  /// Nobody else was seen: unlock removed the whole lock directory, lock the folder of attempts.
  bool is_alone = false;
  std::string nonce{};             ///< lock: of this hold; none with a folder leaf
  std::optional<Uid> neighbour{};  ///< unlock: the next of those who share it on
  bool is_foreign = false;         ///< failed: this is a directory of the user's own, not a lock
  bool is_stuck = false;           ///< failed: a dead holder's leaf cannot be removed
};

/// A leaf that a cleaner could not remove.
struct Stuck {
  Uid id;
  std::error_code error;
};

/// What a leaf is made of. Readers and cleaners accept both.
enum class LeafKind {
  file,  ///< what shell peers know; carries the record
  dir,   ///< one mkdir, no content; shell peers are kept out by it but cannot remove it
};

/// A lock that is a directory: held while <lock>/owner/<id> exists.
///
/// Decides:  lock() by one rename of build/<id>/owner onto owner/, which the kernel refuses while
///           another id is inside; unlock() by one unlink of owner/<id>. Neither is believed by its
///           return code: after the rename, done or refused, lock() opens owner/<id> and holds if
///           and only if it finds the nonce of this very attempt there. So a lost reply, an emptied
///           proposal and a second task under the same id all get the true answer.
/// Shared:   a shared hold is a symlink owner/<id>, made there by one symlink() and believed after
///           one look: while it is in owner/, that folder can neither be removed nor replaced, so
///           the look sees every leaf that was there before. An exclusive one among them: the own
///           leaf goes again, refused. None: held, since from then on no rename onto owner/ works.
/// Change:   upgrade() and downgrade() rename another leaf over the own one, which keeps the hold
///           all the time. An upgraded leaf alone in owner/ is exclusive; beside others it keeps
///           new ones out until they are gone. A listing may miss a name that is replaced while it
///           runs, so of those who share only one may change at a time: see upgrade().
/// Proposal: belongs to the attempt that made its owner folder. It leaves by a rename, whole: onto
///           owner/ or to build/.gone.<unique>. It is never emptied in place, because an unlink
///           that was on its way when the folder moved onto owner/ would remove the leaf of a live
///           holder.
/// Killed:   before the rename, build/<id> stays and harms nobody; after it, the lock is held by a
///           dead id until a policy cleans that id; in unlock(), an empty owner/ stays, which the
///           next rename replaces. Before the look of a shared lock: a leaf that keeps writers out
///           until its id is cleaned. In a change: the old leaf or the new one, never none.
/// Removal:  a leaf is removed below a handle on the owner folder in which it was just read, and
///           only if it is the hold that is meant. A later exclusive hold is in another folder,
///           which came by a rename, so a late unlink cannot reach it. A later shared hold of the
///           same id may be in the same folder. Therefore whoever removes a shared leaf has a
///           flock on the folder from the last read on, and a sharer that found no leaf of its id
///           waits for a moment without such a flock: a later remover reads its nonce. On a
///           network filesystem a remover on another host is not noticed that way.
/// Foreign:  a file in owner/ that no locker made is never removed, and lock() fails on it.
/// Owns:     nothing between calls; two FastLocks on one path are two contenders.
/// Threads:  const calls from anywhere; others from one thread at a time.
class FastLock {
 public:
  FastLock(disk::Disk& disk, const disk::SafePath& lock, const Log& log = silent_log());

  const disk::SafePath& path() const { return at_.lock(); }
  void set_leaf_kind(LeafKind kind) { leaf_kind_ = kind; }

  /// One attempt. Missing parents of the lock are made; `record` goes into the leaf with a fresh
  /// nonce. Refused or failed, it leaves nothing behind.
  Answer lock(const Uid& id, Record record, Mode mode = Mode::exclusive);

  /// Of a shared hold, which stays meanwhile. held: it is exclusive now. contended: others share
  /// it; new ones are kept out, so ask again, or downgrade() to give up. not_mine: there is none.
  /// The caller has right_to_upgrade(), and keeps it until the hold is exclusive or given up.
  Answer upgrade(const Uid& id, Record record);

  /// A lock of its own, for the one that upgrades.
  FastLock right_to_upgrade() const { return {disk_, at_.upgrade(), log_}; }

  /// Of an exclusive hold, or an upgrade that is not wanted any more: it is shared from now on.
  Answer downgrade(const Uid& id, Record record);

  /// Gives up what the caller holds (see is_own), then removes the folders that became empty.
  /// Without a record: what `id` holds.
  Answer unlock(const Uid& id, const Record& caller = {});

  /// Gives up one hold of `id`, and no other.
  Answer unlock_hold(const Uid& id, const std::string& nonce);

  // Looking. A lock that is there but may not be looked into is told by std::system_error, or `ec`.

  /// Who holds it, sorted by id, with their records.
  std::vector<Leaf> owner(std::error_code& ec) const;
  std::vector<Leaf> owner() const;

  /// Those among them whose ids are `wanted`: the records of the others are not read.
  std::vector<Leaf> owner(const std::function<bool(const Uid&)>& wanted, std::error_code& ec) const;

  /// What the caller holds: see is_own.
  std::optional<Leaf> leaf_of(const Uid& id, const Record& caller, std::error_code& ec) const;

  /// If another process holds the lock under the id of the caller: what the caller should be told.
  std::optional<std::string> twin_of(const Uid& id, const Record& caller) const;

  /// How `id` holds it, nothing if it does not. Of several holders none is exclusive.
  std::optional<Mode> mode(const Uid& id, std::error_code& ec) const;
  std::optional<Mode> mode(const Uid& id) const;

  /// Whether that hold of `id` is there, alone or beside others.
  bool is_held(const Uid& id, const std::string& nonce) const {
    return has_nonce(id, nonce).value_or(false);
  }

  /// Held by the caller (see is_own), and by nobody else.
  bool is_mine(const Uid& id, const Record& caller = {}) const;

  /// Held by that hold of `id`, and by no other.
  bool is_held_alone(const Uid& id, const std::string& nonce) const;

  /// Holders and proposers, sorted, each once.
  std::vector<Uid> ids_in_use(std::error_code& ec) const;
  std::vector<Uid> ids_in_use() const;

  /// Wakes those who wait for a holder to go, or to become one that shares.
  void watch(disk::Watch& watch) const { watch.on_departure(at_.owner().whole()); }

  /// When each of them was last seen alive or asked about: for policies with dear checks.
  Marks marks() const { return {disk_, at_}; }

  /// Removes all that these ids left: for ids known to be dead, or whose owner asked for it.
  void clean_stale_ids(std::span<const Uid> ids);

  /// The same for holders that were found dead. A leaf that a later holder with the same id put
  /// there since then stays. (A process with a blank in its name may get the id of a dead one.)
  /// Returns the first leaf that the filesystem does not let us remove.
  std::optional<Stuck> clean_stale(std::span<const Leaf> leaves);

  /// Those who have a folder in build/, with the records of their proposals. Some may hold the lock
  /// by now.
  std::vector<Leaf> proposals() const;

  /// Takes the proposals of these ids away, and only those: an id that holds the lock goes on
  /// holding it.
  void clean_proposals(std::span<const Uid> ids);

  /// Removes what belongs to nobody: proposals that nobody touched for `age` (a proposer that lives
  /// after all loses that attempt, not its exclusion), .gone folders, in_use marks of ids that are
  /// not there, empty folders. True if nothing is left of the lock.
  bool clean(std::chrono::system_clock::time_point now, std::chrono::seconds age);

  /// The same without an answer: for tidying up on the way, which never fails.
  void sweep(std::chrono::system_clock::time_point now, std::chrono::seconds age);

 private:
  struct Proposal;
  struct Look;
  enum class Found { mine, same_id, nobody, unreadable };

  Answer attempt(const Uid& id, const Record& record, bool& again);
  Answer join(const Uid& id, const Record& record, bool& again);
  Answer look_around(const disk::Handle& owner, const Uid& id, const Record& record, bool& again);
  Answer back_out(const Uid& id, const Record& record, Answer answer);
  Answer held_under(const Leaf& leaf, const Record& record) const;
  Answer foreign(const Leaf& leaf) const;
  std::optional<Answer> foreign_among(const disk::Handle& owner,
                                      const std::vector<std::string>& names) const;
  std::optional<Leaf> read_back(const disk::Handle& owner, const Uid& id) const;
  Answer unreadable(const Uid& id) const;
  Answer not_locked_by(const Uid& id) const;
  Answer not_mine(const Look& look, const Uid& id, const Record& caller) const;
  Answer cannot_look(std::error_code ec) const;
  Answer cannot_read(const Uid& id) const;
  void tidy();
  std::error_code open_owner(disk::Handle& owner);
  Answer change(const Uid& id, Record& record, Mode mode);
  std::error_code write_replacement(const disk::Handle& scratch, const Record& record, Mode mode);
  Answer move_replacement(const disk::Handle& scratch, const disk::Handle& owner, const Uid& id,
                          const Record& record, Mode mode);
  std::optional<Answer> build(Proposal& proposal, bool& again);
  std::optional<Answer> write_leaf(Proposal& proposal, bool& again);
  Answer settle(Proposal& proposal, std::error_code moved, bool& again);
  Answer withdraw(Proposal& proposal, Answer answer);
  Found find(Proposal& proposal) const;

  void discard(const disk::Handle& build, const disk::Handle& scratch, const Uid& id);
  void purge(const disk::At& folder, const Uid* likely);
  std::error_code remove_leaf(const disk::Handle& dir, const std::string& name);
  std::error_code look(const std::function<bool(const Uid&)>& wanted, Look& look) const;
  Answer give_up(Look& look, const Leaf& own);
  std::error_code release(disk::Handle& owner, const Leaf& own);
  std::error_code release(const Uid& id, const std::string& nonce);
  std::optional<bool> is_fixed(const disk::Handle& owner, const Leaf& leaf);
  bool is_still_there(disk::Handle& owner, const Leaf& own) const;
  std::error_code remove_stale(const Uid& id, const Leaf* judged);
  bool is_proposal(const disk::Handle& scratch, const Uid& id) const;
  void remove_replacement(const disk::Handle& scratch);
  std::optional<bool> has_nonce(const Uid& id, const std::string& nonce) const;
  static Answer held(const Proposal& proposal);
  void clean_proposal(const disk::Handle& build, const Uid& id);
  bool is_older(const disk::At& at, std::chrono::system_clock::time_point limit) const;
  std::error_code list(const disk::At& at, std::vector<std::string>& names) const;
  std::error_code list_leaves(const disk::At& owner, std::vector<disk::Entry>& leaves) const;
  bool look_into(const disk::SafePath& folder) const;
  std::vector<std::string> must_list(const disk::At& at) const;
  std::vector<std::string> names_in(const disk::At& at) const;
  bool is_owner(const Uid& id) const;
  bool is_only_name(const Uid& id) const;
  bool is_shared_by_all() const;
  std::string explain(std::error_code ec) const;

  disk::Disk& disk_;
  Layout at_;
  const Log& log_;
  LeafKind leaf_kind_ = LeafKind::file;
};

}  // namespace holdfast::lock
