#include "support/process.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

namespace holdfast::testing {
namespace {

bool is_file(const std::string& path) {
  return access(path.c_str(), X_OK) == 0;
}

/// Never returns. Streams: -1 keeps ours.
[[noreturn]] void execute(const std::vector<std::string>& words, const RunOptions& options, int in,
                          int out, int err) {
  for (const auto& [stream, fd] : {std::pair{0, in}, {1, out}, {2, err}}) {
    if (fd >= 0) dup2(fd, stream);
  }
  close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // a runner's own descriptors are not the tool's
  if (!options.cwd.empty() && chdir(options.cwd.c_str()) != 0) _exit(126);
  unsetenv("DEBUG");
  unsetenv("GRACE_SECONDS");
  unsetenv("USER");
  unsetenv("LOGNAME");
  setenv("LC_ALL", "C", 1);
  for (const auto& [name, value] : options.env) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  signal(SIGPIPE, SIG_DFL);
  execvp(argv[0], argv.data());
  _exit(127);
}

/// With a tool's name made the path of the one that was built. Before the fork: it may throw.
std::vector<std::string> resolve(std::vector<std::string> words) {
  const bool is_name = words[0].find('/') == std::string::npos;
  if (is_name && is_file(tool(words[0]))) words[0] = tool(words[0]);
  return words;
}

int status_of(int raw) {
  return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
}

}  // namespace

const bool kIsSanitized = [] {
  const char* word = std::getenv("HOLDFAST_IS_SANITIZED");
  return word && word == std::string_view("1");
}();

std::string build_dir() {
  const char* folder = std::getenv("HOLDFAST_BUILD");
  if (!folder) throw std::runtime_error("HOLDFAST_BUILD is not set: run the tests through ctest");
  return folder;
}
std::string source_dir() {
  return HOLDFAST_SOURCE;
}
std::string tool(const std::string& name) {
  return build_dir() + "/bin/" + name;
}
std::string helper(const std::string& name) {
  return build_dir() + "/tests/bin/" + name;
}

namespace {
std::string skip_reason;
}

void say_skipped(const std::string& reason) {
  skip_reason = reason;
  std::cout << "SKIPPED: " << reason << std::endl;
}

std::string take_skip_reason() {
  return std::exchange(skip_reason, {});
}

Result run(const std::vector<std::string>& given, const RunOptions& options) {
  const std::vector<std::string> words = resolve(given);
  int in[2], out[2], err[2];
  if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
    throw std::runtime_error("pipe");
  const pid_t child = fork();
  if (child == 0) execute(words, options, in[0], out[1], err[1]);
  close(in[0]);
  close(out[1]);
  close(err[1]);
  if (!options.input.empty() &&
      write(in[1], options.input.data(), options.input.size()) < 0) { /* it did not read */
  }
  close(in[1]);

  Result result;
  const auto end = std::chrono::steady_clock::now() + options.limit;
  std::array<pollfd, 2> streams{pollfd{out[0], POLLIN, 0}, pollfd{err[0], POLLIN, 0}};
  std::array<std::string*, 2> texts{&result.out, &result.err};
  int open = 2;
  while (open > 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        end - std::chrono::steady_clock::now());
    if (left.count() <= 0 ||
        poll(streams.data(), streams.size(), static_cast<int>(left.count())) == 0) {
      kill(child, SIGKILL);
      break;
    }
    for (std::size_t i = 0; i < streams.size(); ++i) {
      if (streams[i].fd < 0 || !(streams[i].revents & (POLLIN | POLLHUP))) continue;
      char buffer[4096];
      const ssize_t got = read(streams[i].fd, buffer, sizeof buffer);
      if (got > 0) {
        texts[i]->append(buffer, static_cast<std::size_t>(got));
      } else {
        streams[i].fd = -1;
        --open;
      }
    }
  }
  int raw = 0;
  while (waitpid(child, &raw, 0) < 0 && errno == EINTR) {
  }
  close(out[0]);
  close(err[0]);
  result.code = status_of(raw);
  return result;
}

Result shell(const std::string& script, const RunOptions& options) {
  RunOptions with_path = options;
  const char* path = std::getenv("PATH");
  with_path.env["PATH"] = build_dir() + "/bin:" + (path ? path : "/bin:/usr/bin");
  return run({"/bin/bash", "-c", script}, with_path);
}

Process::Process(const std::vector<std::string>& given, const RunOptions& options) {
  const std::vector<std::string> words = resolve(given);
  // Returns when the program runs, not when it is about to: its name and start time are its own
  // from here on.
  int ready[2];
  if (pipe2(ready, O_CLOEXEC)) throw std::runtime_error("pipe");
  pid_ = fork();
  if (pid_ == 0) execute(words, options, open("/dev/null", O_RDONLY | O_CLOEXEC), -1, -1);
  close(ready[1]);
  char nothing;
  while (read(ready[0], &nothing, 1) < 0 && errno == EINTR) {
  }
  close(ready[0]);
}

Process::~Process() {
  kill_and_wait();
}

void Process::signal(int number) const {
  ::kill(pid_, number);
}

int Process::wait() {
  int raw = 0;
  while (waitpid(pid_, &raw, 0) < 0 && errno == EINTR) {
  }
  is_running_ = false;
  return status_of(raw);
}

void Process::kill_and_wait() {
  if (!is_running_) return;
  ::kill(pid_, SIGKILL);
  wait();
}

bool eventually(const std::function<bool()>& is_so, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

bool is_root() {
  return geteuid() == 0;
}

bool has_program(const std::string& name) {
  return run({"/bin/sh", "-c", "command -v " + name}).code == 0;
}

}  // namespace holdfast::testing
