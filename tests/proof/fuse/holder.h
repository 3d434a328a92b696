#pragma once

#include <string>

#include "support/locker_tools.h"
#include "support/process.h"

namespace holdfast::testing {

/// One who may hold a lock.
struct Holder {
  Holder(const LockerTool& locker, const std::string& id)
      : leaf(leaf_of(locker, id, process.pid_text())),
        word(word_of(locker, leaf, process.pid_text())) {}

  Process process{kSleeper};
  const std::string leaf;  ///< in owner/
  const std::string word;  ///< on the command line
};

}  // namespace holdfast::testing
