/// How each tool is called to take a lock, give it up and look at it, for tests that hold all of
/// them to one promise.
#pragma once

#include <string>
#include <vector>

#include "support/process.h"

namespace holdfast::testing {

using Words = std::vector<std::string>;

/// What stands for a holder on the command line.
enum class Named {
  id,   ///< any text
  uid,  ///< of a process, as local_id prints it
  pid,
};

struct LockerTool {
  std::string name;
  Words options;  ///< before the action
  Named named;
  bool recovers;  ///< finds out by itself that a holder of its own host is dead

  Words words(const std::string& action, const std::string& lock,
              const std::string& holder = {}) const {
    Words all{name};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {action, lock});
    if (!holder.empty()) all.push_back(holder);
    return all;
  }
};

/// A line for each.
inline std::vector<LockerTool> locker_tools() {
  return {
      {"fast_lock", {"--older-than", "0"}, Named::id, false},
      {"check_lock",
       {"--strict", "--older-than", "0", tool("local_id"), "-s", "is_stale"},
       Named::uid,
       true},
      {"lock_local", {"--strict", "--older-than", "0"}, Named::pid, true},
  };
}

}  // namespace holdfast::testing
