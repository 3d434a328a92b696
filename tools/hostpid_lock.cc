#include <memory>
#include <optional>

#include "common/checkers.h"
#include "common/kill.h"
#include "common/report.h"
#include "common/waiting.h"
#include "identity/id_helper.h"
#include "policy/grace_policy.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using identity::Identity;
using identity::Output;
using identity::Told;

std::chrono::seconds grace_given(const cli::Call& call) {
  return call.options.grace.value_or(kGrace);
}

/// Of lock and unlock: the word after the pid goes before --grace-seconds.
std::chrono::seconds grace_of_word(const cli::Call& call) {
  return call.has(2) && !call.word(2).empty() ? call.seconds(2) : grace_given(call);
}

/// The pause of a refused attempt slows down those who try in a loop. Whoever waits sleeps anyway.
policy::Means means_of(const cli::Call& call) {
  policy::Means means;
  if (call.options.wait) means.pause = [](std::chrono::seconds) {};
  return means;
}

/// A lock whose ids are processes of hosts, made by the id helper.
struct Cluster {
  explicit Cluster(const cli::Call& call) : Cluster(call, grace_given(call)) {}
  Cluster(const cli::Call& call, std::chrono::seconds grace)
      : ids(make_id_helper(call)),
        checker(make_checker(call, checker_words(call), Output::to_stderr)),
        lock(make_lock(call)),
        policy(lock, *checker, grace, log_of_attempts(call), means_of(call)) {}

  std::unique_ptr<identity::IdHelper> ids;
  std::unique_ptr<identity::Checker> checker;
  lock::FastLock lock;
  policy::GracePolicy policy;
};

std::optional<Identity> identify(const cli::Call& call, const identity::IdHelper& ids) {
  const std::string given = call.has(1) ? call.word(1) : "";
  std::string why;
  auto identity = ids.identify(given, why);
  if (!identity) {
    call.log.error("obtaining UID for ID({})", given);
    call.log.error("{}", why);
  }
  return identity;
}

/// The process given: by its pid, or by an id, which names no process.
std::optional<Identity> id_given(const cli::Call& call, const identity::IdHelper& ids) {
  const bool is_number =
      call.has(1) && call.word(1).find_first_not_of("0123456789") == std::string::npos;
  if (call.has(1) && !is_number && ids.is_valid_uid(call.word(1))) return Identity{call.id(1), {}};
  return identify(call, ids);
}

template <class TryLock>
Exit lock_with(cli::Call& call, std::chrono::seconds grace, TryLock try_lock) {
  Cluster cluster(call, grace);
  const auto identity = identify(call, *cluster.ids);
  if (!identity) return LockExit::no_such_process;
  warn_of_blank_name(call, *identity, call.word(1));
  const auto waiter = make_waiter(call, *identity, *cluster.ids, *cluster.checker);
  const auto answer = attempt_or_wait(call, cluster.lock, waiter, [&] {
    auto tried = try_lock(cluster, *identity);
    if (tried.outcome != lock::Outcome::contended) return tried;
    std::error_code ec;  // a caller that cannot look stays refused
    const auto own = cluster.lock.leaf_of(identity->uid, identity->record, ec);
    if (!own) return tried;
    return lock::Answer{lock::Outcome::already_mine,
                        call.word(0) + " already locked by " + own->id.str()};
  });
  return report_lock(call, cluster.lock, identity->uid, answer);
}

Exit lock(cli::Call& call) {
  return lock_with(call, grace_of_word(call), [](Cluster& c, const Identity& self) {
    return c.policy.lock(self.uid, self.record);
  });
}

Exit lock_check(cli::Call& call) {
  const auto aloud = make_checker(call, checker_words(call), Output::ours);
  return lock_with(call, grace_given(call), [&](Cluster& c, const Identity& self) {
    return c.policy.lock_check(self.uid, self.record, *aloud);
  });
}

Exit fast_lock(cli::Call& call) {
  return lock_with(call, grace_given(call), [](Cluster& c, const Identity& self) {
    return c.lock.lock(self.uid, self.record);
  });
}

Exit unlock(cli::Call& call) {
  Cluster cluster(call, grace_of_word(call));
  const auto self = id_given(call, *cluster.ids);
  if (!self) return LockExit::no_such_process;
  return report_unlock(call, cluster.policy.unlock(self->uid, self->record));
}

Exit is_mine(cli::Call& call) {
  const Cluster cluster(call);
  const auto self = id_given(call, *cluster.ids);
  if (!self) return LockExit::no_such_process;
  if (cluster.lock.is_mine(self->uid, self->record)) return LockExit::ok;
  tell_of_twin(call, cluster.lock, *self);
  return LockExit::contended;
}

Exit owner(cli::Call& call) {
  return print_owner(call, make_lock(call).owner());
}

/// A field of a single owner. The id helper has its own word for "no id".
Exit print_field(cli::Call& call, Told (identity::IdHelper::*field)(const Uid&) const) {
  const auto leaves = make_lock(call).owner();
  const Uid uid = leaves.size() == 1 ? leaves[0].id : Uid::found("");
  const Told told = (*make_id_helper(call).*field)(uid);
  if (told.code == 0) call.print(told.text);
  return Exit::of_program(told.code);
}

Exit owner_pid(cli::Call& call) {
  return print_field(call, &identity::IdHelper::pid);
}
Exit owner_hostid(cli::Call& call) {
  return print_field(call, &identity::IdHelper::hostid);
}

