#include "composite/rw_lock.h"

#include <algorithm>

#include "common/party.h"
#include "common/report.h"
#include "composite/status.h"
#include "disk/disk.h"
#include "disk/watch.h"
#include "inventory/status.h"
#include "lock/tickets.h"
#include "policy/check_policy.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using composite::Holder;
using composite::Order;
using composite::RwLock;
using lock::Mode;
using lock::Outcome;

Order order_of(const cli::Call& call) {
  if (call.options.barge) return Order::barge;
  return call.options.prefer_writers ? Order::prefer_writers : Order::fair;
}

/// Runs `act` with signals kept away; whoever is stopped by one leaves what it had before.
/// `is_seen`: others meet this process, not only the holder.
template <class Act, class TakeBack>
Exit wait_for(cli::Call& call, bool is_seen, const Act& act, const TakeBack& take_back) {
  const auto holder = make_holder(call, call.word(1), Given::pid, is_seen);
  if (!holder) return LineExit::no_such_process;
  warn_of_blank_name(call, holder->self, call.word(1));
  const Interrupts interrupts;
  RwLock lock(call.word(0), *holder, order_of(call));
  if (call.has_reader()) lock.set_teller([&] { tell_who_holds(call, lock.fast()); });
  const lock::Answer answer = act(lock, patience_of(call, interrupts));
  if (lock.was_stopped() || (call.options.wait && interrupts.came())) {
    if (answer.outcome == Outcome::held) (void)take_back(lock);
    interrupts.die();
  }
  disk::Watch::close_behind();
  return report_hold(call, lock.fast(), holder->self.uid, answer);
}

Exit acquire(cli::Call& call, Mode mode) {
  return wait_for(
      call, call.options.wait.has_value(),
      [&](RwLock& lock, const composite::Patience& patience) {
        return lock.acquire(mode, patience);
      },
      [](RwLock& lock) { return lock.unlock(); });
}

Exit shared(cli::Call& call) {
  return acquire(call, Mode::shared);
}
Exit exclusive(cli::Call& call) {
  return acquire(call, Mode::exclusive);
}

Exit upgrade(cli::Call& call) {
  return wait_for(
      call, true,
      [](RwLock& lock, const composite::Patience& patience) { return lock.upgrade(patience); },
      [](RwLock& lock) { return lock.downgrade(); });
}

Exit downgrade(cli::Call& call) {
  const auto holder = make_holder(call, call.word(1), Given::pid_or_uid, true);
  if (!holder) return LineExit::no_such_process;
  RwLock lock(call.word(0), *holder);
  return report_hold(call, lock.fast(), holder->self.uid, lock.downgrade());
}

Exit unlock(cli::Call& call) {
  const auto holder = make_holder(call, 1, Given::pid_or_uid);
  if (!holder) return LineExit::no_such_process;
  return report_release(call, RwLock(call.word(0), *holder).unlock());
}

Exit is_mine(cli::Call& call) {
  const auto holder = make_holder(call, 1, Given::pid_or_uid);
  if (!holder) return LineExit::no_such_process;
  const RwLock lock(call.word(0), *holder);
  if (lock.own_leaf()) return LineExit::ok;
  tell_of_twin(call, lock.fast(), holder->self);
  return LineExit::refused;
}

Exit owners(cli::Call& call) {
  for (const lock::Leaf& leaf : make_lock(call).owner()) {
    call.print((leaf.mode == Mode::shared ? "S " : "X ") + leaf.id.str());
  }
  return LineExit::ok;
}

/// As fair_lock has it: of the holders, without their mode.
Exit owner(cli::Call& call) {
  return print_owner(call, make_lock(call).owner());
}

Exit ids_in_use(cli::Call& call) {
  std::vector<Uid> ids = make_lock(call).ids_in_use();
  for (const auto& waiter : composite::Line::waiters(disk::posix(), call.word(0))) {
    ids.push_back(waiter.ticket.id);
  }
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  for (const Uid& id : ids) call.print(id.str());
  return LineExit::ok;
}

