#include "report.h"

#include "disk/disk.h"

namespace holdfast::tools {

using lock::Outcome;

Exit report_lock(cli::Call& call, const lock::Answer& answer) {
  switch (answer.outcome) {
    case Outcome::held:
      return LockExit::ok;
    case Outcome::contended:
      if (!answer.why.empty()) call.log.warn("{}", answer.why);
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

Exit report_unlock(cli::Call& call, const lock::Answer& answer) {
  if (answer.outcome == Outcome::released) return LockExit::ok;
  call.log.error("{}", answer.why);
  return LockExit::contended;
}

Exit print_owner(cli::Call& call, const std::vector<lock::Leaf>& leaves) {
  for (const lock::Leaf& leaf : leaves) call.print(leaf.id.str());
  return LockExit::ok;
}

lock::FastLock make_lock(const cli::Call& call) {
  lock::FastLock lock(disk::posix(), call.word(0), call.log);
  if (call.options.dir_leaf) lock.set_leaf_kind(lock::LeafKind::dir);
  return lock;
}

}  // namespace holdfast::tools
