#include "composite/lock_table.h"

#include <exception>
#include <utility>

namespace holdfast::composite {
namespace {

/// A storage must not end the program from a guard's destructor, so nothing it throws goes further.
std::optional<Failure> try_close(StorageHold& hold) noexcept {
  try {
    return hold.close();
  } catch (const std::system_error& e) {
    return Failure{e.code(), e.what()};
  } catch (const std::exception& e) {
    return Failure{{}, e.what()};
  } catch (...) {
    return Failure{{}, "the storage threw what is no std::exception"};
  }
}

std::string reason(const Failure& failure) {
  return failure.why.empty() ? failure.code.message() : failure.why;
}

std::string describe(const HeldHere& holder) {
  const std::string mode(to_word(holder.mode));
  if (holder.is_opening) return "is just being locked " + mode + " by this program";
  return "is locked " + mode + " by this program, " + std::to_string(holder.count) +
         (holder.count == 1 ? " hold" : " holds");
}

std::string describe(const HeldOutside& holder) {
  return "is locked by " + holder.who;
}

}  // namespace

std::string describe(const AlreadyLocked& refusal) {
  return "dataset " + std::to_string(refusal.dataset) + ' ' +
         std::visit([](const auto& holder) { return describe(holder); }, refusal.holder);
}

std::string describe(const StorageFailed& refusal) {
  return "dataset " + std::to_string(refusal.dataset) +
         " could not be locked: " + reason(refusal.failure);
}

/// From the first caller's request to its result: however that call ends, those who wait for it are
/// told.
class LockTable::Opening {
 public:
  Opening(LockTable& table, Lock& lock, Slots::iterator at)
      : table_(table), lock_(lock), at_(at), entry_(at->second.entry) {}
  Opening(const Opening&) = delete;
  Opening& operator=(const Opening&) = delete;

  ~Opening() {
    if (!lock_.owns_lock()) lock_.lock();
    if (entry_->state != Entry::State::open) {
      entry_->state = Entry::State::refused;
      at_->second.entry.reset();
      table_.drop_if_unused(at_);
    }
    table_.settled_.notify_all();
  }

  Mode mode() const { return entry_->mode; }
  void hold(std::unique_ptr<StorageHold> hold) {
    entry_->hold = std::move(hold);
    entry_->state = Entry::State::open;
  }
  std::optional<Refusal> refuse(Refusal refusal) {
    entry_->refusal = std::move(refusal);
    return entry_->refusal;
  }

