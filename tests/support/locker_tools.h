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
  uid,  ///< of a process
  pid,
};

struct LockerTool {
  std::string name;
  Words checker;  ///< before the action
  Named named;
  std::string id_tool;     ///< whose `uid PID` is the name in owner/; none if any text will do
  std::string recovering;  ///< the action that takes a lock from a dead holder of its own host, if
                           ///< there is one
  std::string taking = "lock";    ///< its word for that action
  std::string looking = "owner";  ///< and for that one,
  std::string mark{};             ///< which prints this before a name

  Words words(const std::string& action, const std::string& lock,
              const std::string& holder = {}) const {
    Words all{name};
    const bool knows_strict = name == "check_lock" || name == "lock_local";
    if (action == "unlock" && knows_strict) all.push_back("--strict");
    if (action == "clean") all.insert(all.end(), {"--older-than", "0"});
    all.insert(all.end(), checker.begin(), checker.end());
    const std::string& word = action == "lock" ? taking : action == "owner" ? looking : action;
    all.insert(all.end(), {word, lock});
    if (!holder.empty()) all.push_back(holder);
    return all;
  }
};

/// A line for each.
inline std::vector<LockerTool> locker_tools() {
  // clang-format off
  return {
      {"fast_lock",  {}, Named::id, "", ""},
      {"check_lock", {tool("local_id"), "-s", "is_stale"}, Named::uid, "local_id", "lock"},
      {"lock_local", {}, Named::pid, "local_id", "lock"},
      {"grace_lock", {tool("local_id"), "-s", "is_stale"}, Named::uid, "local_id", "lock_check"},
      {"lock_ssh",   {}, Named::pid, "ssh_id", "lock_check"},
      {"fair_lock",  {}, Named::pid, "local_id", "lock"},
      {"rw_lock",    {}, Named::pid, "local_id", "lock", "exclusive", "owners", "X "},
  };
  // clang-format on
}

/// The name in owner/ of one who holds through a tool: `id` if that will do, else that of a
/// process.
inline std::string leaf_of(const LockerTool& locker, const std::string& id,
                           const std::string& pid) {
  if (locker.named == Named::id) return id;
  const std::string uid = run({locker.id_tool, "uid", pid}).out;
  return uid.substr(0, uid.find('\n'));
}

inline std::string word_of(const LockerTool& locker, const std::string& leaf,
                           const std::string& pid) {
  return locker.named == Named::pid ? pid : leaf;
}

}  // namespace holdfast::testing
