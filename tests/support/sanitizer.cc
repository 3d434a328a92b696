#include "support/sanitizer.h"

#if defined(__SANITIZE_THREAD__)

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>

namespace holdfast::testing {

void show_calls_to_sanitizer() {
  constexpr auto kCall = offsetof(seccomp_data, nr);
  constexpr auto kFlags = offsetof(seccomp_data, args[2]);  // of close_range; the tests use others
  std::array filter{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kCall),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat2, 3, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 3),
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{filter.size(), filter.data()};
  // Root needs no promise to gain no privileges; for others the promise changes nothing here.
  if (geteuid() != 0) prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0) return;
  std::perror("cannot hide openat2 and close_range from ThreadSanitizer");
  std::exit(1);
}

}  // namespace holdfast::testing

#else

namespace holdfast::testing {
void show_calls_to_sanitizer() {}
}  // namespace holdfast::testing

#endif