Exit clean_stale_ids(cli::Call& call) {
  std::vector<Uid> ids;
  for (std::size_t i = 1; call.has(i); ++i) ids.push_back(call.id(i));
  auto lock = make_lock(call);
  lock::Tickets tickets(disk::posix(), lock::Layout(call.word(0)));
  std::error_code ec;  // what cannot be seen stays
  for (const lock::Ticket& ticket : tickets.list(ec)) {
    if (std::find(ids.begin(), ids.end(), ticket.id) != ids.end()) tickets.remove(ticket);
  }
  lock.clean_stale_ids(ids);
  return LineExit::ok;
}

Exit is_stale(cli::Call& call) {
  const Holder judge = make_judge(call);
  auto lock = make_lock(call);
  return report_staleness(call, policy::policy_for(lock, judge.rules())->staleness());
}

Exit clean(cli::Call& call) {
  const Holder judge = make_judge(call);
  const bool is_clean =
      RwLock(call.word(0), judge).clean(call.options.age(), call.options.older_than);
  return is_clean ? LineExit::ok : LineExit::refused;
}

Exit status(cli::Call& call) {
  composite::Status all;
  for (std::size_t i = 0; call.has(i); ++i) {
    for (const disk::Path& path : inventory::locks_in(disk::posix(), call.word(i))) {
      if (auto one = inventory::status_of(disk::posix(), path))
        all.locks.push_back(std::move(*one));
    }
  }
  if (call.options.ids_json) {
    call.print(to_ids_json(all));
  } else if (call.options.json) {
    call.print(to_json(all));
  } else {
    for (const composite::LockStatus& one : all.locks) {
      for (const std::string& holder : one.holders) {
        call.print(one.id + " " + std::string(composite::to_word(one.mode)) + " " + holder);
      }
    }
  }
  return LineExit::ok;
}

constexpr auto kOptional = cli::CheckerWords::optional;

constexpr cli::Action kRwActions[] = {
    {"shared", "<lock_path> <pid>", 2, shared, kOptional},
    {"exclusive", "<lock_path> <pid>", 2, exclusive, kOptional},
    {"upgrade", "<lock_path> <pid>", 2, upgrade, kOptional},
    {"downgrade", "<lock_path> <pid|uid>", 2, downgrade, kOptional},
    {"unlock", "<lock_path> <pid|uid>", 2, unlock, kOptional},
    {"owners", "<lock_path> > lines of S|X uid", 1, owners},
    {"is_mine", "<lock_path> <pid|uid>", 2, is_mine, kOptional},
    {"queue", "<lock_path> > lines of position r|w uid seconds", 1, print_line},
    {"ids_in_use", "<lock_path> > uids", 1, ids_in_use},
    {"is_stale", "<lock_path>", 1, is_stale, kOptional},
    {"clean_stale_ids", "<lock_path> [uids]...", cli::at_least(1), clean_stale_ids},
    {"clean", "<lock_path>", 1, clean, kOptional},
    {"status", "[--json|--ids-json] <folder>...", cli::at_least(1), status, cli::CheckerWords::none,
     cli::Paths::all, true},
};

constexpr cli::Action kFairActions[] = {
    {"lock", "<lock_path> <pid>", 2, exclusive, kOptional},
    {"unlock", "<lock_path> <pid|uid>", 2, unlock, kOptional},
    {"owner", "<lock_path> > uid", 1, owner},
    {"is_mine", "<lock_path> <pid|uid>", 2, is_mine, kOptional},
    {"queue", "<lock_path> > lines of position r|w uid seconds", 1, print_line},
    {"is_stale", "<lock_path>", 1, is_stale, kOptional},
    {"clean", "<lock_path>", 1, clean, kOptional},
};

template <bool Barge, bool PreferWriters>
void set_order(cli::Options& options, const std::string&, const std::string&) {
  options.barge = Barge;
  options.prefer_writers = PreferWriters;
}

