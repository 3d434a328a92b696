#include "identity/local_id_helper.h"

#include "base/exit_code.h"

namespace holdfast::identity {

Told LocalIdHelper::pid(const Uid& uid) const {
  const auto pid = local_.pid(uid);
  return pid ? Told{Exit(LocalIdExit::ok).code(), std::to_string(*pid)}
             : Told{Exit(LocalIdExit::no).code()};
}

Told LocalIdHelper::hostid(const Uid& /*uid*/) const {
  return {Exit(LocalIdExit::usage).code()};
}

int LocalIdHelper::is_host_compatible(const std::string& /*host*/) const {
  return Exit(LocalIdExit::usage).code();
}

int LocalIdHelper::kill(const Uid& uid, const std::optional<Record>& record, int signal,
                        std::chrono::seconds patience) const {
  const auto exit_of = [](Killed killed) -> Exit {
    switch (killed) {
      case Killed::killed:
        return KillExit::killed;
      case Killed::already_stale:
        return KillExit::already_stale;
      case Killed::still_running:
        return KillExit::still_running;
      case Killed::not_permitted:
        return KillExit::not_permitted;
      case Killed::unknown:
        break;
    }
    return KillExit::unknown;
  };
  return exit_of(local_.kill(uid, record, signal, patience)).code();
}

}  // namespace holdfast::identity
