#include "common/party.h"

#include <unistd.h>

#include "base/text.h"
#include "common/checkers.h"
#include "common/report.h"
#include "composite/line.h"
#include "composite/semaphore.h"
#include "disk/disk.h"
#include "identity/local_id.h"
#include "identity/local_id_helper.h"
#include "identity/ssh_id.h"

namespace holdfast::tools {

using composite::Holder;
using identity::Identity;
using lock::Outcome;

namespace {

/// How ids are made and judged, before anybody is named.
struct Kind {
  std::shared_ptr<const identity::Checker> checker;
  std::shared_ptr<const identity::IdHelper> ids;  ///< none: any text is an id
  std::optional<std::chrono::seconds> grace{};
};

Kind kind_of(const cli::Call& call) {
  if (!call.options.checker.empty()) {
    if (call.options.ssh) throw cli::UsageError("a stale checker does not go with --ssh");
    return {make_checker(call, call.options.checker, identity::Output::to_stderr), nullptr,
            call.options.grace};
  }
  if (!call.options.ssh) {
    if (!call.options.notifier.empty() || call.options.ssh_strict || call.options.ssh_insecure) {
      throw cli::UsageError("--on-check-fail, --ssh-strict and --ssh-insecure go with --ssh");
    }
    return {std::make_shared<identity::LocalId>(disk::posix()),
            std::make_shared<identity::LocalIdHelper>(disk::posix()), call.options.grace};
  }
  std::vector<std::string> notifier = call.options.notifier;
  if (!notifier.empty()) notifier.push_back(call.word(0));
  auto both = std::make_shared<identity::SshId>(
      disk::posix(),
      identity::SshId::Settings{std::move(notifier), identity::Output::to_stderr,
                                call.options.ssh_strict, call.options.ssh_insecure},
      call.doubts);
  return {both, both, call.options.grace.value_or(kGrace)};
}

Uid to_uid(const std::string& word) {
  std::string why;
  if (auto id = Uid::parse(word, why)) return *id;
  throw cli::UsageError(why);
}

std::optional<Identity> identify(const cli::Call& call, const Kind& kind, const std::string& word,
                                 Given given) {
  if (!kind.ids) return Identity{to_uid(word), identity::LocalId(disk::posix()).record_of_caller()};
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  if (given == Given::pid_or_uid && !is_number && kind.ids->is_valid_uid(word)) {
    return Identity{to_uid(word), identity::LocalId(disk::posix()).record_of_caller()};
  }
  std::string why;
  auto identity = kind.ids->identify(word, why);
  if (!identity) {
    call.log.error("obtaining UID for ID({})", word);
    call.log.error("{}", why);
  }
  return identity;
}

/// This process, which waits for another.
Identity waiter_of(const Kind& kind, const Identity& self) {
  std::string why;
  const std::string pid = std::to_string(getpid());
  const auto waiter =
      kind.ids ? kind.ids->identify(pid, why) : identity::LocalId(disk::posix()).identify(pid, why);
  return waiter.value_or(self);
}

}  // namespace

std::optional<Holder> make_holder(const cli::Call& call, std::size_t i, Given given) {
  return make_holder(call, call.word(i), given, call.options.wait.has_value());
}

std::optional<Holder> make_holder(const cli::Call& call, const std::string& id, Given given,
                                  bool waits) {
  const Kind kind = kind_of(call);
  const auto self = identify(call, kind, id, given);
  if (!self) return std::nullopt;
  // refused before it holds anything: who can lock must be able to wait
  if (self->uid.str().size() > lock::Layout::kLongestWaiter) {
    throw cli::UsageError("the id has " + std::to_string(self->uid.str().size()) +
                          " bytes; one that may have to wait can have " +
                          std::to_string(lock::Layout::kLongestWaiter));
  }
  return Holder{*self, waits ? waiter_of(kind, *self) : *self, kind.checker, kind.grace,
                call.doubts};
}

Holder make_judge(const cli::Call& call) {
  const Kind kind = kind_of(call);
  const Identity nobody{Uid::found(""), identity::LocalId(disk::posix()).record_of_caller()};
  return {nobody, nobody, kind.checker, kind.grace, call.doubts};
}

std::uint32_t to_count(const std::string& what, const std::string& text, std::uint32_t least) {
  constexpr std::uint32_t kMost = composite::Semaphore::kLargestMax;
  const auto number = to_number(text);
  if (!number || *number < least || *number > kMost) {
    throw cli::UsageError(what + " is a number from " + std::to_string(least) + " to " +
                          std::to_string(kMost) + ", not '" + text + "'");
  }
  return static_cast<std::uint32_t>(*number);
}

const std::string& slot_given(const cli::Call& call) {
  if (!lock::SlotLayout::is_slot(call.word(1))) {
    throw cli::UsageError("'" + call.word(1) +
                          "' cannot be a slot: it has a slash in it or begins with a dot");
  }
  return call.word(1);
}

composite::Patience patience_of(const cli::Call& call, const Interrupts& interrupts) {
  return composite::Patience::of(call.options.wait.value_or(std::chrono::milliseconds(0)),
                                 interrupts.fd());
}

Exit report_hold(cli::Call& call, const lock::FastLock& lock, const Uid& id,
                 const lock::Answer& answer) {
  switch (answer.outcome) {
    case Outcome::not_mine:
      call.log.error("{}", answer.why);
      return LineExit::not_held;
    case Outcome::deadlock:
      call.log.error("{}; unlock, and lock again", answer.why);
      return LineExit::deadlock;
    default:
      return report_lock(call, lock, id, answer);
  }
}

Exit report_release(cli::Call& call, const lock::Answer& answer) {
  if (answer.outcome == Outcome::released) return LineExit::ok;
  call.log.error("{}", answer.why);
  return answer.outcome == Outcome::not_mine ? LineExit::not_held : LineExit::failed;
}

Exit print_line(cli::Call& call) {
  std::size_t position = 0;
  for (const composite::Waiter& waiter : composite::Line::waiters(disk::posix(), call.word(0))) {
    const bool is_reader = waiter.ticket.mode == lock::Mode::shared;
    call.print(std::to_string(++position) + (is_reader ? " r " : " w ") + waiter.ticket.id.str() +
               " " + std::to_string(waiter.age.count()));
  }
  return LineExit::ok;
}

}  // namespace holdfast::tools