 private:
  LockTable& table_;
  Lock& lock_;
  Slots::iterator at_;
  std::shared_ptr<Entry> entry_;
};

LockTable::~LockTable() {
  reap();
}

LockTable::Answer LockTable::lock(std::int64_t dataset, Mode mode) {
  return lock(std::span(&dataset, 1), mode);
}

LockTable::Answer LockTable::lock(std::span<const std::int64_t> datasets, Mode mode) {
  Guard guard(*this);
  guard.datasets_.reserve(datasets.size());
  for (const std::int64_t dataset : datasets) {
    if (auto refusal = take(dataset, mode))  // the guard gives back what was taken
      return std::visit([](auto& no) { return Answer(std::move(no)); }, *refusal);
    guard.datasets_.push_back(dataset);
  }
  return guard;
}

std::optional<LockTable::Refusal> LockTable::take(std::int64_t dataset, Mode mode) {
  Lock lock(mutex_);
  auto at = slots_.find(dataset);
  if (at != slots_.end() && at->second.entry) return join(lock, at, mode);
  auto entry = std::make_shared<Entry>(Entry{mode});
  at = slots_.try_emplace(dataset).first;
  at->second.entry = std::move(entry);
  return open(lock, at);
}

std::optional<LockTable::Refusal> LockTable::join(Lock& lock, Slots::iterator at, Mode mode) {
  using enum Entry::State;
  const std::int64_t dataset = at->first;
  const std::shared_ptr<Entry> entry = at->second.entry;
  if (mode == Mode::exclusive || entry->mode == Mode::exclusive)
    return AlreadyLocked{dataset, HeldHere{entry->mode, entry->count, entry->state == opening}};
  ++entry->count;  // before the wait: the first caller may have released by the time we wake
  settled_.wait(lock, [&] { return entry->state != opening; });
  if (entry->state == open) return std::nullopt;
  if (entry->refusal) return entry->refusal;
  return StorageFailed{dataset, {{}, "the storage threw an exception at another caller"}};
}

std::optional<LockTable::Refusal> LockTable::open(Lock& lock, Slots::iterator at) {
  const auto& [dataset, slot] = *at;
  Opening opening(*this, lock, at);
  settled_.wait(lock, [&closing = slot.is_closing] { return !closing; });
  if (slot.leftover && !close(lock, at, std::move(at->second.leftover)))
    return opening.refuse(StorageFailed{dataset, *slot.failure});
  lock.unlock();
  Opened opened = storage_.open(dataset, opening.mode());
  lock.lock();
  if (auto* outside = std::get_if<HeldOutside>(&opened))
    return opening.refuse(AlreadyLocked{dataset, std::move(*outside)});
  if (auto* failure = std::get_if<Failure>(&opened))
    return opening.refuse(StorageFailed{dataset, std::move(*failure)});
  opening.hold(std::move(std::get<std::unique_ptr<StorageHold>>(opened)));
  return std::nullopt;
}

bool LockTable::release(std::int64_t dataset) {
  Lock lock(mutex_);
  const auto at = slots_.find(dataset);
  Slot& slot = at->second;
  if (--slot.entry->count > 0) return true;
  std::unique_ptr<StorageHold> hold = std::move(slot.entry->hold);
  slot.entry.reset();
  if (hold) return close(lock, at, std::move(hold));
  drop_if_unused(at);
  return true;
}

/// Tries it once, with the mutex given up meanwhile. False: it is left over, with its failure.
bool LockTable::close(Lock& lock, Slots::iterator at, std::unique_ptr<StorageHold> hold) {
  Slot& slot = at->second;
  slot.is_closing = true;
  lock.unlock();
  std::optional<Failure> failure = try_close(*hold);
  const bool is_closed = !failure;
  if (is_closed) hold.reset();
  lock.lock();
  slot.is_closing = false;
  slot.leftover = std::move(hold);
  slot.failure = std::move(failure);
  drop_if_unused(at);
  settled_.notify_all();
  return is_closed;
}

void LockTable::drop_if_unused(Slots::iterator at) {
  const Slot& slot = at->second;
  if (!slot.entry && !slot.is_closing && !slot.leftover) slots_.erase(at);
}

std::size_t LockTable::reap() {
  Lock lock(mutex_);
  std::vector<std::int64_t> failed;
  for (const auto& [dataset, slot] : slots_) {
    if (slot.failure) failed.push_back(dataset);
  }
  std::size_t left = 0;
  for (const std::int64_t dataset : failed) {
    const auto at = slots_.find(dataset);
    if (at == slots_.end() || !at->second.leftover) continue;
    if (!close(lock, at, std::move(at->second.leftover))) ++left;
  }
  return left;
}

Status LockTable::status() const {
  const Lock lock(mutex_);
  Status status;
  for (const auto& [dataset, slot] : slots_) {
    const std::string id = std::to_string(dataset);
    if (slot.entry && slot.entry->state == Entry::State::open)
      status.locks.push_back({id, slot.entry->mode, slot.entry->count});
    if (slot.failure) status.failures.push_back({id, reason(*slot.failure)});
  }
  return status;
}

LockTable::Guard::Guard(Guard&& other) noexcept
    : table_(other.table_), datasets_(std::exchange(other.datasets_, {})) {}

LockTable::Guard& LockTable::Guard::operator=(Guard&& other) noexcept {
  if (this == &other) return *this;
  release();
  table_ = other.table_;
  datasets_ = std::exchange(other.datasets_, {});
  return *this;
}

LockTable::Guard::~Guard() {
  release();
}

bool LockTable::Guard::release() noexcept {
  bool is_closed = true;
  while (!datasets_.empty()) {
    const std::int64_t dataset = datasets_.back();
    datasets_.pop_back();
    is_closed = table_->release(dataset) && is_closed;
  }
  return is_closed;
}

}  // namespace holdfast::composite
