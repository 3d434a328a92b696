#include <optional>

#include "common/checkers.h"
#include "common/kill.h"
#include "common/report.h"
#include "common/waiting.h"
#include "disk/disk.h"
#include "identity/local_id.h"
#include "identity/local_id_helper.h"
#include "policy/check_policy.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using identity::Identity;
using identity::LocalId;

/// A lock whose ids are processes of this host.
struct Local {
  explicit Local(const cli::Call& call)
      : ids(disk::posix()),
        lock(make_lock(call)),
        policy(lock, ids, real_clock(), log_of_attempts(call)) {}

  LocalId ids;
  lock::FastLock lock;
  policy::CheckPolicy policy;
};

std::optional<Identity> identify(const cli::Call& call, const LocalId& ids) {
  std::string why;
  auto identity = ids.identify(call.word(1), why);
  if (!identity) {
    call.log.error("obtaining UID for ID({})", call.word(1));
    call.log.error("{}", why);
  }
  return identity;
}

/// The process given: by its pid, or by an id, which names no process.
std::optional<Identity> id_given(const cli::Call& call, const LocalId& ids) {
  if (LocalId::pid_of(Uid::found(call.word(1)))) return Identity{call.id(1), {}};
  return identify(call, ids);
}

/// Another id under which the process holds the lock, if a shell peer made the leaf: the text of an
/// id changes when the clock is stepped or the process takes a name with blanks.
std::optional<Uid> former_id(const cli::Call& call, const Local& local) {
  std::error_code ec;  // whoever cannot look finds none
  for (const lock::Leaf& leaf : local.lock.owner(ec)) {
    const bool is_same_pid = leaf.id.str().starts_with(call.word(1) + ":");
    if (is_same_pid && identity::is_here(local.ids.check(leaf.id, leaf.record))) return leaf.id;
  }
  return std::nullopt;
}

template <class TryLock>
Exit lock_with(cli::Call& call, TryLock try_lock) {
  Local local(call);
  const auto identity = identify(call, local.ids);
  if (!identity) return LockExit::no_such_process;
  warn_of_blank_name(call, *identity, call.word(1));
  const identity::LocalIdHelper helper(disk::posix());
  const auto waiter = make_waiter(call, *identity, helper, local.ids);
  const auto answer = attempt_or_wait(call, local.lock, waiter, [&] {
    auto tried = try_lock(local, *identity);
    const auto former =
        tried.outcome == lock::Outcome::contended ? former_id(call, local) : std::nullopt;
    if (!former) return tried;
    return lock::Answer{lock::Outcome::already_mine,
                        call.word(0) + " already locked by " + former->str()};
  });
  return report_lock(call, local.lock, identity->uid, answer);
}

Exit lock(cli::Call& call) {
  return lock_with(
      call, [](Local& l, const Identity& self) { return l.policy.lock(self.uid, self.record); });
}

Exit lock_nocheck(cli::Call& call) {
  return lock_with(
      call, [](Local& l, const Identity& self) { return l.lock.lock(self.uid, self.record); });
}

Exit unlock(cli::Call& call) {
  Local local(call);
  const auto self = id_given(call, local.ids);
  if (!self) return LockExit::no_such_process;
  auto answer = local.policy.unlock(self->uid, self->record);
  if (answer.outcome == lock::Outcome::not_mine) {
    if (const auto former = former_id(call, local)) answer = local.policy.unlock(*former);
  }
  return report_unlock(call, answer, unheld_of(call));
}

Exit is_mine(cli::Call& call) {
  const Local local(call);
  const auto self = id_given(call, local.ids);
  if (!self) return LockExit::no_such_process;
  if (local.lock.is_mine(self->uid, self->record)) return LockExit::ok;
  tell_of_twin(call, local.lock, *self);
  const auto former = former_id(call, local);
  return former && local.lock.is_mine(*former) ? LockExit::ok : LockExit::contended;
}

