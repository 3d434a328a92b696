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

struct Pipe {
  std::array<int, 2> ends{-1, -1};

  Pipe() { (void)pipe2(ends.data(), O_CLOEXEC); }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  void close_end(std::size_t end) {
    if (ends.at(end) >= 0) close(ends.at(end));
    ends.at(end) = -1;
  }
  /// What there is to read; empty and closed at the end.
  std::string read_some() {
    std::array<char, 65536> bytes{};
    const ssize_t got = read(ends[0], bytes.data(), bytes.size());
    if (got > 0) return {bytes.data(), static_cast<std::size_t>(got)};
    if (got == 0 || errno != EINTR) close_end(0);
    return {};
  }
};

pid_t spawn(const std::vector<std::string>& words, const Pipe& out, const Pipe& err) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, out.ends[1], 1);
  posix_spawn_file_actions_adddup2(&files, err.ends[1], 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t normal;
  sigemptyset(&normal);
  sigaddset(&normal, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &normal);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
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

/// Once its output has ended: until it is gone, too, whoever else may hold its stderr.
int reap(pid_t child, Pipe& err, std::string& errors) {
  int status = 0;
  for (bool is_gone = false; !is_gone || err.ends[0] >= 0;) {
    if (!is_gone && waitpid(child, &status, err.ends[0] >= 0 ? WNOHANG : 0) == child)
      is_gone = true;
    pollfd stream{err.ends[0], POLLIN, 0};
    if (err.ends[0] < 0) continue;
    const int ready = poll(&stream, 1, is_gone ? 0 : 5);
    if (ready > 0) errors += err.read_some();
    if (ready == 0 && is_gone) break;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& words, std::size_t longest,
                   const std::function<void(std::string_view)>& on_output,
                   const std::function<bool()>& is_seen) {
  constexpr int kAskAgain = 20;  // ms
  ChildEnd end;
  Pipe out;
  Pipe err;
  const pid_t child = spawn(words, out, err);
  if (child < 0) return end;
  end.is_started = true;
  out.close_end(1);
  err.close_end(1);
  std::size_t taken = 0;
  bool was_seen = false;
  while (out.ends[0] >= 0 && !end.is_too_long) {
    std::array<pollfd, 2> streams{pollfd{out.ends[0], POLLIN, 0}, pollfd{err.ends[0], POLLIN, 0}};
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
