#include "common/kill.h"

#include <charconv>
#include <csignal>
#include <cstring>

#include "disk/disk.h"
#include "identity/local_id.h"

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

}  // namespace

Exit kill_and_report(cli::Call& call, const Uid& uid, const std::optional<Record>& record,
                     const std::string& signal) {
  using identity::Killed;
  switch (identity::LocalId(disk::posix())
              .kill(uid, record, signal_number(signal), call.options.patience)) {
    case Killed::killed:
      call.log.info("{} got signal {}", uid.str(), signal);
      return KillExit::killed;
    case Killed::already_stale:
      call.log.info("{} was dead already", uid.str());
      return KillExit::already_stale;
    case Killed::unknown:
      call.log.error("cannot tell which process {} is: no signal was sent", uid.str());
      return KillExit::unknown;
    case Killed::still_running:
      call.log.error("{} got signal {} and is still running", uid.str(), signal);
      return KillExit::still_running;
    case Killed::not_permitted:
      break;
  }
  call.log.error("not permitted to signal {}", uid.str());
  return KillExit::not_permitted;
}

}  // namespace holdfast::tools
