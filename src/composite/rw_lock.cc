#include "composite/rw_lock.h"

namespace holdfast::composite {

using lock::Answer;
using lock::Leaf;
using lock::Mode;
using lock::Outcome;

namespace {

/// What is left of an upgrade that was killed, or that a failing disk kept: later it would be in
/// the way of those who share the lock then.
void give_up_right(disk::Disk& disk, const lock::FastLock& lock, const Uid& id,
                   const std::string& nonce = {}) {
  lock::FastLock right = lock.right_to_upgrade();
  disk::Status status;
  if (disk.status(right.path(), status) == std::errc::no_such_file_or_directory) return;
  if (!nonce.empty() && !lock.is_held(id, nonce)) return;  // of a later hold
  right.marks().remove(id);                                // first, so that the folder can go
  if (right.unlock(id).outcome == Outcome::failed) (void)right.unlock(id);
}

/// One hold of a FastLock.
class HeldLock final : public Held {
 public:
  HeldLock(disk::Disk& disk, const disk::Path& path, Uid id, std::string nonce)
      : disk_(disk), lock_(disk, path), id_(std::move(id)), nonce_(std::move(nonce)) {}

  Outcome release() override {
    give_up_right(disk_, lock_, id_, nonce_);
    return lock_.unlock(id_, nonce_).outcome;
  }
  bool is_held() const override { return lock_.is_held(id_, nonce_); }

 private:
  disk::Disk& disk_;
  lock::FastLock lock_;
  Uid id_;
  std::string nonce_;
};

}  // namespace

/// What a caller of acquire or upgrade stands in line for.
class RwLock::Entry : public Goal {
 public:
  Entry(RwLock& lock, std::function<Answer()> attempt)
      : lock_(lock), attempt_(std::move(attempt)) {}

  Answer try_once() override { return attempt_(); }

  void watch(disk::Watch& watch) override { watch_holders(lock_.lock_, lock_.holder_, watch); }

 protected:
  RwLock& lock_;

 private:
  std::function<Answer()> attempt_;
};

/// Who has nothing yet.
class RwLock::Newcomer final : public Entry {
 public:
  using Entry::Entry;

  /// It would wait for itself, under this text of its id or another.
  std::optional<Answer> objection() override {
    std::error_code ec;
    const auto leaf = lock_.own_leaf(ec);
    if (ec) return lock_.not_held(ec);
    if (!leaf) return std::nullopt;
    return Answer{Outcome::already_mine,
                  lock_.lock_.path().native() + " already locked by " + leaf->id.str()};
  }
};

RwLock::RwLock(const disk::Path& lock, const Holder& holder, Order order, disk::Disk& disk)
    : disk_(disk),
      holder_(holder),
      lock_(disk, lock, holder.log),
      policy_(policy::policy_for(lock_, holder.rules())),
      order_(order) {}

Answer RwLock::acquire(Mode mode, const Patience& patience) {
  Newcomer newcomer(*this,
                    [&] { return policy_->lock(holder_.self.uid, holder_.self.record, mode); });
  return stand(order_, mode, patience, newcomer);
}

Answer RwLock::stand(Order order, Mode mode, const Patience& patience, Entry& entry) {
  Line line(disk_, lock_.path(), holder_, order);
  line.set_teller(tell_);
  Answer answer = line.stand(mode, patience, entry);
  was_stopped_ = line.was_stopped();
  return answer;
}

Answer RwLock::upgrade(const Patience& patience) {
  std::error_code ec;
  const auto own = own_leaf(ec);
  if (!own) return not_held(ec);
  const auto mode = lock_.mode(own->id, ec);
  if (ec) return not_held(ec);
  if (mode == Mode::exclusive) {
    return {Outcome::already_mine,
            lock_.path().native() + " is held by " + own->id.str() + " alone"};
  }
  lock::FastLock right = lock_.right_to_upgrade();
  const auto right_policy = policy::policy_for(right, holder_.rules());
  const Answer first = right_policy->lock(own->id, holder_.self.record);
  if (first.outcome == Outcome::contended) {
    return {Outcome::deadlock,
            lock_.path().native() + " is being upgraded by another who shares it"};
  }
  // already_mine: of an upgrade that was killed, which goes on here
  if (first.outcome != Outcome::held && first.outcome != Outcome::already_mine) return first;
  Answer answer = wait_to_be_alone(own->id, patience);
  const bool is_unchanged =
      answer.outcome == Outcome::contended || answer.outcome == Outcome::failed;
  if (is_unchanged) {
    Answer given_up = lock_.downgrade(own->id, holder_.self.record);
    if (given_up.outcome == Outcome::failed) {
      given_up = lock_.downgrade(own->id, holder_.self.record);
    }
    if (given_up.outcome != Outcome::held) answer = given_up;
  }
  if (right_policy->unlock(own->id).outcome == Outcome::failed) {
    (void)right_policy->unlock(own->id);  // what stays goes with the process
  }
  return answer;
}

Answer RwLock::wait_to_be_alone(const Uid& id, const Patience& patience) {
  Entry entry(*this, [&] {
    Answer answer = lock_.upgrade(id, holder_.self.record);
    if (answer.outcome != Outcome::contended) return answer;
    policy_->recover(id);
    return lock_.upgrade(id, holder_.self.record);
  });
  return stand(Order::barge, Mode::exclusive, patience, entry);
}

Answer RwLock::downgrade() {
  std::error_code ec;
  const auto own = own_leaf(ec);
  if (!own) return not_held(ec);
  if (own->mode == Mode::shared) {
    return {Outcome::not_mine, lock_.path().native() + " is only shared by " + own->id.str()};
  }
  const Answer answer = lock_.downgrade(own->id, holder_.self.record);
  if (answer.outcome == Outcome::held) give_up_right(disk_, lock_, own->id);
  return answer;
}

Answer RwLock::unlock() {
  std::error_code ec;
  const auto own = own_leaf(ec);
  if (!own) return not_held(ec);
  give_up_right(disk_, lock_, own->id);
  return policy_->unlock(own->id);
}

std::optional<Guard> RwLock::hold(Mode mode, const Patience& patience) {
  refusal_ = acquire(mode, patience);
  if (refusal_.outcome != Outcome::held) return std::nullopt;
  return Guard(std::make_unique<HeldLock>(disk_, lock_.path(), holder_.self.uid, refusal_.nonce));
}

std::optional<Leaf> RwLock::own_leaf(std::error_code& ec) const {
  return lock_.leaf_of(holder_.self.uid, holder_.self.record, ec);
}

std::optional<Leaf> RwLock::own_leaf() const {
  std::error_code ec;
  auto own = own_leaf(ec);
  if (ec) throw std::system_error(ec, "cannot look into " + lock_.path().native());
  return own;
}

/// Who could not look does not know.
Answer RwLock::not_held(std::error_code looked) const {
  if (looked) {
    return {Outcome::failed, "cannot look into " + lock_.path().native() + ": " + looked.message()};
  }
  return {Outcome::not_mine, lock_.path().native() + " is not locked by " + holder_.self.uid.str()};
}

bool RwLock::clean(std::chrono::seconds age) {
  lock::FastLock right = lock_.right_to_upgrade();
  (void)policy::policy_for(right, holder_.rules())
      ->clean(age);  // what is left of it, the lock shows
  const bool is_empty_line = Line(disk_, lock_.path(), holder_, order_).clean(age);
  return policy_->clean(age) && is_empty_line;
}

}  // namespace holdfast::composite
