#include <memory>

#include "common/checkers.h"
#include "common/report.h"
#include "disk/disk.h"
#include "identity/local_id.h"
#include "policy/check_policy.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

/// The lock, its checker, and the policy that joins them.
struct Checked {
  explicit Checked(const cli::Call& call)
      : lock(make_lock(call)),
        checker(make_checker(call, call.options.checker, identity::Output::ours)),
        policy(lock, *checker, real_clock(), call.log) {}

  lock::FastLock lock;
  std::unique_ptr<identity::Checker> checker;
  policy::CheckPolicy policy;
};

Exit lock(cli::Call& call) {
  Checked checked(call);
  const Uid id = call.id(1);
  const auto answer = checked.policy.lock(id, identity::LocalId(disk::posix()).record_of_caller());
  return report_lock(call, checked.lock, id, answer);
}

Exit lock_nocheck(cli::Call& call) {
  auto lock = make_lock(call);
  const Uid id = call.id(1);
  return report_lock(call, lock, id,
                     lock.lock(id, identity::LocalId(disk::posix()).record_of_caller()));
}

Exit unlock(cli::Call& call) {
  return report_unlock(call, Checked(call).policy.unlock(call.id(1)), unheld_of(call));
}

Exit owner(cli::Call& call) {
  return print_owner(call, Checked(call).policy.owner());
}
Exit owner_nocheck(cli::Call& call) {
  return print_owner(call, make_lock(call).owner());
}

Exit is_mine(cli::Call& call) {
  if (!call.has(1)) throw cli::UsageError("action 'is_mine' needs <lock_path> <id>");
  if (call.word(1).empty()) return LockExit::contended;
  return make_lock(call).is_mine(call.id(1)) ? LockExit::ok : LockExit::contended;
}

Exit is_stale(cli::Call& call) {
  return report_staleness(call, Checked(call).policy.staleness());
}

Exit clean(cli::Call& call) {
  return Checked(call).policy.clean(call.options.age()) ? LockExit::ok : LockExit::contended;
}

constexpr auto kNeeded = cli::CheckerWords::needed;

constexpr cli::Action kActions[] = {
    {"lock", "<lock_path> <id>", 2, lock, kNeeded},
    {"lock_nocheck", "<lock_path> <id>", 2, lock_nocheck},
    {"unlock", "<lock_path> <id>", 2, unlock, kNeeded},
    {"owner", "<lock_path> > id", 1, owner, kNeeded},
    {"owner_nocheck", "<lock_path> > id", 1, owner_nocheck},
    {"is_mine", "<lock_path> <id>", {1, 2}, is_mine},
    {"is_stale", "<lock_path>", 1, is_stale, kNeeded},
    {"clean", "<lock_path>", 1, clean, kNeeded},
};

constexpr cli::Option kOptions[] = {
    cli::rows::kCheckerArg,
    cli::rows::strict("unlock"),
    cli::rows::dir_leaf("lock lock_nocheck"),
    cli::rows::older_than("clean"),
};

constexpr const char* kText =
    "    A fast_lock that recovers from holders which died, by asking a checker about their ids.\n"
    "\n"
    "    <stale_checker> is <cmd [-s arg]...>: run as 'cmd arg... id', it exits with 0 if the id "
    "is\n"
    "    stale and with anything else if it lives or cannot tell. It is asked on every refused\n"
    "    lock, so it should be cheap. 'local_id -s is_stale' is.\n"
    "\n"
    "    Exit: 0 done, 1 held by another (try again), 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 lock spread over two filesystems, 14 answer not written,\n"
    "          20 held by this very id; 'clean' is 0 if nothing is left, 1 if it is in use;\n"
    "          'unlock' is 0 also for what was not held, unless --strict;\n"
    "          'is_stale' is 0 stale, 1 alive, 2 free, 10 and up: the checker cannot tell.\n";

}  // namespace

int check_lock(int argc, char** argv) {
  return cli::run_tool({.name = "check_lock",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .takes_checker = true},
                       argc, argv);
}

}  // namespace holdfast::tools
