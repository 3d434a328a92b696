#include "policy/check_policy.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace holdfast::policy {

using identity::Life;
using lock::Answer;
using lock::Leaf;
using lock::Outcome;

namespace {

/// Nobody works an hour on a proposal: what a killed cleaner or proposer left that long ago is
/// anybody's to remove.
constexpr std::chrono::hours kAbandoned{1};

/// A child that nobody waits for and that holds none of our streams open. False in the parent.
bool become_detached_child() {
  const pid_t child = fork();
  if (child > 0) waitpid(child, nullptr, 0);  // it ends at once: its own child goes on, an orphan
  if (child != 0) return false;
  setsid();
  if (fork() != 0) _exit(0);
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);  // no file of a lock: not the Disk's
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  return true;
}

}  // namespace

Answer CheckPolicy::lock(const Uid& id, const Record& record) {
  Answer answer = lock_.lock(id, record);
  const bool is_held =
      answer.outcome == Outcome::contended || answer.outcome == Outcome::already_mine;
  if (is_held && clean_stale_owner()) answer = lock_.lock(id, record);
  return answer;
}

Answer CheckPolicy::unlock(const Uid& id) {
  Answer answer = lock_.unlock(id);
  if (answer.is_gone) return answer;
  if (checker_.is_cheap()) {
    sweep(kAbandoned);
  } else if (become_detached_child()) {
    sweep(kAbandoned);
    _exit(0);
  }
  return answer;
}

std::vector<Leaf> CheckPolicy::owner() {
  clean_stale_owner();
  return lock_.owner();
}

std::optional<identity::Verdict> CheckPolicy::staleness() const {
  std::optional<identity::Verdict> worst;
  const auto weight = [](Life life) {
    return life == Life::dead ? 0 : life == Life::unknown ? 1 : 2;
  };
  std::error_code ec;
  for (const Leaf& leaf : lock_.owner(ec)) {
    auto verdict = judge(leaf);
    if (!worst || weight(verdict.life) > weight(worst->life)) worst = std::move(verdict);
  }
  if (ec) worst = {Life::unknown, ec.message()};
  return worst;
}

void CheckPolicy::sweep(std::chrono::seconds age) {
  clean_stale();
  lock_.sweep(clock_.wall(), age);
}

bool CheckPolicy::clean(std::chrono::seconds age) {
  clean_stale();
  return lock_.clean(clock_.wall(), age);
}

bool CheckPolicy::clean_stale_owner() {
  std::vector<Uid> dead;
  std::error_code ec;
  for (const Leaf& leaf : lock_.owner(ec)) {
    if (!is_dead(leaf)) continue;
    log_.info("recovery needed for {}", leaf.id.str());
    dead.push_back(leaf.id);
  }
  if (ec)
    log_.warn("WARNING: {}: cannot see who holds it: {}", lock_.path().native(), ec.message());
  if (!dead.empty()) lock_.clean_stale_ids(dead);
  return !dead.empty();
}

void CheckPolicy::clean_stale() {
  clean_stale_owner();
  // Judged as a proposer, an id loses its proposal and no more: it may have become the holder
  // meanwhile.
  std::vector<Uid> dead;
  for (const Leaf& leaf : lock_.proposals()) {
    if (is_dead(leaf)) dead.push_back(leaf.id);
  }
  if (dead.empty()) return;
  lock_.clean_proposals(dead);
  for (const Uid& id : dead) log_.info("cleaned stale id {}", id.str());
}

bool CheckPolicy::is_dead(const Leaf& leaf) const {
  const auto verdict = judge(leaf);
  if (verdict.life == Life::unknown) {
    log_.warn("WARNING: {}: unable to identify live/staleness for {}: {}", lock_.path().native(),
              leaf.id.str(), verdict.why);
  }
  return verdict.life == Life::dead;
}

identity::Verdict CheckPolicy::judge(const Leaf& leaf) const {
  auto verdict = checker_.check(leaf.id, leaf.record);
  if (verdict.life == Life::dead && !leaf.is_readable && checker_.reads_records()) {
    return {Life::unknown, "its record cannot be read"};
  }
  return verdict;
}

std::string who_holds(const disk::Path& lock, const Leaf& holder) {
  const std::string is_held_by = lock.native() + " is held by ";
  if (!holder.record) return is_held_by + holder.id.str() + ", who left no record";
  Record record = *holder.record;
  // a login without a name was recorded by its number; here there is time to look it up
  if (!record.user.empty() && record.user.find_first_not_of("0123456789") == std::string::npos) {
    const auto number = static_cast<uid_t>(std::strtoul(record.user.c_str(), nullptr, 10));
    if (const passwd* user = getpwuid(number)) record.user = user->pw_name;
  }
  return is_held_by + (record.names_process() ? "" : holder.id.str() + " ") + describe(record);
}

}  // namespace holdfast::policy
