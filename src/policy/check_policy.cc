#include "policy/check_policy.h"

#include <pwd.h>

#include "policy/detach.h"

namespace holdfast::policy {

using lock::Answer;
using lock::Leaf;
using lock::Outcome;

Answer CheckPolicy::lock(const Uid& id, const Record& record, lock::Mode mode) {
  Answer answer = lock_.lock(id, record, mode);
  const bool is_held =
      answer.outcome == Outcome::contended || answer.outcome == Outcome::already_mine;
  if (!is_held) return answer;
  if (!recovery_.clean_stale_owner().empty()) answer = lock_.lock(id, record, mode);
  return recovery_.explained(std::move(answer));
}

Answer CheckPolicy::unlock(const Uid& id, const Record& caller) {
  Answer answer = lock_.unlock(id, caller);
  if (answer.is_alone) return answer;
  const auto look_after_others = [&] {
    if (answer.neighbour) {  // one for each that goes is enough, however many share it
      recovery_.clean_stale({&*answer.neighbour, 1});
    } else {
      sweep(kAbandoned);
    }
  };
  if (checker_.is_cheap()) {
    look_after_others();
  } else {
    run_detached(look_after_others);
  }
  return answer;
}

std::vector<Leaf> CheckPolicy::owner() {
  recovery_.clean_stale_owner();
  return lock_.owner();
}

void CheckPolicy::sweep(std::chrono::seconds age) {
  recovery_.clean_stale();
  lock_.sweep(clock_.wall(), age);
}

bool CheckPolicy::clean(std::chrono::seconds age) {
  recovery_.clean_stale();
  return lock_.clean(clock_.wall(), age);
}

Record with_user_name(Record record) {
  const passwd* user = record.uid ? getpwuid(static_cast<uid_t>(*record.uid)) : nullptr;
  if (!user) return record;
  const std::string name = user->pw_name;
  const bool is_called_otherwise = !record.user.empty() && record.user != name;
  record.user = is_called_otherwise ? name + " (LOGNAME " + record.user + ")" : name;
  record.uid.reset();
  return record;
}

std::string who_holds(const disk::SafePath& lock, const Leaf& holder) {
  const std::string is_held_by = lock.native() + " is held by ";
  if (!holder.record) return is_held_by + holder.id.str() + ", who left no record";
  const Record record = with_user_name(*holder.record);
  return is_held_by + (record.names_process() ? "" : holder.id.str() + " ") + describe(record);
}

}  // namespace holdfast::policy
