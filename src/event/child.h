#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>

#include "event/loop.h"

namespace holdfast::event {

/// Reaps one child process and tells how it ended.
///
/// Owns:     A pidfd of the child, not the child: a child that is still running when the ChildWatch
///           is destroyed keeps running, and nobody reaps it.
/// Threads:  The loop's thread only.
/// Never:    Calls back from inside the constructor, more than once, or after its destruction.
class ChildWatch {
 public:
  /// `wait_status` is what waitpid(2) gives. If somebody else reaped the child, `ended` is called
  /// with kUnknown.
  using Ended = std::function<void(int wait_status)>;
  static constexpr int kUnknown = -1;

  ChildWatch(Loop& loop, pid_t pid, Ended ended);
  ChildWatch(const ChildWatch&) = delete;
  ChildWatch& operator=(const ChildWatch&) = delete;
  ~ChildWatch();

  /// False if the process `pid` does not exist or the kernel has no pidfd to give: nothing is ever
  /// called then.
  bool is_good() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace holdfast::event
