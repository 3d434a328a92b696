#include "event/child.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "event/watch.h"

namespace holdfast::event {

struct ChildWatch::State {
  State(pid_t child, Ended call)
      : fd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0))),
        pid(child),
        ended(std::move(call)) {}
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() {
    watch.reset();  // before its descriptor is closed
    if (fd >= 0) (void)::close(fd);
  }

  void look() {
    int status = 0;
    pid_t reaped = 0;
    do {
      reaped = ::waitpid(pid, &status, WNOHANG);
    } while (reaped < 0 && errno == EINTR);
    if (reaped == 0) return watch->await_readable();  // not ended, or its tracer sees it first
    const Ended call = std::exchange(ended, nullptr);
    call(reaped == pid ? status : kUnknown);  // may destroy this State
  }

  int fd;
  pid_t pid;
  Ended ended;
  std::optional<Watch> watch;
};

ChildWatch::ChildWatch(Loop& loop, pid_t pid, Ended ended)
    : state_(std::make_unique<State>(pid, std::move(ended))) {
  if (state_->fd < 0) return;
  state_->watch.emplace(
      loop, state_->fd, [state = state_.get()] { state->look(); }, [] {});
  state_->watch->await_readable();
}

ChildWatch::~ChildWatch() = default;

bool ChildWatch::is_good() const {
  return state_->watch && state_->watch->is_good();
}

}  // namespace holdfast::event
