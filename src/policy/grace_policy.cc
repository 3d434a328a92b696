#include "policy/grace_policy.h"

#include <algorithm>
#include <random>
#include <thread>

namespace holdfast::policy {

using lock::Answer;
using lock::Leaf;
using lock::Mark;
using lock::Outcome;

namespace {

/// A caller is not kept longer than two checks take, however many are due.
constexpr std::size_t kMostChecks = 2;

bool contains(const std::vector<Uid>& sorted, const Uid& id) {
  return std::binary_search(sorted.begin(), sorted.end(), id);
}

bool is_among(const std::vector<Mark>& marks, const Uid& id) {
  return std::any_of(marks.begin(), marks.end(), [&](const Mark& mark) { return mark.id == id; });
}

}  // namespace

void pause_at_random(std::chrono::seconds grace) {
  std::random_device random;
  std::uniform_int_distribution<std::chrono::seconds::rep> below(0, grace.count() - 1);
  std::this_thread::sleep_for(std::chrono::seconds(below(random) / 2));
}

Answer GracePolicy::lock(const Uid& id, const Record& record, lock::Mode mode) {
  return followed_up(id, lock_.lock(id, record, mode));
}

Answer GracePolicy::lock_check(const Uid& id, const Record& record,
                               const identity::Checker& aloud) {
  Answer answer = lock_.lock(id, record);
  const bool may_be_stale =
      answer.outcome == Outcome::contended || answer.outcome == Outcome::failed;
  if (may_be_stale && !answer.is_foreign) {
    std::error_code ec;  // told by the recovery
    for (const Leaf& leaf : lock_.owner(ec)) (void)marks_.renew(leaf.id);
    Recovery recovery(lock_, aloud, log_);
    forget(recovery.clean_stale_owner());
    answer = recovery.explained(lock_.lock(id, record));
    if (answer.is_stuck) return answer;
  }
  return followed_up(id, std::move(answer));
}

Answer GracePolicy::followed_up(const Uid& id, Answer answer) {
  if (answer.is_foreign) return answer;
  if (answer.outcome != Outcome::held) {
    ponder(&id);
    answer = recovery_.explained(std::move(answer));
  } else if (!marks_.make(id) || !answer.is_alone) {
    (void)marks_.renew(id);  // it may be one of an earlier hold
    clean_in_background(&id);
  }
  return answer;
}

Answer GracePolicy::unlock(const Uid& id, const Record& caller) {
  marks_.remove(id);  // first, so that the lock directory can go with the holder
  Answer answer = lock_.unlock(id, caller);
  if (answer.is_alone) return answer;
  lock_.sweep(means_.clock.wall(), kAbandoned);
  clean_in_background(nullptr);
  return answer;
}

bool GracePolicy::clean(std::chrono::seconds age) {
  for (const Mark& mark : marks_.list()) (void)marks_.renew(mark.id);
  recovery_.clean_stale();
  return lock_.clean(means_.clock.wall(), age);
}

void GracePolicy::ponder(const Uid* spared) {
  const std::vector<Uid> due = due_ids(spared);
  if (due.empty()) return;
  if (has_grace()) means_.pause(grace_);
  clean_stale(claim(due));
}

void GracePolicy::clean_in_background(const Uid* spared) {
  const std::vector<Uid> claimed = claim(due_ids(spared));
  if (!claimed.empty()) means_.background([&] { clean_stale(claimed); });
}

/// One mark for everybody who is there, and none for others. Who is seen before and after the marks
/// were listed gets one; if that id is gone by the next look, its mark goes too.
std::vector<Mark> GracePolicy::track() {
  std::error_code ec;
  std::vector<Uid> before = lock_.ids_in_use(ec);
  if (ec) return {};
  std::vector<Uid> ids;
  std::vector<Mark> marks = marks_in_use(ids);
  std::erase_if(before, [&](const Uid& id) { return !contains(ids, id) || is_among(marks, id); });
  for (const Uid& unmarked : before) {
    if (!is_foreign(unmarked)) marks_.make(unmarked);
  }
  return before.empty() ? marks : marks_in_use(ids);
}

/// A file of the user's own in owner/ gets no mark beside it.
bool GracePolicy::is_foreign(const Uid& id) const {
  std::error_code ec;  // what cannot be read counts as a holder
  const auto leaves = lock_.owner([&](const Uid& held) { return held == id; }, ec);
  return !leaves.empty() && leaves.front().is_foreign;
}

/// The marks of those who are there, `ids`. All other marks are removed: they were listed first, so
/// none of them can be of somebody who only came meanwhile.
std::vector<Mark> GracePolicy::marks_in_use(std::vector<Uid>& ids) {
  std::error_code ec;
  std::vector<Mark> marks = marks_.list();
  ids = lock_.ids_in_use(ec);
  if (ec) return {};
  const auto orphans = std::partition(marks.begin(), marks.end(),
                                      [&](const Mark& mark) { return contains(ids, mark.id); });
  for (auto mark = orphans; mark != marks.end(); ++mark) marks_.remove(mark->id);
  marks.erase(orphans, marks.end());
  if (ids.empty()) marks_.tidy();
  return marks;
}

/// Those whose grace is over, the one that waits longest first.
std::vector<Uid> GracePolicy::due_ids(const Uid* spared) {
  std::vector<Mark> marks = track();
  if (spared) std::erase_if(marks, [&](const Mark& mark) { return mark.id == *spared; });
  if (has_grace() && !marks.empty()) {
    const auto now = time_there();
    for (const Mark& mark : marks) {
      if (mark.time > now) (void)marks_.renew(mark.id);  // a clock was set back: wait no longer
    }
    std::erase_if(marks, [&](const Mark& mark) { return mark.time > now - grace_; });
  }
  std::sort(marks.begin(), marks.end(),
            [](const Mark& a, const Mark& b) { return a.time < b.time; });
  std::vector<Uid> ids;
  ids.reserve(marks.size());
  for (Mark& mark : marks) ids.push_back(std::move(mark.id));
  return ids;
}

/// Of those, the ones that this call asks about: their marks are dated, so that others do not.
std::vector<Uid> GracePolicy::claim(const std::vector<Uid>& due) {
  std::vector<Uid> claimed;
  for (const Uid& id : due) {
    if (claimed.size() == kMostChecks) break;
    if (has_grace() && !is_due(id)) continue;  // another was quicker
    (void)marks_.renew(id);                    // whoever may not date it may ask nevertheless
    claimed.push_back(id);
  }
  return claimed;
}

bool GracePolicy::is_due(const Uid& id) {
  const auto time = marks_.time(id);
  return time && *time <= time_there() - grace_;
}

/// On the filesystem, or at least here.
std::chrono::system_clock::time_point GracePolicy::time_there() {
  return marks_.now().value_or(means_.clock.wall());
}

void GracePolicy::clean_stale(const std::vector<Uid>& ids) {
  if (!ids.empty()) forget(recovery_.clean_stale(ids));
}

void GracePolicy::forget(const std::vector<Uid>& ids) {
  for (const Uid& id : ids) marks_.remove(id);
  if (!ids.empty()) marks_.tidy();
}

}  // namespace holdfast::policy
