#pragma once

#include <string>

#include "identity/local_id.h"
#include "support/locker_tools.h"
#include "support/process.h"

namespace holdfast::testing {

inline std::string uid_of(const Process& process) {
  std::string why;
  return identity::LocalId(disk::posix()).identify(process.pid_text(), why).value().uid.str();
}

/// One who may hold a lock.
struct Holder {
  Holder(const LockerTool& locker, const std::string& id)
      : word(locker.named == Named::id    ? id
             : locker.named == Named::uid ? uid_of(process)
                                          : process.pid_text()),
        leaf(locker.named == Named::id ? id : uid_of(process)) {}

  Process process{kSleeper};
  const std::string word;  ///< on the command line
  const std::string leaf;  ///< in owner/
};

}  // namespace holdfast::testing
