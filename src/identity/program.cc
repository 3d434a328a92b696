#include "identity/program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

namespace holdfast::identity {
namespace {

constexpr int kNotFound = 127;
constexpr std::size_t kLongestOutput = 64 << 10;  ///< of an id helper; the rest is dropped

/// Normal treatment of SIGCHLD while it lives: a parent that ignores it would hide the status of a
/// child from us.
class ChildrenCount {
 public:
  ChildrenCount() {
    struct sigaction normal {};
    normal.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &normal, &inherited_);
  }
  ChildrenCount(const ChildrenCount&) = delete;
  ChildrenCount& operator=(const ChildrenCount&) = delete;
  ~ChildrenCount() { sigaction(SIGCHLD, &inherited_, nullptr); }

 private:
  struct sigaction inherited_ {};
};

/// What to do with the streams of a child before it starts.
class Streams {
 public:
  Streams() { posix_spawn_file_actions_init(&actions_); }
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;
  ~Streams() { posix_spawn_file_actions_destroy(&actions_); }

  void send_output_to(int fd) { posix_spawn_file_actions_adddup2(&actions_, fd, STDOUT_FILENO); }
  void drop_errors() {
    posix_spawn_file_actions_addopen(&actions_, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  const posix_spawn_file_actions_t* get() const { return &actions_; }

 private:
  posix_spawn_file_actions_t actions_{};
};

/// -1 if it could not be started.
pid_t start(const std::vector<std::string>& words, const Streams& streams) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  const int failed =
      posix_spawnp(&child, argv.front(), streams.get(), nullptr, argv.data(), environ);
  return failed ? -1 : child;
}

int wait_for(pid_t child) {
  int status = 0;
  pid_t waited = -1;
  do {
    waited = waitpid(child, &status, 0);
  } while (waited < 0 && errno == EINTR);
  if (waited < 0) return kNotFound;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string read_to_end(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (ssize_t got = 0; (got = read(fd, buffer.data(), buffer.size())) != 0;) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) break;
    if (text.size() < kLongestOutput) text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  text.erase(text.find_last_not_of('\n') + 1);
  return text;
}

}  // namespace

Ran run_program(const std::vector<std::string>& words, Output output) {
  const ChildrenCount children_count;
  Streams streams;
  std::array<int, 2> pipe{-1, -1};
  const bool is_captured = output == Output::captured || output == Output::captured_quietly;
  if (is_captured && pipe2(pipe.data(), O_CLOEXEC) != 0) return {kNotFound};
  if (is_captured) streams.send_output_to(pipe[1]);
  if (output == Output::captured_quietly) streams.drop_errors();
  if (output == Output::to_stderr) streams.send_output_to(STDERR_FILENO);
  const pid_t child = start(words, streams);
  Ran ran{kNotFound};
  if (is_captured) {
    close(pipe[1]);
    if (child >= 0) ran.output = read_to_end(pipe[0]);
    close(pipe[0]);
  }
  if (child >= 0) ran.status = wait_for(child);
  return ran;
}

}  // namespace holdfast::identity
