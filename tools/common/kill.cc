#include "common/kill.h"

#include <charconv>
#include <csignal>
#include <cstring>

namespace holdfast::tools {

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

Exit report_kill(cli::Call& call, const Uid& uid, int code) {
  switch (static_cast<KillExit>(code)) {
    case KillExit::killed:
      call.log.info("{} was signalled", uid.str());
      break;
    case KillExit::already_stale:
      call.log.info("{} was dead already", uid.str());
      break;
    case KillExit::still_running:
      call.log.error("{} was signalled and is still running", uid.str());
      break;
    case KillExit::not_permitted:
      call.log.error("not permitted to signal {}", uid.str());
      break;
    default:
      call.log.error("cannot tell which process {} is: no signal was sent", uid.str());
  }
  return Exit::of_program(code);
}

}  // namespace holdfast::tools
