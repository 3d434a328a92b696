#include "composite/multi_lock.h"

#include "common/party.h"
#include "common/report.h"
#include "disk/disk.h"
#include "disk/watch.h"
#include "identity/caller.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using composite::MultiLock;
using composite::Want;
using lock::Mode;
using lock::Outcome;

/// x:PATH or PATH alone, s:PATH shared.
std::vector<Want> wants_of(const cli::Call& call) {
  std::vector<Want> wants;
  for (std::size_t i = 0; call.has(i); ++i) {
    const std::string& word = call.word(i);
    const bool has_mode = word.starts_with("x:") || word.starts_with("s:");
    const std::string path = has_mode ? word.substr(2) : word;
    if (path.empty()) throw cli::UsageError("no path in '" + word + "'");
    wants.push_back({path, word.starts_with("s:") ? Mode::shared : Mode::exclusive});
  }
  return wants;
}

/// Who is to hold the locks: --id, or else the script that called.
class Party {
 public:
  Party(const cli::Call& call, Given given)
      : caller_(find_caller(call)),
        holder_(make_holder(call, caller_ ? std::to_string(caller_->pid()) : call.options.id, given,
                            !call.options.nowait)) {}

  /// Nothing if there is no such process.
  const composite::Holder* holder() const { return holder_ && !has_left() ? &*holder_ : nullptr; }

  /// The script has ended. Its pid may belong to another process by now.
  bool has_left() const { return caller_ && !caller_->is_still_there(); }

 private:
  static std::optional<identity::Caller> find_caller(const cli::Call& call) {
    if (!call.options.id.empty()) return std::nullopt;
    std::string why;
    const auto caller = identity::Caller::find(disk::posix(), why);
    if (!caller) throw cli::UsageError(why);
    return caller;
  }

  std::optional<identity::Caller> caller_;
  std::optional<composite::Holder> holder_;
};

/// Without --wait as long as it takes.
composite::Patience patience_of_all(const cli::Call& call, const Interrupts& interrupts) {
  if (call.options.nowait) return composite::Patience::none();
  if (!call.options.wait) return composite::Patience::endless(interrupts.fd());
  return patience_of(call, interrupts);
}

Exit acquire(cli::Call& call) {
  const auto wants = wants_of(call);
  const Party party(call, Given::pid);
  const composite::Holder* const holder = party.holder();
  if (!holder) return LineExit::no_such_process;
  const Interrupts interrupts;
  MultiLock locks(wants, *holder);
  const auto answer = locks.acquire(patience_of_all(call, interrupts), call.options.hold_limit);
  if (locks.was_stopped() || (!call.options.nowait && interrupts.came())) {
    if (answer.outcome == Outcome::held) (void)locks.release();
    interrupts.die();
  }
  if (answer.outcome == Outcome::held && party.has_left()) {
    (void)locks.release();
    call.log.error("the calling process has ended, so the locks were released");
    return LineExit::no_such_process;
  }
  if (answer.outcome == Outcome::contended) {
    call.log.warn("{} is refused, and nothing was taken", locks.at().native());
  }
  const lock::FastLock lock(disk::posix(), locks.at());
  disk::Watch::close_behind();
  return report_hold(call, lock, holder->self.uid, answer);
}

Exit release(cli::Call& call) {
  const auto wants = wants_of(call);
  const Party party(call, Given::pid_or_uid);
  const composite::Holder* const holder = party.holder();
  if (!holder) return LineExit::no_such_process;
  return report_release(call, MultiLock(wants, *holder).release());
}

Exit owners(cli::Call& call) {
  for (const Want& want : wants_of(call)) {
    for (const lock::Leaf& leaf : lock::FastLock(disk::posix(), want.path).owner()) {
      call.print((leaf.mode == Mode::shared ? "S " : "X ") + leaf.id.str() + " " +
                 want.path.native());
    }
  }
  return LineExit::ok;
}

constexpr auto kOptional = cli::CheckerWords::optional;

constexpr cli::Action kActions[] = {
    {"acquire", "[x:|s:]<lock_path>...", cli::at_least(1), acquire, kOptional, cli::Paths::all},
    {"release", "[x:|s:]<lock_path>...", cli::at_least(1), release, kOptional, cli::Paths::all},
    {"owners", "[x:|s:]<lock_path>... > lines of S|X uid path", cli::at_least(1), owners,
     cli::CheckerWords::none, cli::Paths::all},
};

constexpr cli::Option kOptions[] = {
    cli::rows::wait("acquire", "wait so long for all together: 500ms, 3 (seconds), 1m (forever)"),
    cli::rows::nowait("acquire", "try each once, and release all if one is held"),
    {"--hold-limit", "<seconds>", "acquire", "release all after so long a wait for the next (30)",
     cli::set_seconds<&cli::Options::hold_limit>},
    {"--id", "<pid>", "acquire release", "the holder, if not the process that calls",
     cli::set_text<&cli::Options::id>},
    cli::rows::kCheckerArg,
    cli::rows::kSsh,
    kPartyGrace,
    cli::rows::kNotifier,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
};

constexpr const char* kText =
    "    Several locks at once: all, or none. A script says\n"
    "\n"
    "        multi_lock --wait 60 acquire x:/srv/a.lock s:/srv/b.lock || exit\n"
    "        trap 'multi_lock release /srv/a.lock /srv/b.lock' EXIT\n"
    "\n"
    "    x: (or nothing) is alone, s: is shared, as rw_lock has it. They are held by the process\n"
    "    that calls, or the one of --id. Whoever takes several this way never waits for another "
    "in\n"
    "    a circle, whatever the order of the words; --hold-limit is for scripts with an order of\n"
    "    their own.\n"
    "\n"
    "    Ids are processes of this host, with --ssh of any host. With a stale checker, which is\n"
    "    <cmd [-s arg]...> as for check_lock, that of --id is any text.\n"
    "\n"
    "    Exit: 0 done, 1 one is held by others, or time is up; 2 could not be tried (stderr says\n"
    "          why), 10 usage, 12 spread over two filesystems, 14 answer not written, 19 not all\n"
    "          were held (the others were released), 20 one is held by this very process, or no\n"
    "          such process.\n";

}  // namespace

int multi_lock(int argc, char** argv) {
  return cli::run_tool({.name = "multi_lock",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .takes_checker = true},
                       argc, argv);
}

}  // namespace holdfast::tools
