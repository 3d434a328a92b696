#pragma once

#include <functional>
#include <memory>

#include "event/loop.h"

namespace holdfast::event {

/// Tells when a descriptor can be read or written. Each question is answered once.
///
/// Owns:     Nothing. The caller owns the descriptor and closes it only after the Watch is gone.
/// Threads:  The loop's thread only.
/// Never:    Calls back after its destruction, not even if it is destroyed inside a call.
class Watch {
 public:
  Watch(Loop& loop, int fd, std::function<void()> readable, std::function<void()> writable);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

  bool is_good() const;   ///< False if the kernel refused the descriptor: nothing is ever called.
  void await_readable();  ///< The call is also made at the end of the stream and after a failure.
  void await_writable();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace holdfast::event
