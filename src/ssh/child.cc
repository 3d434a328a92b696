#include "ssh/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

namespace holdfast::ssh {
namespace {

constexpr std::size_t kLongestErrors = 16384;
constexpr int kEndedBySignal = 255;

struct Pipe {
  int from = -1;
  int to = -1;

  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) return;
    from = ends[0];
    to = ends[1];
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(from);
    close_end(to);
  }
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }
  bool is_open() const { return from >= 0; }
  /// What there is to read; empty and closed at the end.
  std::string read_some() {
    std::array<char, 65536> bytes{};
    const ssize_t got = read(from, bytes.data(), bytes.size());
    if (got > 0) return {bytes.data(), static_cast<std::size_t>(got)};
    if (got == 0 || errno != EINTR) close_end(from);
    return {};
  }
};

pid_t spawn(const std::vector<std::string>& words, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.to, 1);
  posix_spawn_file_actions_adddup2(&files, err.to, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t normal;
  sigemptyset(&normal);
  sigaddset(&normal, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &normal);
  sigset_t none;  // the tools block some signals: see cli::run_tool
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  if (posix_spawnp(&child, argv.front(), &files, &attributes, argv.data(), environ) != 0)
    child = -1;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return child;
}

/// Once its output has ended: its exit status, and the rest of its stderr, for which it is not
/// waited longer, since others may hold it open.
int reap(pid_t child, Pipe& err, std::string& errors) {
  constexpr int kLookAgain = 5;  // ms
  int status = 0;
  bool is_gone = false;
  while (!is_gone) {
    const pid_t seen = waitpid(child, &status, err.is_open() ? WNOHANG : 0);
    is_gone = seen == child || (seen < 0 && errno != EINTR);
    pollfd stream{err.from, POLLIN, 0};
    while (err.is_open() && poll(&stream, 1, is_gone ? 0 : kLookAgain) > 0) {
      errors += err.read_some();
      errors.resize(std::min(errors.size(), kLongestErrors));
    }
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kEndedBySignal;
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& words, std::size_t longest,
                   const std::function<void(std::string_view)>& on_output,
                   const std::function<bool()>& is_seen) {
  constexpr int kAskAgain = 20;  // ms
  ChildEnd end;
  Pipe out;
  Pipe err;
  const pid_t child = out.is_open() && err.is_open() ? spawn(words, out, err) : -1;
  if (child < 0) return end;
  end.is_started = true;
  Pipe::close_end(out.to);
  Pipe::close_end(err.to);
  std::size_t taken = 0;
  bool was_seen = false;
  while (out.is_open() && !end.is_too_long) {
    std::array<pollfd, 2> streams{pollfd{out.from, POLLIN, 0}, pollfd{err.from, POLLIN, 0}};
    was_seen = was_seen || is_seen();
    if (poll(streams.data(), streams.size(), was_seen ? -1 : kAskAgain) <= 0) continue;
    if (streams[1].revents != 0) {
      end.errors += err.read_some();
      end.errors.resize(std::min(end.errors.size(), kLongestErrors));
    }
    if (streams[0].revents == 0) continue;
    const std::string text = out.read_some();
    on_output(std::string_view(text).substr(0, std::min(text.size(), longest - taken)));
    end.is_too_long = text.size() > longest - taken;
    taken += text.size();
  }
  if (end.is_too_long) kill(child, SIGKILL);
  end.status = reap(child, err, end.errors);
  return end;
}

}  // namespace holdfast::ssh
