#include "composite/fair_semaphore.h"

#include "common/party.h"
#include "common/report.h"
#include "disk/watch.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using composite::FairSemaphore;
using composite::Holder;
using lock::Outcome;

Exit report_refusal(cli::Call& call, const lock::Answer& answer, std::uint32_t max) {
  switch (answer.outcome) {
    case Outcome::contended:
      call.log.info("{} failed to be acquired by {} (max {})", call.word(0), call.word(2), max);
      if (!answer.why.empty()) call.log.info("{}", answer.why);
      return LineExit::refused;
    case Outcome::already_mine:
      call.log.error("{}", answer.why);
      return LineExit::already_mine;
    case Outcome::cross_device:
      call.log.error("{}", answer.why);
      return LineExit::cross_device;
    default:
      call.log.error("{}", answer.why);
      return LineExit::failed;
  }
}

Exit acquire(cli::Call& call) {
  const std::uint32_t max = to_count("max", call.word(1), 0);
  const std::uint32_t permits =
      call.options.permits ? to_count("--permits", *call.options.permits, 1) : 1;
  if (max > 0 && permits > max) {
    throw cli::UsageError("--permits " + std::to_string(permits) + " are never free of " +
                          std::to_string(max));
  }
  const auto holder = make_holder(call, 2, Given::pid);
  if (!holder) return LineExit::no_such_process;
  if (max == 0) return report_refusal(call, {Outcome::contended, {}}, max);
  const Interrupts interrupts;
  FairSemaphore semaphore(call.word(0), *holder);
  if (call.has_reader()) {
    semaphore.set_teller([&] { call.log.warn("{}: none of {} is free", call.word(0), max); });
  }
  const auto answer = semaphore.acquire(max, permits, patience_of(call, interrupts));
  const bool is_held = answer.outcome == Outcome::held;
  if (semaphore.was_stopped() || (call.options.wait && interrupts.came())) {
    if (is_held) (void)semaphore.release();
    interrupts.die();
  }
  disk::Watch::close_behind();
  return is_held ? Exit(LineExit::ok) : report_refusal(call, answer, max);
}

Exit release(cli::Call& call) {
  std::optional<std::uint32_t> permits;
  if (call.options.permits) permits = to_count("--permits", *call.options.permits, 1);
  const auto holder = make_holder(call, 1, Given::pid_or_uid);
  if (!holder) return LineExit::no_such_process;
  return report_release(call, FairSemaphore(call.word(0), *holder).release(permits));
}

Exit owners(cli::Call& call) {
  const Holder judge = make_judge(call);
  for (const auto& [slot, leaves] : FairSemaphore(call.word(0), judge).slots().owners()) {
    for (const lock::Leaf& leaf : leaves) call.print(leaf.id.str());
  }
  return LineExit::ok;
}

Exit owner(cli::Call& call) {
  const std::string& slot = slot_given(call);
  const Holder judge = make_judge(call);
  for (const lock::Leaf& leaf : FairSemaphore(call.word(0), judge).slots().owner(slot)) {
    call.print(leaf.id.str());
  }
  return LineExit::ok;
}

Exit slot(cli::Call& call) {
  const auto holder = make_holder(call, 1, Given::pid_or_uid);
  if (!holder) return LineExit::no_such_process;
  for (const std::string& name : FairSemaphore(call.word(0), *holder).slots().slots_held()) {
    call.print(name);
  }
  return LineExit::ok;
}

Exit stale(cli::Call& call) {
  const Holder judge = make_judge(call);
  for (const std::string& name : FairSemaphore(call.word(0), judge).slots().stale()) {
    call.print(name);
  }
  return LineExit::ok;
}

Exit clean(cli::Call& call) {
  const Holder judge = make_judge(call);
  const bool is_clean =
      FairSemaphore(call.word(0), judge).clean(call.options.age(), call.options.older_than);
  return is_clean ? LineExit::ok : LineExit::refused;
}

constexpr auto kOptional = cli::CheckerWords::optional;

constexpr cli::Action kActions[] = {
    {"acquire", "<semaphore_path> <max> <pid>", 3, acquire, kOptional},
    {"release", "<semaphore_path> <pid|uid>", 2, release, kOptional},
    {"owners", "<semaphore_path> > uids", 1, owners, kOptional},
    {"owner", "<semaphore_path> <slot> > uid", 2, owner, kOptional},
    {"slot", "<semaphore_path> <pid|uid> > slots", 2, slot, kOptional},
    {"queue", "<semaphore_path> > lines of position w uid seconds", 1, print_line},
    {"stale", "<semaphore_path> > slots", 1, stale, kOptional},
    {"clean", "<semaphore_path>", 1, clean, kOptional},
};

constexpr cli::Option kOptions[] = {
    cli::rows::wait("acquire", cli::rows::kWaitHelp),
    cli::rows::nowait("acquire", cli::rows::kNowaitHelp),
    {"--permits", "<n>", "acquire release", "so many at once (acquire: 1, release: all)",
     cli::set_text<&cli::Options::permits>},
    cli::rows::kCheckerArg,
    cli::rows::kSsh,
    kPartyGrace,
    cli::rows::kNotifier,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    cli::rows::older_than("clean"),
};

constexpr const char* kText =
    "    A semaphore whose permits go to those who wait in the order in which they came. A script\n"
    "    says\n"
    "\n"
    "        fair_semaphore --wait 600 acquire builds 8 $$ || exit\n"
    "        trap 'fair_semaphore release builds $$' EXIT\n"
    "\n"
    "    Its slots are those of semaphore, whose callers do not stand in line.\n"
    "\n"
    "    Ids are processes of this host, with --ssh of any host. With a stale checker, which is\n"
    "    <cmd [-s arg]...> as for check_lock, they are any text.\n"
    "\n"
    "    Exit: 0 done, 1 not enough free, or time is up; 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 spread over two filesystems, 14 answer not written, 19 not held,\n"
    "          20 held by this very process, or no such process;\n"
    "          'clean' is 0 if nothing is left, 1 if it is in use.\n";

}  // namespace

int fair_semaphore(int argc, char** argv) {
  return cli::run_tool({.name = "fair_semaphore",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .takes_checker = true},
                       argc, argv);
}

}  // namespace holdfast::tools
