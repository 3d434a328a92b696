#include "composite/semaphore.h"

#include <deque>
#include <memory>
#include <optional>

#include "common/checkers.h"
#include "common/party.h"
#include "common/report.h"
#include "common/siblings.h"
#include "composite/command_slots.h"
#include "composite/own_slots.h"
#include "disk/disk.h"
#include "identity/local_id.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using composite::Semaphore;
using composite::SlotLocker;
using composite::Taken;
using identity::Identity;
using lock::Outcome;

enum class Kind { local, cluster, command };

Kind kind_of(const cli::Call& call) {
  const cli::Options& given = call.options;
  if (given.locker.empty()) return given.idhelper.empty() ? Kind::local : Kind::cluster;
  if (is_own_tool(given.locker[0], "lock_local")) return Kind::local;
  return is_own_tool(given.locker[0], "lock_ssh") ? Kind::cluster : Kind::command;
}

/// Of the options of lock_local, those that mean something to a slot, and --strict, which scripts
/// keep beside the name of the locker.
constexpr cli::Option kLocalLockerOptions[] = {
    cli::rows::strict("unlock"),
    cli::rows::dir_leaf("lock"),
    cli::rows::older_than("clean"),
};

/// Of those of lock_ssh. No --dir-leaf: a folder holds no record, and without a record a holder in
/// a container looks dead.
constexpr cli::Option kClusterLockerOptions[] = {
    cli::rows::grace(""),           cli::rows::kNotifier,
    cli::rows::kIdHelper,           cli::rows::kChecker,
    cli::rows::kSshStrict,          cli::rows::kSshInsecure,
    cli::rows::older_than("clean"),
};

/// What our own locker was told: by --locker-arg, and by the options of semaphore_ssh, whose
/// notifier learns the semaphore as well.
cli::Options locker_options(const cli::Call& call, Kind kind) {
  cli::Options options;
  options.idhelper = call.options.idhelper;
  if (kind == Kind::cluster && options.idhelper.empty()) options.idhelper.emplace_back(kOurSshId);
  options.grace = call.options.grace;
  options.ssh_strict = call.options.ssh_strict;
  options.ssh_insecure = call.options.ssh_insecure;
  options.older_than = call.options.older_than;
  std::vector<std::string> words = call.options.locker_args;
  cli::take_all_options(kind == Kind::local ? std::span<const cli::Option>(kLocalLockerOptions)
                                            : kClusterLockerOptions,
                        words, options);
  if (!words.empty()) throw cli::UsageError("the locker has no option '" + words.front() + "'");
  if (options.help || options.version) throw cli::UsageError("no help from the locker");
  if (!call.options.notifier.empty()) {
    options.notifier.insert(options.notifier.end(), call.options.notifier.begin(),
                            call.options.notifier.end());
    options.notifier.push_back(call.word(0));
  }
  // as the shell has it, only --debug is passed on
  if (call.options.level == Log::Level::debug) options.level = Log::Level::debug;
  return options;
}

/// The words that run a locker of the user's own.
std::vector<std::string> command_words(const cli::Call& call) {
  std::vector<std::string> words = call.options.locker;
  words.insert(words.end(), call.options.locker_args.begin(), call.options.locker_args.end());
  if (call.options.level == Log::Level::debug) words.emplace_back("--debug");
  return words;
}

/// Who makes ids, and who checks them, in one slot or another.
class Court {
 public:
  Court(const cli::Call& call, Kind kind)
      : kind_(kind), options_(locker_options(call, kind)), log_(options_.level) {
    if (kind == Kind::cluster) {
      ids_ = make_id_helper(cli::Call(call.tool(), {call.word(0)}, options_));
    }
  }

  const Log& log() const { return log_; }
  const cli::Options& options() const { return options_; }

  std::optional<Identity> identify(const std::string& given, std::string& why) const {
    return ids_ ? ids_->identify(given, why) : local_.identify(given, why);
  }
  bool is_valid_uid(const std::string& text) const {
    return ids_ ? ids_->is_valid_uid(text) : LocalId::pid_of(Uid::found(text)).has_value();
  }

