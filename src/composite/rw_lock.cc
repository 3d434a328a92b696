#include "composite/rw_lock.h"

#include "composite/holds.h"
#include "policy/check_policy.h"

namespace holdfast::composite {

using lock::Answer;
using lock::Leaf;
using lock::Mode;
using lock::Outcome;

namespace {

/// A hold, and the right to upgrade it if a failing disk kept that.
class HeldRw final : public Held {
 public:
  HeldRw(disk::Disk& disk, HeldLock hold, lock::FastLock right, identity::Identity waiter)
      : disk_(disk), hold_(std::move(hold)), right_(std::move(right)), waiter_(std::move(waiter)) {}

  Outcome release() override {
    disk::Status status;
    const bool has_right =
        disk_.status(right_.path(), status) != std::errc::no_such_file_or_directory;
    // without the hold, the right belongs to a later one
    if (has_right && hold_.is_held()) (void)right_.unlock(waiter_.uid, waiter_.record);
    return hold_.release();
  }
  bool is_held() const override { return hold_.is_held(); }

 private:
  disk::Disk& disk_;
  HeldLock hold_;
  lock::FastLock right_;
  identity::Identity waiter_;
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

RwLock::RwLock(const disk::SafePath& lock, const Holder& holder, Order order, disk::Disk& disk)
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
  if (!own->is_readable) return unreadable(*own);
  if (mode == Mode::exclusive) {
    return {Outcome::already_mine,
            lock_.path().native() + " is held by " + own->id.str() + " alone"};
  }
  Answer first = take_right();
  if (first.outcome != Outcome::held) return first;
  Answer answer = wait_to_be_alone(own->id, patience);
  const bool is_unchanged =
      answer.outcome == Outcome::contended || answer.outcome == Outcome::failed;
  // One that was exclusive stays so: it is alone but for a newcomer that will leave, or of an
  // upgrade that was killed.
  Answer taken_back{Outcome::held, {}};
  if (is_unchanged && own->mode == Mode::shared) taken_back = take_back(own->id);
  if (taken_back.outcome != Outcome::held) answer = taken_back;
  // an exclusive leaf beside others must not change without the right
  if (taken_back.outcome != Outcome::failed) give_up_right();
  return answer;
}

/// To change a leaf while others share the lock. Its holder is the process that waits: two tasks of
/// one id are two, and what a killed one left is free again.
Answer RwLock::take_right() {
  lock::FastLock right = lock_.right_to_upgrade();
  const WaiterChecker waiters(holder_);
  Answer answer = policy::CheckPolicy(right, waiters, real_clock(), holder_.log)
                      .lock(holder_.waiter.uid, holder_.waiter.record);
  if (answer.outcome == Outcome::contended || answer.outcome == Outcome::already_mine) {
    return {Outcome::deadlock,
            lock_.path().native() + " is being upgraded by another who shares it"};
  }
  return answer;
}

/// One of ours, or of a dead process: later it would be in the way of those who share the lock.
void RwLock::give_up_right() {
  lock::FastLock right = lock_.right_to_upgrade();
  disk::Status status;
  if (disk_.status(right.path(), status) == std::errc::no_such_file_or_directory) return;
  const WaiterChecker waiters(holder_);
  policy::CheckPolicy policy(right, waiters, real_clock(), holder_.log);
  const auto& [uid, record] = holder_.waiter;
  if (policy.unlock(uid, record).outcome == Outcome::failed) {
    (void)policy.unlock(uid, record);  // what stays goes with the process
  }
}

/// Shared from now on, or as before a no: a disk that refuses is asked once more.
Answer RwLock::take_back(const Uid& id) {
  Answer answer = lock_.downgrade(id, holder_.self.record);
  return answer.outcome == Outcome::failed ? lock_.downgrade(id, holder_.self.record) : answer;
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
  if (!own->is_readable) return unreadable(*own);
  if (own->mode == Mode::shared) {
    return {Outcome::not_mine, lock_.path().native() + " is only shared by " + own->id.str()};
  }
  const auto mode = lock_.mode(own->id, ec);
  if (ec) return not_held(ec);
  if (mode == Mode::shared) {  // of an upgrade that was killed
    Answer first = take_right();
    if (first.outcome != Outcome::held) return first;
  }
  Answer answer = take_back(own->id);
  if (answer.outcome != Outcome::failed) give_up_right();
  return answer;
}

Answer RwLock::unlock() {
  std::error_code ec;
  const auto own = own_leaf(ec);
  if (!own) return not_held(ec);
  give_up_right();
  Answer answer = policy_->unlock(own->id, holder_.self.record);
  const bool may_leave_others = answer.outcome == Outcome::released && !answer.is_alone;
  if (may_leave_others && holder_.checker->is_cheap()) {
    Line(disk_, lock_.path(), holder_, order_).sweep();
  }
  return answer;
}

std::optional<Guard> RwLock::hold(Mode mode, const Patience& patience) {
  refusal_ = acquire(mode, patience);
  if (refusal_.outcome != Outcome::held) return std::nullopt;
  const lock::FastLock lock(disk_, lock_.path());
  return Guard(std::make_unique<HeldRw>(disk_, HeldLock(lock, holder_.self.uid, refusal_.nonce),
                                        lock.right_to_upgrade(), holder_.waiter));
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

/// Its mode is not known.
Answer RwLock::unreadable(const Leaf& own) const {
  return {Outcome::failed, "cannot read " + lock::Layout(lock_.path()).leaf(own.id).native()};
}

/// Who could not look does not know.
Answer RwLock::not_held(std::error_code looked) const {
  if (looked) {
    return {Outcome::failed, "cannot look into " + lock_.path().native() + ": " + looked.message()};
  }
  const auto& [uid, record] = holder_.self;
  const auto twin = lock_.twin_of(uid, record);
  return {Outcome::not_mine,
          twin.value_or(lock_.path().native() + " is not locked by " + uid.str())};
}

bool RwLock::clean(std::chrono::seconds age, std::optional<std::chrono::seconds> unknown) {
  lock::FastLock right = lock_.right_to_upgrade();
  const WaiterChecker waiters(holder_);
  (void)policy::CheckPolicy(right, waiters).clean(age);  // what is left of it, the lock shows
  const bool is_empty_line = Line(disk_, lock_.path(), holder_, order_).clean(age, unknown);
  return policy_->clean(age) && is_empty_line;
}

}  // namespace holdfast::composite