Exit owner(cli::Call& call) {
  return print_owner(call, Local(call).policy.owner());
}
Exit owner_nocheck(cli::Call& call) {
  return print_owner(call, Local(call).lock.owner());
}

/// Of a single living owner.
Exit print_pid(cli::Call& call, const LocalId& ids, const std::vector<lock::Leaf>& leaves) {
  if (leaves.size() != 1 || !identity::is_here(ids.check(leaves[0].id, leaves[0].record))) {
    return LockExit::contended;
  }
  call.print(std::to_string(*LocalId::pid_of(leaves[0].id)));
  return LockExit::ok;
}

Exit owner_pid(cli::Call& call) {
  Local local(call);
  return print_pid(call, local.ids, local.policy.owner());
}

Exit owner_pid_nocheck(cli::Call& call) {
  const Local local(call);
  return print_pid(call, local.ids, local.lock.owner());
}

Exit is_stale(cli::Call& call) {
  return report_staleness(call, Local(call).policy.staleness());
}

Exit kill_owner(cli::Call& call) {
  return kill_owners(call, identity::LocalIdHelper(disk::posix()), make_lock(call));
}

Exit clean(cli::Call& call) {
  return Local(call).policy.clean(call.options.age()) ? LockExit::ok : LockExit::contended;
}

constexpr cli::Action kActions[] = {
    {"lock", "<lock_path> <pid>", 2, lock},
    {"lock_nocheck", "<lock_path> <pid>", 2, lock_nocheck},
    {"fast_lock", "<lock_path> <pid>  (old name of lock_nocheck)", 2, lock_nocheck},
    {"unlock", "<lock_path> <pid|uid>", 2, unlock},
    {"owner", "<lock_path> > uid", 1, owner},
    {"owner_nocheck", "<lock_path> > uid", 1, owner_nocheck},
    {"owner_pid", "<lock_path> > pid", 1, owner_pid},
    {"owner_pid_nocheck", "<lock_path> > pid", 1, owner_pid_nocheck},
    {"is_mine", "<lock_path> <pid|uid>", 2, is_mine},
    {"is_stale", "<lock_path>", 1, is_stale},
    {"kill_owner", "<lock_path> [signal]", {1, 2}, kill_owner},
    {"clean", "<lock_path>", 1, clean},
};

constexpr cli::Option kOptions[] = {
    cli::rows::wait("lock", cli::rows::kWaitHelp),
    cli::rows::nowait("lock", cli::rows::kNowaitHelp),
    cli::rows::strict("unlock"),
    cli::rows::dir_leaf("lock lock_nocheck fast_lock"),
    cli::rows::older_than("clean"),
    cli::rows::kill_wait("kill_owner"),
};

constexpr const char* kText =
    "    A lock held by a process of this host. A script says\n"
    "\n"
    "        lock_local lock gc.lock $$ || exit\n"
    "        trap 'lock_local unlock gc.lock $$' EXIT\n"
    "\n"
    "    and if it dies without unlocking, the next one to ask gets the lock. With --wait, 'lock'\n"
    "    waits until the lock is free.\n"
    "\n"
    "    Exit: 0 done, 1 held by another (try again), 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 lock spread over two filesystems, 14 answer not written,\n"
    "          20 held by this very process, or no such process;\n"
    "          'clean' is 0 if nothing is left, 1 if it is in use;\n"
    "          'unlock' is 0 also for what was not held, unless --strict;\n"
    "          'is_stale' is 0 dead, 1 alive, 2 free, 13 cannot tell; 'kill_owner' is 0 killed,\n"
    "          1 was dead already, 2 free, 13 cannot tell, 15 did not die in time, 16 not "
    "permitted.\n";

}  // namespace

int lock_local(int argc, char** argv) {
  return cli::run_tool(
      {.name = "lock_local", .text = kText, .actions = kActions, .options = kOptions}, argc, argv);
}

}  // namespace holdfast::tools
