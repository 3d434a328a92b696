#include "identity/program.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <csignal>
#include <string_view>

#include "disk/handle.h"

namespace holdfast::identity {
namespace {

using disk::Handle;

/// Both ends close on exec and are above the standard streams.
struct Pipe {
  Handle read, write;

  Pipe() {
    std::array<int, 2> ends{-1, -1};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    for (int& end : ends) {
      if (end > STDERR_FILENO) continue;
      const int high = fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
      close(end);
      end = high;
    }
    read = Handle(ends[0]);
    write = Handle(ends[1]);
  }
};

/// The signals that would get in the way while a child runs, as they were before afterwards. A
/// parent that ignores SIGCHLD would hide its status from us; a program that reads no input would
/// kill us.
class Signals {
 public:
  Signals() {
    struct sigaction action {};
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &child_);
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &pipe_);
  }
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals() {
    sigaction(SIGCHLD, &child_, nullptr);
    sigaction(SIGPIPE, &pipe_, nullptr);
  }

 private:
  struct sigaction child_ {};
  struct sigaction pipe_ {};
};

/// Feeds and drains at once: neither side may wait for the other for ever.
void exchange(Handle to, std::string_view input, Handle from, std::string& output) {
  if (to.is_open()) fcntl(to.fd(), F_SETFL, O_NONBLOCK);
  for (;;) {
    if (to.is_open() && input.empty()) to = Handle();
    if (!to.is_open() && !from.is_open()) return;
    std::array<pollfd, 2> ends{
        {{from.is_open() ? from.fd() : -1, POLLIN, 0}, {to.is_open() ? to.fd() : -1, POLLOUT, 0}}};
    if (poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    if (to.is_open() && ends[1].revents != 0) {
      const ssize_t n = write(to.fd(), input.data(), std::min<std::size_t>(input.size(), PIPE_BUF));
      if (n > 0) input.remove_prefix(static_cast<std::size_t>(n));
      if (n < 0 && errno != EAGAIN && errno != EINTR) to = Handle();  // it wants no more
    }
    if (from.is_open() && ends[0].revents != 0) {
      std::array<char, 4096> part;
      const ssize_t n = read(from.fd(), part.data(), part.size());
      if (n == 0 || (n < 0 && errno != EINTR)) from = Handle();
      if (n > 0) output.append(part.data(), static_cast<std::size_t>(n));
    }
  }
}

int status_of(pid_t child) {
  int status = 0;
  pid_t waited = -1;
  do {
    waited = waitpid(child, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited < 0) return Ran{}.status;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Ran run_program(const std::vector<std::string>& words, Output output,
                const std::optional<std::string>& input) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const Signals signals;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  std::optional<Pipe> in;
  std::optional<Pipe> out;
  if (input) {
    in.emplace();
    posix_spawn_file_actions_adddup2(&actions, in->read.fd(), STDIN_FILENO);
  }
  if (output == Output::captured || output == Output::captured_quietly) {
    out.emplace();
    posix_spawn_file_actions_adddup2(&actions, out->write.fd(), STDOUT_FILENO);
  }
  if (output == Output::captured_quietly) {
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  if (output == Output::to_stderr) {
    posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t reset;
  sigemptyset(&reset);
  sigaddset(&reset, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &reset);
  sigset_t none;  // who waits keeps signals away from itself, not from those it starts
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t child = -1;
  const int error = posix_spawnp(&child, argv.front(), &actions, &attributes, argv.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return {};
  Ran ran;
  if (in || out) {
    if (in) in->read = Handle();
    if (out) out->write = Handle();
    exchange(in ? std::move(in->write) : Handle(), input.value_or(""),
             out ? std::move(out->read) : Handle(), ran.output);
  }
  ran.output.erase(ran.output.find_last_not_of('\n') + 1);
  ran.status = status_of(child);
  return ran;
}

std::string beside_us(const std::string& name) {
  std::array<char, PATH_MAX> self{};
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  const std::string path(self.data(), length > 0 ? static_cast<std::size_t>(length) : 0);
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? name : path.substr(0, slash + 1) + name;
}

}  // namespace holdfast::identity
