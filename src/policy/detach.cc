#include "policy/detach.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace holdfast::policy {
namespace {

/// No files of a lock: not the Disk's.
void drop_streams() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, stream);
  // a caller may wait for the end of a pipe, or have a lock of another kind on a file
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);
}

void unblock_signals() {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

void run_detached(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child > 0) waitpid(child, nullptr, 0);  // it ends at once: its own child goes on, an orphan
  if (child != 0) return;
  setsid();
  if (fork() != 0) _exit(0);
  unblock_signals();
  drop_streams();
  try {
    work();
  } catch (...) {  // there is nobody to tell, and the caller's frames below belong to the parent
    _exit(1);
  }
  _exit(0);
}

}  // namespace holdfast::policy
