#include "common/kill.h"

#include <charconv>
#include <csignal>
#include <cstring>

namespace holdfast::tools {

namespace {

int signal_number(std::string name) {
  int number = 0;
  const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), number);
  if (ec == std::errc{} && end == name.data() + name.size() && number >= 0 && number <= SIGRTMAX)
    return number;
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (number = 1; number < NSIG; ++number) {
    const char* known = sigabbrev_np(number);
    if (known && name == known) return number;
  }
  throw cli::UsageError("unknown signal " + name);
}

void report(const cli::Call& call, const Uid& uid, const std::string& signal, int code) {
  switch (static_cast<KillExit>(code)) {
    case KillExit::killed:
      return call.log.info("{} got signal {}", uid.str(), signal);
    case KillExit::already_stale:
      return call.log.info("{} was dead already", uid.str());
    case KillExit::unknown:
      return call.log.error("cannot tell which process {} is: no signal was sent", uid.str());
    case KillExit::still_running:
      return call.log.error("{} got signal {} and is still running", uid.str(), signal);
    case KillExit::not_permitted:
      return call.log.error("not permitted to signal {}", uid.str());
    default:
      return call.log.error("no word that {} got signal {} (exit {})", uid.str(), signal, code);
  }
}

}  // namespace

Exit kill_and_report(cli::Call& call, const identity::IdHelper& ids, const Uid& uid,
                     const std::optional<Record>& record, const std::string& signal) {
  const int code = ids.kill(uid, record, signal_number(signal), call.options.patience);
  report(call, uid, signal, code);
  return Exit::of_program(code);
}

Exit kill_owners(cli::Call& call, const identity::IdHelper& ids, const lock::FastLock& lock) {
  std::error_code ec;
  const auto leaves = lock.owner(ec);
  if (ec) {
    call.log.error("cannot look into {}: {}", call.word(0), ec.message());
    return KillExit::unknown;
  }
  if (leaves.empty()) return KillExit::free;
  Exit worst = KillExit::killed;
  for (const lock::Leaf& leaf : leaves) {
    const Exit exit =
        kill_and_report(call, ids, leaf.id, leaf.record, call.has(1) ? call.word(1) : "TERM");
    if (exit.code() >= worst.code()) worst = exit;
  }
  return worst;
}

}  // namespace holdfast::tools