constexpr const char* kTaking = "shared exclusive";
constexpr const char* kWaiting = "shared exclusive upgrade";

constexpr cli::Option kRwOptions[] = {
    cli::rows::wait(kWaiting, cli::rows::kWaitHelp),
    cli::rows::nowait(kWaiting, cli::rows::kNowaitHelp),
    {"--fair", "", kTaking, "first come, first served (default)", set_order<false, false>},
    {"--barge", "", kTaking, "no queue: whoever tries at the right moment", set_order<true, false>},
    {"--prefer-writers", "", kTaking, "a sharer waits as long as any writer does",
     set_order<false, true>},
    cli::rows::kCheckerArg,
    cli::rows::kSsh,
    kPartyGrace,
    cli::rows::kNotifier,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    {"--json", "", "status", "as one line of JSON", cli::set_flag<&cli::Options::json>},
    {"--ids-json", "", "status", "as the service-status document of a data server",
     cli::set_flag<&cli::Options::ids_json>},
    cli::rows::older_than("clean"),
};

constexpr cli::Option kFairOptions[] = {
    cli::rows::wait("lock", cli::rows::kWaitHelp),
    cli::rows::nowait("lock", cli::rows::kNowaitHelp),
    cli::rows::kCheckerArg,
    cli::rows::kSsh,
    kPartyGrace,
    cli::rows::kNotifier,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    cli::rows::older_than("clean"),
};

constexpr const char* kRwText =
    "    A lock that several share or one holds alone. A script says\n"
    "\n"
    "        rw_lock --wait 60 shared index.lock $$ || exit\n"
    "        trap 'rw_lock unlock index.lock $$' EXIT\n"
    "\n"
    "    Who takes the same path with lock_local or fast_lock holds it alone.\n"
    "\n"
    "    Ids are processes of this host, with --ssh of any host. With a stale checker, which is\n"
    "    <cmd [-s arg]...> as for check_lock, they are any text.\n"
    "\n"
    "    Exit: 0 done, 1 held by others, or time is up; 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 lock spread over two filesystems, 14 answer not written, 19 not held,\n"
    "          20 held by this very process, or no such process, 23 two upgrades meet: unlock;\n"
    "          'clean' is 0 if nothing is left, 1 if it is in use;\n"
    "          'is_stale' is 0 all dead, 1 one lives, 2 free, 10 and up cannot tell.\n";

constexpr const char* kFairText =
    "    A lock that is given to those who wait in the order in which they came. A script says\n"
    "\n"
    "        fair_lock --wait 600 lock deploy.lock $$ || exit\n"
    "        trap 'fair_lock unlock deploy.lock $$' EXIT\n"
    "\n"
    "    Those who take the same path with another locker do not stand in line.\n"
    "\n"
    "    Ids are processes of this host, with --ssh of any host. With a stale checker, which is\n"
    "    <cmd [-s arg]...> as for check_lock, they are any text.\n"
    "\n"
    "    Exit: 0 done, 1 held by another, or time is up; 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 lock spread over two filesystems, 14 answer not written, 19 not held,\n"
    "          20 held by this very process, or no such process;\n"
    "          'clean' is 0 if nothing is left, 1 if it is in use;\n"
    "          'is_stale' is 0 dead, 1 alive, 2 free, 10 and up cannot tell.\n";

}  // namespace

int rw_lock(int argc, char** argv) {
  return cli::run_tool({.name = "rw_lock",
                        .text = kRwText,
                        .actions = kRwActions,
                        .options = kRwOptions,
                        .takes_checker = true},
                       argc, argv);
}

int fair_lock(int argc, char** argv) {
  return cli::run_tool({.name = "fair_lock",
                        .text = kFairText,
                        .actions = kFairActions,
                        .options = kFairOptions,
                        .takes_checker = true},
                       argc, argv);
}

}  // namespace holdfast::tools
