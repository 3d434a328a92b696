#include "composite/rw_storage.h"

#include <unistd.h>

#include "composite/rw_lock.h"
#include "policy/check_policy.h"

namespace holdfast::composite {

using lock::Outcome;

namespace {

/// One hold of this process, by its nonce.
class HeldDataset final : public StorageHold {
 public:
  HeldDataset(lock::FastLock lock, Uid id, std::string nonce)
      : lock_(std::move(lock)), id_(std::move(id)), nonce_(std::move(nonce)), process_(getpid()) {}

  std::optional<Failure> close() override {
    if (process_ != getpid()) return std::nullopt;
    const lock::Answer answer = lock_.unlock(id_, nonce_);
    if (answer.outcome != Outcome::failed) return std::nullopt;
    return Failure{{}, answer.why};
  }

 private:
  lock::FastLock lock_;
  Uid id_;
  std::string nonce_;
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
  const disk::Path path = root_ / std::to_string(dataset);
  RwLock lock(path, holder_, Order::fair, disk_);
  const lock::Answer answer = lock.acquire(mode, Patience::none());
  switch (answer.outcome) {
    case Outcome::held:
      return std::make_unique<HeldDataset>(lock::FastLock(disk_, path), holder_.self.uid,
                                           answer.nonce);
    case Outcome::contended:
    case Outcome::already_mine:  // of another table of this process
      return HeldOutside{answer.why.empty() ? who_has(lock.fast()) : answer.why};
    default:
      return Failure{{}, answer.why};
  }
}

}  // namespace holdfast::composite
