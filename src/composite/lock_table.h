#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <variant>
#include <vector>

#include "composite/status.h"
#include "lock/fast_lock.h"

namespace holdfast::composite {

using lock::Mode;

/// Why the storage could not do what was asked: not "somebody has it", which is no failure.
struct Failure {
  std::error_code code;  ///< empty where the storage has only words
  std::string why;
};

/// Held by other holds of this table.
struct HeldHere {
  Mode mode;
  std::size_t count;
  bool is_opening = false;  ///< not yet held: the storage is being asked for it
};

/// Held by somebody outside, as the storage describes them.
struct HeldOutside {
  std::string who;
};

/// One hold in the storage, shared by all holds of a dataset in the table.
class StorageHold {
 public:
  /// Gone without close(): nobody will try again, and what is left there is the storage's affair.
  virtual ~StorageHold() = default;

  /// Gives it up, without waiting for anybody. Nothing: it is given up, also if it was gone
  /// already. After a failure, or an exception, it is called again.
  virtual std::optional<Failure> close() = 0;
};

/// A hold, which is null in a storage that has no locking; or who has it; or why it could not be
/// tried.
using Opened = std::variant<std::unique_ptr<StorageHold>, HeldOutside, Failure>;

/// What a LockTable asks so that programs outside are excluded too.
///
/// Called from any thread, for several datasets at a time; never for one dataset while another call
/// for it, open or close, is under way, and never to open what is still to be closed. May be slow,
/// but must not wait for a hold to end, nor use the table for the same dataset.
class LockStorage {
 public:
  virtual ~LockStorage() = default;
  virtual Opened open(std::int64_t dataset, Mode mode) = 0;
};

/// The expected no: `dataset` is held in a way that excludes what was asked for.
struct AlreadyLocked {
  std::int64_t dataset;
  std::variant<HeldHere, HeldOutside> holder;
};

/// The world's no: the storage could not be asked, or has not yet given up the hold before.
struct StorageFailed {
  std::int64_t dataset;
  Failure failure;
};

/// For a refusal: "dataset 7003 is locked by pid 42 (make) of anna on build7".
std::string describe(const AlreadyLocked& refusal);
std::string describe(const StorageFailed& refusal);

/// Who of this program holds which datasets, shared or exclusive, with one hold in the storage for
/// each.
///
///     LockTable table(storage);
///     auto answer = table.lock(datasets, Mode::shared);
///     if (auto* guard = std::get_if<LockTable::Guard>(&answer)) {
///       ...                                              // held until the guard goes
///     } else if (auto* busy = std::get_if<AlreadyLocked>(&answer)) {
///       std::cerr << describe(*busy);
///     }
///
/// Decides:  under the mutex, among the holds of this program: any number of shared ones, or one
///           exclusive. There are no owners: who holds a dataset and asks again is answered like
///           anybody else. The first hold of a dataset asks the storage, which decides between
///           programs; the last one closes what the storage gave.
/// Waits:    for no hold to end: a caller tries again, and writers starve while shared holds
///           overlap. It waits for calls into the storage that are under way for the same dataset:
///           opening:  a second shared caller waits for that one call and shares its result, a
///                     refusal too; an exclusive one is refused.
///           closing:  the dataset has left the table with its last hold, so the next caller, in
///                     either mode, is the first one again; others meet it as opening. But before
///                     it asks the storage it waits until the close before it is over. If the two
///                     calls could overlap, the storage might still find our own hold and refuse
///                     the caller in the name of nobody; or the late close might take away the new
///                     hold, if the storage knows both by one name. If that close failed, the
///                     caller repeats it first, for the same reason; if it fails again, the answer
///                     is StorageFailed: what the storage has of us is not known, and it is not
///                     asked for more.
///           Whoever waits waits for one thread that is inside the storage, or for an opener that
///           waits for such a one: no circle, also with collections in any order. The mutex is
///           never held across a call into the storage: a slow one stops nobody who wants another
///           dataset.
/// Fails:    a close that fails or throws ends the hold in the table all the same. The dataset is
///           in the failures of status() until a later close succeeds: of reap(), of the next
///           lock() of it, or of the table's end.
/// Throws:   what the storage's open throws, to the caller whose call it was; who shared that call
///           gets StorageFailed. Nothing of the caller's stays held.
/// Killed:   the table is gone; what the storage keeps of a dead process is the storage's affair.
/// Owns:     the storage's holds. `storage` outlives the table, the table outlives its guards.
/// Threads:  all calls from anywhere; one guard from one thread at a time.
class LockTable {
 public:
  /// What one lock() call took.
  class Guard {
   public:
    Guard(Guard&& other) noexcept;
    Guard& operator=(Guard&& other) noexcept;  ///< releases what it held before
    ~Guard();                                  ///< releases

    /// Gives all of it up, what was taken last first. A second time it does nothing. False if a
    /// close failed: released it is all the same.
    bool release() noexcept;

    /// In the order in which they were taken; none after release().
    const std::vector<std::int64_t>& datasets() const { return datasets_; }

   private:
    friend class LockTable;
    explicit Guard(LockTable& table) : table_(&table) {}
    LockTable* table_;
    std::vector<std::int64_t> datasets_;
  };

  using Answer = std::variant<Guard, AlreadyLocked, StorageFailed>;

  explicit LockTable(LockStorage& storage) : storage_(storage) {}
  LockTable(const LockTable&) = delete;
  LockTable& operator=(const LockTable&) = delete;
  ~LockTable();  ///< tries the failed closes a last time

  Answer lock(std::int64_t dataset, Mode mode);

  /// All of them, one after the other as they are given, or none: on a refusal, a failure or an
  /// exception of any type, what was taken is released, the last one first. A dataset that is there
  /// twice counts twice if shared, and refuses itself if exclusive.
  Answer lock(std::span<const std::int64_t> datasets, Mode mode);

  /// Tries again each close that failed. The number of those that failed again.
  std::size_t reap();

  /// What is held and what could not be closed, sorted by dataset. What is only being opened is not
  /// held yet.
  Status status() const;

 private:
  using Refusal = std::variant<AlreadyLocked, StorageFailed>;

  /// Counted from the moment the first caller asks. Those who wait for it keep it alive.
  struct Entry {
    enum class State { opening, open, refused };
    Mode mode;
    std::size_t count = 1;
    State state = State::opening;
    std::unique_ptr<StorageHold> hold{};
    std::optional<Refusal> refusal{};  ///< none though refused: the storage threw
  };

  /// A dataset that is opening or held (`entry`), or has a hold that is still to be closed, or both
  /// when an opener waits for that close. Leaves the table when it is neither.
  struct Slot {
    std::shared_ptr<Entry> entry{};
    bool is_closing = false;                  ///< some thread has the hold in hand
    std::unique_ptr<StorageHold> leftover{};  ///< else: whose close failed
    std::optional<Failure> failure{};         ///< of the last close
  };
  using Slots = std::map<std::int64_t, Slot>;
  using Lock = std::unique_lock<std::mutex>;
  class Opening;

  std::optional<Refusal> take(std::int64_t dataset, Mode mode);
  std::optional<Refusal> join(Lock& lock, Slots::iterator at, Mode mode);
  std::optional<Refusal> open(Lock& lock, Slots::iterator at);
  bool release(std::int64_t dataset);
  bool close(Lock& lock, Slots::iterator at, std::unique_ptr<StorageHold> hold);
  void drop_if_unused(Slots::iterator at);

  LockStorage& storage_;
  mutable std::mutex mutex_;
  std::condition_variable settled_;  ///< an open or a close is over
  Slots slots_;
};

}  // namespace holdfast::composite
