/// stop_at N SET MODE COMMAND [ARG]...
///
/// Runs COMMAND and interferes with one system call. Calls are numbered from 1 over the command and
/// all that it starts, beginning with the first one after its own execve.
///
///   N     the call to interfere with; 0: none, only count
///   SET   all   every call has a number
///         fs    only those that change a filesystem: folders, names, files that are created,
///               written (not the standard streams) and, once created, closed
///   MODE  kill        everything that runs is killed, the call is not made
///         lost:EXYZ   the call is made, its caller is told EXYZ
///         fail:EXYZ   the call is not made, its caller is told EXYZ
///         run:SCRIPT  a shell runs SCRIPT to its end, then the call is made
///
/// Stdout gets one line, `hit N CALL PATH` or `count TOTAL`; what the command says on its stdout
/// goes to stderr. Exit: the command's own, 128 + signal if it was killed, 125 for trouble here.
#include <fcntl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#if defined(__aarch64__)
#include <elf.h>
#endif

namespace {

using CallInfo = __ptrace_syscall_info;

constexpr int kTrouble = 125;

// --- the part that knows the processor

#if defined(__x86_64__)
void poke(pid_t pid, std::size_t where, long value) {
  if (ptrace(PTRACE_POKEUSER, pid, where, value) != 0) throw std::runtime_error("PTRACE_POKEUSER");
}
void skip_call(pid_t pid) {
  poke(pid, offsetof(user, regs.orig_rax), -1);
}
void set_result(pid_t pid, long result) {
  poke(pid, offsetof(user, regs.rax), result);
}
#elif defined(__aarch64__)
void skip_call(pid_t pid) {
  int none = -1;
  iovec part{&none, sizeof none};
  if (ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &part) != 0)
    throw std::runtime_error("PTRACE_SETREGSET");
}
void set_result(pid_t pid, long result) {
  user_regs_struct registers{};
  iovec part{&registers, sizeof registers};
  if (ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &part) != 0)
    throw std::runtime_error("PTRACE_GETREGSET");
  registers.regs[0] = static_cast<unsigned long long>(result);
  if (ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &part) != 0)
    throw std::runtime_error("PTRACE_SETREGSET");
}
#else
void skip_call(pid_t) {
  throw std::runtime_error("not written for this processor");
}
void set_result(pid_t, long) {
  throw std::runtime_error("not written for this processor");
}
#endif

// --- which calls change a filesystem

struct Change {
  long number;
  const char* name;
  int path;  ///< which argument names the thing that changes; -1: none
};

constexpr Change kChanges[] = {
#ifdef SYS_mkdir  // the old calls, which newer processors never had
    {SYS_mkdir, "mkdir", 0},
    {SYS_rmdir, "rmdir", 0},
    {SYS_unlink, "unlink", 0},
    {SYS_rename, "rename", 1},
    {SYS_link, "link", 1},
    {SYS_symlink, "symlink", 1},
    {SYS_open, "open", 0},
    {SYS_creat, "creat", 0},
    {SYS_chmod, "chmod", 0},
    {SYS_utimes, "utimes", 0},
    {SYS_mknod, "mknod", 0},
    {SYS_futimesat, "futimesat", 1},
#endif
#ifdef SYS_renameat
    {SYS_renameat, "renameat", 3},
#endif
    {SYS_mkdirat, "mkdirat", 1},
    {SYS_unlinkat, "unlinkat", 1},
    {SYS_renameat2, "renameat2", 3},
    {SYS_linkat, "linkat", 3},
    {SYS_symlinkat, "symlinkat", 2},
    {SYS_mknodat, "mknodat", 1},
    {SYS_openat, "openat", 1},
    {SYS_openat2, "openat2", 1},
    {SYS_fchmod, "fchmod", -1},
    {SYS_fchmodat, "fchmodat", 1},
    {SYS_utimensat, "utimensat", 1},
    {SYS_truncate, "truncate", 0},
    {SYS_ftruncate, "ftruncate", -1},
    {SYS_fallocate, "fallocate", -1},
    {SYS_write, "write", -1},
    {SYS_pwrite64, "pwrite64", -1},
    {SYS_writev, "writev", -1},
    {SYS_pwritev, "pwritev", -1},
    {SYS_fsync, "fsync", -1},
    {SYS_fdatasync, "fdatasync", -1},
    {SYS_close, "close", -1},
};

