#include "composite/rw_storage.h"

#include <unistd.h>

#include "composite/holds.h"
#include "composite/rw_lock.h"
#include "policy/check_policy.h"

namespace holdfast::composite {

using lock::Outcome;

namespace {

/// One hold of this process, by its nonce.
class HeldDataset final : public StorageHold {
 public:
  explicit HeldDataset(HeldLock hold) : hold_(std::move(hold)), process_(getpid()) {}

  std::optional<Failure> close() override {
    if (process_ != getpid()) return std::nullopt;
    const lock::Answer answer = hold_.unlock();
    if (answer.outcome != Outcome::failed) return std::nullopt;
    return Failure{{}, answer.why};
  }

 private:
  HeldLock hold_;
  pid_t process_;
};

std::string who_has(const lock::FastLock& lock) {
  std::error_code ec;
  const auto leaves = lock.owner(ec);
  return leaves.empty() ? lock.path().native() + " is held by another"
                        : policy::who_holds(lock.path(), leaves.front());
}

}  // namespace

Opened RwStorage::open(std::int64_t dataset, Mode mode) {
  const disk::SafePath path = root_ / std::to_string(dataset);
  RwLock lock(path, holder_, Order::fair, disk_);
  const lock::Answer answer = lock.acquire(mode, Patience::none());
  switch (answer.outcome) {
    case Outcome::held:
      return std::make_unique<HeldDataset>(
          HeldLock(lock::FastLock(disk_, path), holder_.self.uid, answer.nonce));
    case Outcome::contended:
    case Outcome::already_mine:  // of another table of this process
      return HeldOutside{answer.why.empty() ? who_has(lock.fast()) : answer.why};
    default:
      return Failure{{}, answer.why};
  }
}

}  // namespace holdfast::composite
