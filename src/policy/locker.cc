#include "policy/locker.h"

#include <unistd.h>

#include "identity/local_id.h"
#include "policy/check_policy.h"

namespace holdfast {

struct Locker::Guard::Held {
  lock::FastLock lock;
  Uid id;
  std::string nonce;
  pid_t process;
};

Locker::Guard::Guard(std::unique_ptr<Held> held) : held_(std::move(held)) {}
Locker::Guard::Guard(Guard&&) noexcept = default;

Locker::Guard& Locker::Guard::operator=(Guard&& other) noexcept {
  if (this != &other) {
    unlock();
    held_ = std::move(other.held_);
  }
  return *this;
}

Locker::Guard::~Guard() {
  unlock();
}

bool Locker::Guard::unlock() {
  if (!held_ || held_->process != getpid()) return false;
  const lock::Outcome outcome = held_->lock.unlock_hold(held_->id, held_->nonce).outcome;
  if (outcome != lock::Outcome::failed) held_.reset();
  return outcome == lock::Outcome::released;
}

bool Locker::Guard::is_held() const {
  return held_ && held_->process == getpid() && held_->lock.is_held_alone(held_->id, held_->nonce);
}

Locker::Locker(disk::SafePath lock, disk::Disk& disk) : path_(std::move(lock)), disk_(disk) {}

struct Locker::Self {
  pid_t process;
  identity::Identity identity;
};

std::optional<Locker::Guard> Locker::try_lock() {
  const identity::LocalId local(disk_);
  const pid_t process = getpid();
  if (!self_ || self_->process != process) {
    std::string why;
    const auto identity = local.identify(std::to_string(process), why);
    if (!identity) {
      refusal_ = {lock::Outcome::failed, why};
      return std::nullopt;
    }
    self_ = std::make_shared<const Self>(Self{process, *identity});
  }
  Record record = self_->identity.record;
  record.since = to_since(real_clock().wall());
  lock::FastLock lock(disk_, path_);
  refusal_ = policy::CheckPolicy(lock, local).lock(self_->identity.uid, record);
  if (refusal_.outcome == lock::Outcome::held) {
    return Guard(std::make_unique<Guard::Held>(
        Guard::Held{std::move(lock), self_->identity.uid, refusal_.nonce, process}));
  }
  if (refusal_.outcome == lock::Outcome::contended && refusal_.why.empty()) {
    std::error_code ec;
    const auto holders = lock.owner(ec);
    if (!holders.empty()) refusal_.why = policy::who_holds(lock.path(), holders.front());
  }
  return std::nullopt;
}

}  // namespace holdfast
