/// named_process FIRST [SECOND]: lives under the name FIRST until it is killed, and after a SIGUSR1
/// under the name SECOND.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

int main(int argc, char** argv) {
  if (argc < 2) return 10;
  sigset_t rename;
  sigemptyset(&rename);
  sigaddset(&rename, SIGUSR1);
  sigprocmask(SIG_BLOCK, &rename, nullptr);
  prctl(PR_SET_NAME, argv[1]);
  int number = 0;
  if (argc > 2 && sigwait(&rename, &number) == 0) prctl(PR_SET_NAME, argv[2]);
  for (;;) pause();
}
