#include <cstdlib>
#include <memory>

#include "common/checkers.h"
#include "common/report.h"
#include "disk/disk.h"
#include "identity/local_id.h"
#include "policy/grace_policy.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using identity::Output;

using policy::GracePolicy;

/// --grace-seconds, or else GRACE_SECONDS.
GracePolicy::Grace grace_given(const cli::Call& call) {
  if (call.options.grace) return call.options.grace;
  const char* from_environment = std::getenv("GRACE_SECONDS");
  if (!from_environment || !*from_environment) return std::nullopt;
  return cli::to_seconds("GRACE_SECONDS", from_environment);
}

/// Of lock and unlock: the word after the id goes before those.
GracePolicy::Grace grace_of_word(const cli::Call& call) {
  return call.has(2) && !call.word(2).empty() ? call.seconds(2) : grace_given(call);
}

/// The lock, its checker, and the policy that joins them. The checker says on stderr what it says:
/// it is asked on the way, about others.
struct Graced {
  explicit Graced(const cli::Call& call) : Graced(call, grace_given(call)) {}
  Graced(const cli::Call& call, GracePolicy::Grace grace)
      : lock(make_lock(call)),
        checker(make_checker(call, call.options.checker, Output::to_stderr)),
        policy(lock, *checker, grace, call.log) {}

  lock::FastLock lock;
  std::unique_ptr<identity::Checker> checker;
  GracePolicy policy;
};

Record caller() {
  return identity::LocalId(disk::posix()).record_of_caller();
}

Exit lock(cli::Call& call) {
  Graced graced(call, grace_of_word(call));
  const Uid id = call.id(1);
  return report_lock(call, graced.lock, id, graced.policy.lock(id, caller()));
}

Exit lock_check(cli::Call& call) {
  Graced graced(call);
  const Uid id = call.id(1);
  const auto aloud = make_checker(call, call.options.checker, Output::ours);
  return report_lock(call, graced.lock, id, graced.policy.lock_check(id, caller(), *aloud));
}

Exit lock_nocheck(cli::Call& call) {
  auto lock = make_lock(call);
  const Uid id = call.id(1);
  return report_lock(call, lock, id, lock.lock(id, caller()));
}

Exit unlock(cli::Call& call) {
  return report_unlock(call, Graced(call, grace_of_word(call)).policy.unlock(call.id(1)));
}

Exit owner(cli::Call& call) {
  return print_owner(call, make_lock(call).owner());
}

Exit is_mine(cli::Call& call) {
  return make_lock(call).is_mine(call.id(1)) ? LockExit::ok : LockExit::contended;
}

Exit is_stale(cli::Call& call) {
  return report_staleness(call, Graced(call).policy.staleness());
}

Exit clean(cli::Call& call) {
  return Graced(call).policy.clean(call.options.age()) ? LockExit::ok : LockExit::contended;
}

constexpr auto kNeeded = cli::CheckerWords::needed;

constexpr cli::Action kActions[] = {
    {"lock", "<lock_path> <id> [grace_seconds]", {2, 3}, lock, kNeeded},
    {"lock_check", "<lock_path> <id>", 2, lock_check, kNeeded},
    {"lock_nocheck", "<lock_path> <id>", 2, lock_nocheck},
    {"fast_lock", "<lock_path> <id>  (old name of lock_nocheck)", 2, lock_nocheck},
    {"unlock", "<lock_path> <id> [grace_seconds]", {2, 3}, unlock, kNeeded},
    {"owner", "<lock_path> > id", 1, owner},
    {"is_mine", "<lock_path> <id>", 2, is_mine},
    {"is_stale", "<lock_path>", 1, is_stale, kNeeded},
    {"clean", "<lock_path>", 1, clean, kNeeded},
};

constexpr cli::Option kOptions[] = {
    cli::rows::kCheckerArg,
    cli::rows::grace("no second check of an id before so long (0)"),
    cli::rows::dir_leaf("lock lock_check lock_nocheck fast_lock"),
    cli::rows::older_than("clean"),
};

constexpr const char* kText =
    "    A fast_lock that recovers from holders which died, for checks that are dear: an id is\n"
    "    left in peace for a grace after each check, whoever made it.\n"
    "\n"
    "    <stale_checker> is <cmd [-s|--checker-arg arg]...>: run as 'cmd arg... id', it exits\n"
    "    with 0 if the id is stale and with anything else if it lives or cannot tell.\n"
    "\n"
    "    'lock' may be called in a loop. One that cleans a dead holder has itself failed already:\n"
    "    the next one gets the lock. 'lock_check' asks about the holder at once, and tries again.\n"
    "    Without a grace (--grace-seconds, GRACE_SECONDS) any id may be asked about at any time.\n"
    "\n"
    "    Exit: 0 done, 1 held by another (try again), or not held (unlock); 2 could not be tried\n"
    "          (stderr says why), 10 usage, 12 lock spread over two filesystems, 14 answer not\n"
    "          written, 20 held by this very id; 'clean' is 0 if nothing is left, 1 if it is in\n"
    "          use; 'is_stale' is 0 stale, 1 alive, 2 free, 10 and up: the checker cannot tell.\n";

}  // namespace

int grace_lock(int argc, char** argv) {
  return cli::run_tool({.name = "grace_lock",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .takes_checker = true},
                       argc, argv);
}

}  // namespace holdfast::tools