  policy::Rules rules(const disk::SafePath& slot) {
    if (kind_ == Kind::local) return {.checker = local_, .log = log_};
    calls_.emplace_back("lock_ssh", std::vector{slot.native()}, options_);
    const cli::Call& call = calls_.back();
    checkers_.push_back(make_checker(call, checker_words(call), identity::Output::to_stderr));
    return {.checker = *checkers_.back(), .grace = options_.grace.value_or(kGrace), .log = log_};
  }

 private:
  using LocalId = identity::LocalId;

  Kind kind_;
  cli::Options options_;
  Log log_;
  LocalId local_{disk::posix()};
  std::unique_ptr<identity::IdHelper> ids_;
  std::deque<cli::Call> calls_;  ///< a checker keeps the log of its own
  std::vector<std::unique_ptr<identity::Checker>> checkers_;
};

/// For whom.
enum class Whom {
  runs,     ///< a process that runs, by its pid
  anybody,  ///< or somebody spelt out
  nobody,
};

/// The semaphore that word 0 names, and its locker on behalf of the process that word `at` names.
class Site {
 public:
  Site(cli::Call& call, Whom whom, std::size_t at = 0) : kind_(kind_of(call)) {
    const bool has_word = whom != Whom::nobody && call.has(at) && !call.word(at).empty();
    const std::string word = has_word ? call.word(at) : "";
    if (kind_ == Kind::command) {
      slots_ = std::make_unique<composite::CommandSlots>(
          command_words(call), has_word ? std::optional(word) : std::nullopt);
    } else {
      if (whom != Whom::nobody && kind_ == Kind::local && !has_word) {
        throw cli::UsageError("a local semaphore needs the pid of its holder");
      }
      court_ = std::make_unique<Court>(call, kind_);
      auto self = whom == Whom::nobody ? std::nullopt : identify(call, whom, word);
      is_known_ = whom == Whom::nobody || self.has_value();
      auto slots = std::make_unique<composite::OwnSlots>(
          disk::posix(),
          [court = court_.get()](const disk::SafePath& slot) { return court->rules(slot); },
          std::move(self), court_->log());
      slots->set_holder(word);
      if (court_->options().dir_leaf) slots->set_leaf_kind(lock::LeafKind::dir);
      slots_ = std::move(slots);
    }
    semaphore_.emplace(disk::posix(), call.word(0), *slots_, call.log);
  }

  /// Whether there is such a process; if not, that was told.
  bool is_known() const { return is_known_; }
  bool is_own() const { return kind_ != Kind::command; }
  Semaphore& semaphore() { return *semaphore_; }
  const cli::Options& locker_options() const { return court_->options(); }

 private:
  std::optional<Identity> identify(const cli::Call& call, Whom whom, const std::string& word) {
    if (whom == Whom::anybody && !word.empty() &&
        word.find_first_not_of("0123456789") != std::string::npos && court_->is_valid_uid(word)) {
      std::string why;
      if (auto uid = Uid::parse(word, why)) return Identity{*uid, {}};
      throw cli::UsageError(why);
    }
    std::string why;
    auto identity = court_->identify(word, why);
    if (!identity) {
      call.log.error("obtaining UID for ID({})", word);
      call.log.error("{}", why);
    } else if (whom == Whom::runs) {
      warn_of_blank_name(call, *identity, word);
    }
    return identity;
  }

  Kind kind_;
  std::unique_ptr<Court> court_;
  std::unique_ptr<SlotLocker> slots_;
  std::optional<Semaphore> semaphore_;
  bool is_known_ = true;
};

std::uint32_t max_given(const cli::Call& call) {
  return to_count("max", call.word(1), 0);
}

/// Of a refusal to a person: who is in, as far as they fit on a screen.
void tell_who_is_in(const cli::Call& call, const Semaphore& semaphore) {
  constexpr std::size_t kMostLines = 10;
  std::size_t told = 0;
  const lock::SlotLayout at(semaphore.path());
  for (const std::string& name : semaphore.slots()) {
    if (told++ == kMostLines) break;
    tell_who_holds(call, lock::FastLock(disk::posix(), at.slot(name)));
  }
  tell_what_next(call);
}