Exit is_host_compatible(cli::Call& call) {
  return Exit::of_program(make_id_helper(call)->is_host_compatible(call.word(0)));
}

Exit is_stale(cli::Call& call) {
  return report_staleness(call, Cluster(call).policy.staleness());
}

Exit kill_owner(cli::Call& call) {
  return kill_owners(call, *make_id_helper(call), make_lock(call));
}

Exit clean(cli::Call& call) {
  return Cluster(call).policy.clean(call.options.age()) ? LockExit::ok : LockExit::contended;
}

constexpr cli::Action kActions[] = {
    {"lock", "<lock_path> <pid> [grace_seconds]", {1, 3}, lock},
    {"lock_check", "<lock_path> <pid>", {1, 2}, lock_check},
    {"fast_lock", "<lock_path> <pid>", {1, 2}, fast_lock},
    {"unlock", "<lock_path> <pid|uid> [grace_seconds]", {1, 3}, unlock},
    {"owner", "<lock_path> > uid", 1, owner},
    {"owner_pid", "<lock_path> > pid", 1, owner_pid},
    {"owner_hostid", "<lock_path> > hostid", 1, owner_hostid},
    {"is_mine", "<lock_path> <pid|uid>", {1, 2}, is_mine},
    {"is_host_compatible", "<host>", 1, is_host_compatible},
    {"is_stale", "<lock_path>", 1, is_stale},
    {"kill_owner", "<lock_path> [signal]", {1, 2}, kill_owner},
    {"clean", "<lock_path>", 1, clean},
};

constexpr const char* kGraceHelp = "no second check of an id before so long (10)";

constexpr cli::Option kOptions[] = {
    cli::rows::wait("lock", cli::rows::kWaitHelp),
    cli::rows::nowait("lock", cli::rows::kNowaitHelp),
    cli::rows::grace(kGraceHelp),
    cli::rows::kNotifier,
    cli::rows::kIdHelper,
    cli::rows::kChecker,
    cli::rows::older_than("clean"),
    cli::rows::kill_wait("kill_owner"),
};

constexpr cli::Option kSshOptions[] = {
    cli::rows::wait("lock", cli::rows::kWaitHelp),
    cli::rows::nowait("lock", cli::rows::kNowaitHelp),
    cli::rows::grace(kGraceHelp),
    cli::rows::kNotifier,
    cli::rows::kIdHelper,
    cli::rows::kChecker,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    cli::rows::older_than("clean"),
    cli::rows::kill_wait("kill_owner"),
};

constexpr const char* kText =
    "    A lock held by a process of any host that shares the filesystem. Who made the id of the\n"
    "    holder, the id helper, is asked whether that process lives: at most once in a grace\n"
    "    (10 s unless given), whichever host asks.\n"
    "\n"
    "    'lock' may be called in a loop. One that cleans a dead holder has itself failed already:\n"
    "    the next one gets the lock. 'lock_check' asks about the holder at once, and tries again.\n"
    "\n"
    "    Exit: 0 done, 1 held by another (try again), or not held (unlock); 2 could not be tried\n"
    "          (stderr says why), 10 usage, 12 lock spread over two filesystems, 14 answer not\n"
    "          written, 20 held by this very process, or no such process, or no owner;\n"
    "          'clean' is 0 if nothing is left, 1 if it is in use; 'is_stale' is 0 dead,\n"
    "          1 alive, 2 free, 10 and up cannot tell; 'kill_owner' is 0 killed, 1 was dead\n"
    "          already, 2 free, 10 and up why not.\n";

constexpr const char* kSshText =
    "    A lock held by a process of any host that shares the filesystem. A script says\n"
    "\n"
    "        lock_ssh lock /shared/gc.lock $$ || exit\n"
    "        trap 'lock_ssh unlock /shared/gc.lock $$' EXIT\n"
    "\n"
    "    and if it dies without unlocking, those who ask again get the lock after a grace (10 s "
    "unless\n"
    "    given) and a look at its host over ssh. A host that cannot be asked is never taken for "
    "dead.\n"
    "    'lock_check' asks about the holder at once, and tries again.\n"
    "\n"
    "    --on-check-fail, once per word, names a command that is run as\n"
    "    '<word>... <lock> <checking host> <uid> <message>' when nobody can tell.\n"
    "\n"
    "    Exit: 0 done, 1 held by another (try again), or not held (unlock); 2 could not be tried\n"
    "          (stderr says why), 10 usage, 12 lock spread over two filesystems, 14 answer not\n"
    "          written, 20 held by this very process, or no such process, or no owner;\n"
    "          'clean' is 0 if nothing is left, 1 if it is in use; 'is_stale' is 0 dead, 1 alive,\n"
    "          2 free, 10 its host gives no answer, 11 another host answers, 13 the answer does "
    "not\n"
    "          tell; 'kill_owner' is 0 killed, 1 was dead already, 2 free, 10, 11, 13 as before,\n"
    "          15 did not die in time, 16 not permitted.\n";

}  // namespace

int hostpid_lock(int argc, char** argv) {
  return cli::run_tool(
      {.name = "hostpid_lock", .text = kText, .actions = kActions, .options = kOptions}, argc,
      argv);
}

int lock_ssh(int argc, char** argv) {
  return cli::run_tool({.name = "lock_ssh",
                        .text = kSshText,
                        .actions = kActions,
                        .options = kSshOptions,
                        .idhelper = kOurSshId},
                       argc, argv);
}

}  // namespace holdfast::tools
