#include "composite/holds.h"

#include <algorithm>

namespace holdfast::composite {

using lock::Outcome;

lock::Answer HeldLock::unlock() {
  lock_.marks().remove(id_);  // first, so that the lock directory can go with the holder
  return lock_.unlock_hold(id_, nonce_);
}

bool HeldLock::is_held() const {
  std::error_code ec;  // who cannot look cannot vouch for it
  return nonce_.empty() ? lock_.mode(id_, ec).has_value() : lock_.is_held(id_, nonce_);
}

Outcome HeldAll::release() {
  Outcome worst = Outcome::released;
  std::for_each(holds_.rbegin(), holds_.rend(), [&](std::unique_ptr<Held>& hold) {
    const Outcome outcome = hold ? hold->release() : Outcome::released;
    if (outcome != Outcome::failed) hold.reset();
    if (outcome != Outcome::released && worst != Outcome::failed) worst = outcome;
  });
  return worst;
}

bool HeldAll::is_held() const {
  return std::all_of(holds_.begin(), holds_.end(),
                     [](const auto& hold) { return hold && hold->is_held(); });
}

Outcome HeldIn::release() {
  const Outcome outcome = hold_->release();
  (void)disk_.remove_dir(folder_);  // others may be in
  return outcome;
}

}  // namespace holdfast::composite