Exit report_taken(cli::Call& call, Site& site, const Taken& taken) {
  if (!taken.answer.why.empty()) {
    if (taken.answer.outcome == Outcome::contended) {
      call.log.warn("{}", taken.answer.why);
    } else {
      call.log.error("{}", taken.answer.why);
    }
  }
  if (taken.status > 0) {
    return taken.status > Taken::kLastRetry ? Exit::of_program(taken.status)
                                            : Exit(SemaphoreExit::none_free);
  }
  switch (taken.answer.outcome) {
    case Outcome::held:
      return SemaphoreExit::ok;
    case Outcome::contended:
      if (site.is_own() && call.is_talkative()) tell_who_is_in(call, site.semaphore());
      return SemaphoreExit::none_free;
    case Outcome::already_mine:
      return SemaphoreExit::already_mine;
    case Outcome::cross_device:
      return SemaphoreExit::cross_device;
    default:
      return SemaphoreExit::proposal_failed;
  }
}

Exit acquire(cli::Call& call) {
  const std::uint32_t max = max_given(call);
  Site site(call, Whom::runs, 2);
  if (!site.is_known()) return SemaphoreExit::no_such_process;
  return report_taken(call, site, site.semaphore().acquire(max));
}

Exit fast_acquire(cli::Call& call) {
  const std::uint32_t max = max_given(call);
  Site site(call, Whom::runs, 2);
  if (!site.is_known()) return SemaphoreExit::no_such_process;
  return report_taken(call, site, site.semaphore().fast_acquire(max));
}

Exit acquire_slot(cli::Call& call) {
  const std::string& slot = slot_given(call);
  Site site(call, Whom::runs, 2);
  if (!site.is_known()) return SemaphoreExit::no_such_process;
  const Taken taken = site.semaphore().acquire_slot(slot);
  const Exit exit = report_taken(call, site, taken);
  return taken.status > 0 ? Exit::of_program(taken.status) : exit;
}

Exit release(cli::Call& call) {
  Site site(call, Whom::anybody, 1);
  const auto answer = site.semaphore().release();
  if (answer.outcome == Outcome::released) return SemaphoreExit::ok;
  call.log.error("{}", answer.why);
  return answer.outcome == Outcome::not_mine ? SemaphoreExit::not_held
                                             : SemaphoreExit::proposal_failed;
}

void print(cli::Call& call, const std::vector<lock::Leaf>& leaves) {
  for (const lock::Leaf& leaf : leaves) call.print(leaf.id.str());
}

Exit owners(cli::Call& call) {
  Site site(call, Whom::nobody);
  for (const auto& [slot, leaves] : site.semaphore().owners()) print(call, leaves);
  return SemaphoreExit::ok;
}

Exit owner(cli::Call& call) {
  Site site(call, Whom::nobody);
  print(call, site.semaphore().owner(slot_given(call)));
  return SemaphoreExit::ok;
}

Exit slot(cli::Call& call) {
  Site site(call, Whom::anybody, 1);
  if (const auto mine = site.semaphore().slot()) call.print(*mine);
  return SemaphoreExit::ok;
}

void needs_own_locker(const Site& site, const char* action) {
  if (site.is_own()) return;
  throw cli::UsageError(std::string("'") + action + "' is for lock_local and lock_ssh only");
}

Exit stale(cli::Call& call) {
  Site site(call, Whom::nobody);
  needs_own_locker(site, "stale");
  for (const std::string& name : site.semaphore().stale()) call.print(name);
  return SemaphoreExit::ok;
}

Exit clean(cli::Call& call) {
  Site site(call, Whom::nobody);
  needs_own_locker(site, "clean");
  return site.semaphore().clean(site.locker_options().age()) ? SemaphoreExit::ok
                                                             : SemaphoreExit::none_free;
}