const Change* find_change(long number) {
  for (const Change& change : kChanges) {
    if (change.number == number) return &change;
  }
  return nullptr;
}

/// One word of the memory of a process that stands still; 0 where it has none.
std::uint64_t peek(pid_t pid, std::uint64_t address) {
  errno = 0;
  const long word = ptrace(PTRACE_PEEKDATA, pid, address, nullptr);
  return errno ? 0 : static_cast<std::uint64_t>(word);
}

std::string peek_text(pid_t pid, std::uint64_t address) {
  std::string text;
  while (text.size() < 512) {
    const std::uint64_t word = peek(pid, address + text.size());
    char bytes[sizeof word];
    std::memcpy(bytes, &word, sizeof word);
    for (const char c : bytes) {
      if (c == '\0') return text;
      text += c > ' ' && c < 0x7F ? c : '?';
    }
  }
  return text;
}

// --- what is asked for

enum class Mode { kill, lost, fail, run };

struct Request {
  long at = 0;
  bool only_changes = false;
  Mode mode = Mode::kill;
  int error = 0;
  std::string script;
};

int error_named(std::string_view name) {
  for (int number = 1; number < 200; ++number) {
    const char* known = strerrorname_np(number);
    if (known && name == known) return number;
  }
  throw std::runtime_error("no error is called " + std::string(name));
}

Request parse(char** words) {
  Request request;
  request.at = std::stol(words[1]);
  const std::string_view set = words[2];
  if (set != "all" && set != "fs") throw std::runtime_error("SET is all or fs");
  request.only_changes = set == "fs";
  const std::string_view mode = words[3];
  if (mode.starts_with("lost:") || mode.starts_with("fail:")) {
    request.mode = mode.starts_with("lost:") ? Mode::lost : Mode::fail;
    request.error = error_named(mode.substr(5));
  } else if (mode.starts_with("run:")) {
    request.mode = Mode::run;
    request.script = mode.substr(4);
  } else if (mode != "kill") {
    throw std::runtime_error("MODE is kill, lost:ERROR, fail:ERROR or run:SCRIPT");
  }
  return request;
}

// --- the run

class Tracer {
 public:
  explicit Tracer(const Request& request) : request_(request) {}

