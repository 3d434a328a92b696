#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "disk/disk.h"

namespace holdfast::identity {

/// The process that called this one, where it can be taken as the holder of a lock.
///
/// A script calls a tool, and the tool locks for the script. But the parent of a tool can also be
/// `timeout` or `sudo`, which end with the tool, or init, which adopted the tool after its script
/// was killed. So the parent counts only if it is a shell or an interpreter of our session. Init
/// counts only if it is one itself, as in a container whose first process is the script.
///
/// A subshell cannot be told from the script that started it, and where init is a shell, neither
/// can a script that was killed before the tool looked.
class Caller {
 public:
  /// Looks at the parent now. Nothing, with the reason in `why`, if it does not count.
  static std::optional<Caller> find(disk::Disk& disk, std::string& why,
                                    const disk::Path& proc = "/proc");

  std::uint64_t pid() const { return pid_; }

  /// Whether it is still the parent. A yes after something was learnt about pid() means that it was
  /// learnt about the caller: its pid cannot have been reused.
  bool is_still_there() const;

 private:
  explicit Caller(std::uint64_t pid) : pid_(pid) {}

  std::uint64_t pid_;
};

/// Whether a program of that path runs scripts. Versions in the name do not matter: python3.11.
bool is_interpreter(std::string_view program);

}  // namespace holdfast::identity