constexpr cli::Action kActions[] = {
    {"acquire", "<semaphore_path> <max> [pid]", {2, 3}, acquire},
    {"fast_acquire", "<semaphore_path> <max> [pid]", {2, 3}, fast_acquire},
    {"acquire_slot", "<semaphore_path> <slot> [pid]", {2, 3}, acquire_slot},
    {"release", "<semaphore_path> [pid|uid]", {1, 2}, release},
    {"owners", "<semaphore_path> > uids", 1, owners},
    {"owner", "<semaphore_path> <slot> > uid", 2, owner},
    {"slot", "<semaphore_path> [pid|uid] > slot", {1, 2}, slot},
    {"stale", "<semaphore_path> > slots", 1, stale},
    {"clean", "<semaphore_path>", 1, clean},
};

constexpr const char* kText =
    "    Lets in up to <max> processes at once. A script says\n"
    "\n"
    "        semaphore -l acquire builds 4 $$ || exit\n"
    "        trap 'semaphore -l release builds $$' EXIT\n"
    "\n"
    "    Each slot is a lock, <semaphore_path>/1 and so on, of the locker:\n"
    "    -l for processes of this host, lock_ssh for those of a cluster, or a command of your own\n"
    "    that knows lock, fast_lock, unlock, is_mine and owner. Options may stand anywhere\n"
    "    before the word that follows <semaphore_path>.\n"
    "\n"
    "    Exit: 0 done, 1 all slots held (try again), 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 slot spread over two filesystems, 14 answer not written,\n"
    "          19 not held (release), 20 this very process holds a slot, or no such process;\n"
    "          'clean' is 0 if no slot is in use, else 1; what a command of your own exits\n"
    "          with ends the search if it is above 9, and is passed on.\n";

constexpr const char* kSshText =
    "    Lets in up to <max> processes at once, of all hosts that share the filesystem. A script "
    "says\n"
    "\n"
    "        semaphore_ssh acquire /shared/builds 4 $$ || exit\n"
    "        trap 'semaphore_ssh release /shared/builds $$' EXIT\n"
    "\n"
    "    Each slot is a lock of lock_ssh, <semaphore_path>/1 and so on: what that says of the "
    "dead\n"
    "    and of hosts that are away holds for each.\n"
    "\n"
    "    --on-check-fail, once per word, names a command that is run as\n"
    "    '<word>... <semaphore> <slot's path> <checking host> <uid> <message>' when nobody can "
    "tell.\n"
    "\n"
    "    Exit: 0 done, 1 all slots held (try again), 2 could not be tried (stderr says why),\n"
    "          10 usage, 12 slot spread over two filesystems, 14 answer not written,\n"
    "          19 not held (release), 20 this very process holds a slot, or no such process;\n"
    "          'clean' is 0 if no slot is in use, else 1.\n";

constexpr cli::Option kOptions[] = {
    {"-l, --local", "", "", "the locker is lock_local", cli::set_flag<&cli::Options::local>},
    {"-a, --locker-arg", "<word>", "", "once per word: what the locker gets before its action",
     cli::add_word<&cli::Options::locker_args>},
    cli::rows::older_than("clean"),
};

void refuse_local(cli::Options&, const std::string&, const std::string&) {
  throw cli::UsageError("its slots are of a cluster: for those of this host say 'semaphore -l'");
}

constexpr cli::Option kSshOptions[] = {
    {"-l, --local", "", "", "", refuse_local},
    {"-a, --locker-arg", "<word>", "", "once per word: what lock_ssh gets before its action",
     cli::add_word<&cli::Options::locker_args>},
    cli::rows::grace("no second check of an id before so long (10)"),
    cli::rows::kNotifier,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    cli::rows::older_than("clean"),
};

}  // namespace

int semaphore(int argc, char** argv) {
  return cli::run_tool({.name = "semaphore",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .takes_locker = true,
                        .words_among_options = 3},
                       argc, argv);
}

int semaphore_ssh(int argc, char** argv) {
  return cli::run_tool({.name = "semaphore_ssh",
                        .text = kSshText,
                        .actions = kActions,
                        .options = kSshOptions,
                        .idhelper = kOurSshId,
                        .words_among_options = 2},
                       argc, argv);
}

}  // namespace holdfast::tools