  int run(char** command) {
    start(command);
    int status = 0;
    for (pid_t pid; (pid = waitpid(-1, &status, __WALL)) > 0;) {
      if (WIFSTOPPED(status)) {
        living_.insert(pid);
        go_on(pid, status);
      } else {
        living_.erase(pid);
        if (pid == first_) code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
    }
    if (hit_.empty()) std::printf("count %ld\n", calls_);
    if (!hit_.empty()) std::printf("hit %ld %s\n", request_.at, hit_.c_str());
    return code_;
  }

 private:
  void start(char** command) {
    int gate[2];
    if (pipe2(gate, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
    first_ = fork();
    if (first_ == 0) {
      char go;
      if (read(gate[0], &go, 1) != 1) _exit(kTrouble);
      dup2(STDERR_FILENO, STDOUT_FILENO);
      execvp(command[0], command);
      _exit(127);
    }
    const long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC |
                         PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE;
    if (ptrace(PTRACE_SEIZE, first_, nullptr, options) != 0) {
      const int error = errno;
      ::kill(first_, SIGKILL);
      throw std::system_error(error, std::generic_category(), "PTRACE_SEIZE");
    }
    if (write(gate[1], "", 1) != 1) throw std::runtime_error("write");
    close(gate[0]);
    close(gate[1]);
  }

  /// A seized process first stops when its execve is done: from there on it stops at each call.
  void go_on(pid_t pid, int status) {
    int signal = WSTOPSIG(status);
    if (is_over_) {
      ::kill(pid, SIGKILL);  // one that was just being born
      return;
    }
    if (signal == (SIGTRAP | 0x80)) {
      at_call(pid);
      if (is_over_) return;
      signal = 0;
    } else if (status >> 16) {
      signal = 0;  // an event of its own life: exec, fork, first stop
    }
    ptrace(PTRACE_SYSCALL, pid, nullptr, signal);
  }

  void at_call(pid_t pid) {
    CallInfo info{};
    if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof info, &info) <= 0) return;  // it just died
    if (info.op == PTRACE_SYSCALL_INFO_ENTRY) before(pid, info);
    if (info.op == PTRACE_SYSCALL_INFO_EXIT) after(pid, info);
  }

  void before(pid_t pid, const CallInfo& info) {
    const long number = static_cast<long>(info.entry.nr);
    const Change* change = find_change(number);
    const bool is_change = change && changes(pid, info);
    creating_.erase(pid);
    if (is_change && opens(number)) creating_.insert(pid);
    if (is_change && number == SYS_close)
      created_.erase({pid, static_cast<int>(info.entry.args[0])});
    if (request_.only_changes && !is_change) return;
    if (++calls_ != request_.at) return;

    hit_ = change ? change->name : std::to_string(number);
    if (change && change->path >= 0)
      hit_.append(" ") += peek_text(pid, info.entry.args[static_cast<std::size_t>(change->path)]);
    if (request_.mode == Mode::kill) {
      is_over_ = true;
      for (const pid_t each : living_) ::kill(each, SIGKILL);
      return;
    }
    if (request_.mode == Mode::run) {
      run_script();
      return;
    }
    if (request_.mode == Mode::fail) skip_call(pid);
    lied_to_ = pid;
  }

  void run_script() const {
    const pid_t shell = fork();
    if (shell == 0) {
      dup2(STDERR_FILENO, STDOUT_FILENO);
      execl("/bin/sh", "sh", "-c", request_.script.c_str(), nullptr);
      _exit(127);
    }
    int status = 0;
    if (waitpid(shell, &status, 0) != shell || !WIFEXITED(status))
      throw std::runtime_error("the script did not end");
  }

  void after(pid_t pid, const CallInfo& info) {
    if (pid == lied_to_) {
      set_result(pid, -request_.error);
      lied_to_ = -1;
    } else if (creating_.contains(pid) && !info.exit.is_error) {
      created_.insert({pid, static_cast<int>(info.exit.rval)});
    }
    creating_.erase(pid);
  }

  static bool opens(long number) {
#ifdef SYS_open
    if (number == SYS_open || number == SYS_creat) return true;
#endif
    return number == SYS_openat || number == SYS_openat2;
  }

  bool changes(pid_t pid, const CallInfo& info) const {
    const auto& args = info.entry.args;
    constexpr std::uint64_t kCreates = O_CREAT | O_TRUNC;
    switch (info.entry.nr) {
#ifdef SYS_open
      case SYS_open:
        return args[1] & kCreates;
#endif
      case SYS_openat:
        return args[2] & kCreates;
      case SYS_openat2:
        return peek(pid, args[2]) & kCreates;
      case SYS_write:
      case SYS_pwrite64:
      case SYS_writev:
      case SYS_pwritev:
        return args[0] > STDERR_FILENO;
      case SYS_close:
        return created_.contains({pid, static_cast<int>(args[0])});
      default:
        return true;
    }
  }

  const Request request_;
  pid_t first_ = -1;
  int code_ = kTrouble;
  long calls_ = 0;
  std::string hit_;       ///< name and path of the call that was hit
  bool is_over_ = false;  ///< killed: whatever still turns up dies too
  pid_t lied_to_ = -1;    ///< inside the call whose answer will be a lie
  std::set<pid_t> living_;
  std::set<pid_t> creating_;                 ///< inside an open that may create
  std::set<std::pair<pid_t, int>> created_;  ///< files that such opens gave
};

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 5) throw std::runtime_error("usage: stop_at N all|fs MODE COMMAND [ARG]...");
  return Tracer(parse(argv)).run(argv + 4);
} catch (const std::exception& e) {
  std::fprintf(stderr, "stop_at: %s\n", e.what());
  return kTrouble;
}
