#include "common/report.h"

#include "disk/disk.h"
#include "identity/local_id.h"
#include "policy/check_policy.h"

namespace holdfast::tools {

using identity::Life;
using lock::Outcome;

/// Of a process of this host with its whole command line.
void tell_who_holds(const cli::Call& call, const lock::FastLock& lock) {
  const identity::LocalId ids(disk::posix());
  std::error_code ec;  // told already
  for (lock::Leaf leaf : lock.owner(ec)) {
    const bool is_here = leaf.record && leaf.record->names_process() &&
                         identity::is_here(ids.check(leaf.id, leaf.record));
    if (is_here) leaf.record->cmd = ids.command_line(*leaf.record);
    call.log.warn("{}", policy::who_holds(lock.path(), leaf));
  }
}

void tell_what_next(const cli::Call& call) {
  if (call.has_reader())
    call.log.warn("try again later; '{} --help' tells how to look closer", call.tool());
}

Exit report_lock(cli::Call& call, const lock::FastLock& lock, const Uid& id,
                 const lock::Answer& answer) {
  switch (answer.outcome) {
    case Outcome::held:
      return LockExit::ok;
    case Outcome::contended:
      call.log.info("{} failed to lock for {}", lock.path().native(), id.str());
      if (!answer.why.empty()) call.log.warn("{}", answer.why);
      if (call.is_talkative()) tell_who_holds(call, lock);
      tell_what_next(call);
      return LockExit::contended;
    case Outcome::already_mine:
      call.log.error("{}", answer.why);
      return LockExit::already_mine;
    case Outcome::cross_device:
      call.log.error("{}", answer.why);
      return LockExit::cross_device;
    default:
      call.log.error("{}", answer.why);
      return LockExit::proposal_failed;
  }
}

Exit report_unlock(cli::Call& call, const lock::Answer& answer, Unheld unheld) {
  if (answer.outcome == Outcome::released) return LockExit::ok;
  call.log.error("{}", answer.why);
  if (answer.outcome != Outcome::not_mine) return LockExit::proposal_failed;
  return unheld == Unheld::is_fine ? LockExit::ok : LockExit::contended;
}

void tell_of_twin(const cli::Call& call, const lock::FastLock& lock,
                  const identity::Identity& self) {
  if (const auto twin = lock.twin_of(self.uid, self.record)) call.log.warn("{}", *twin);
}

Exit report_staleness(cli::Call& call, const std::optional<identity::Verdict>& verdict) {
  if (!verdict) return StaleExit::free;
  call.log.info("{}: {}", call.word(0), verdict->why);
  if (verdict->life == Life::dead) return StaleExit::stale;
  if (verdict->life == Life::alive) return StaleExit::alive;
  if (!verdict->is_told) {
    call.log.warn("WARNING: {}: unable to identify live/staleness of the owner: {}", call.word(0),
                  verdict->why);
  }
  return verdict->code >= 0 ? Exit::of_program(verdict->code) : Exit(StaleExit::unknown);
}

void warn_of_blank_name(const cli::Call& call, const identity::Identity& identity,
                        const std::string& pid) {
  if (!identity.has_blank_name()) return;
  call.log.warn(
      "WARNING: process {} has blanks in its name: a shell peer may take it for dead if it is "
      "renamed",
      pid);
}

Exit print_owner(cli::Call& call, const std::vector<lock::Leaf>& leaves) {
  for (const lock::Leaf& leaf : leaves) call.print(leaf.id.str());
  if (leaves.size() > 1) call.log.warn("{} has {} owners", call.word(0), leaves.size());
  return LockExit::ok;
}

lock::FastLock make_lock(const cli::Call& call) {
  lock::FastLock lock(disk::posix(), call.word(0), call.log);
  if (call.options.dir_leaf) lock.set_leaf_kind(lock::LeafKind::dir);
  return lock;
}

}  // namespace holdfast::tools
