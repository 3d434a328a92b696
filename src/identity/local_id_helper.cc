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
  return Exit(local_.kill(uid, record, signal, patience)).code();
}

}  // namespace holdfast::identity
