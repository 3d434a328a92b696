/// One of many on several hosts that want the same lock, until it is killed.
///
///   worker WORK NAME SEED LOCK TOOL...
///
/// TOOL is a lock_ssh with its options, ours or the shell's. Now and then a call of it is killed on
/// its way. In WORK:
///
///     witness      locked with flock(2) while somebody is inside: one kernel serves all hosts,
///                  and frees it when a holder dies, before that can be seen
///     holder       NAME of who was inside last
///     counter      a number, read and written back inside
///     log          a line "number NAME" for each completed section
///     violations   a line for each broken promise
#include <fcntl.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

extern char** environ;

namespace {

using Words = std::vector<std::string>;

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class File {
 public:
  File(const std::string& path, int flags)
      : fd_(open(path.c_str(), flags | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ < 0) fail(path);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() { close(fd_); }
  int fd() const { return fd_; }

  void write(const std::string& text) const {
    if (::write(fd_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) fail("write");
  }

 private:
  int fd_;
};

class Worker {
 public:
  Worker(std::string work, std::string name, unsigned seed, std::string lock, Words tool)
      : work_(std::move(work)),
        name_(std::move(name)),
        random_(seed),
        lock_(std::move(lock)),
        tool_(std::move(tool)) {}

  [[noreturn]] void run() {
    for (;;) {
      if (!try_lock()) {
        usleep(random_() % 100'000);
        continue;
      }
      section();
      unlock();
    }
  }

  void report(const std::string& violation) const {
    File(work_ + "/violations", O_WRONLY | O_APPEND).write(name_ + ": " + violation + "\n");
  }

 private:
  bool try_lock() {
    const auto code = call("lock");
    if (!code) {
      is_in_doubt_ = true;  // whether the killed call got it
      return false;
    }
    const bool is_mine = *code == 0 || (*code == 20 && is_in_doubt_);
    if (!is_mine && *code > 2) throw Violation("lock said " + std::to_string(*code));
    if (is_mine) is_in_doubt_ = false;
    return is_mine;
  }

  void section() {
    const File witness(work_ + "/witness", O_RDWR);
    if (flock(witness.fd(), LOCK_EX | LOCK_NB) != 0) throw Violation("somebody else is inside");
    File(work_ + "/holder", O_WRONLY | O_TRUNC).write(name_);
    const File counter(work_ + "/counter", O_RDWR);
    std::uint64_t value = 0;
    if (pread(counter.fd(), &value, sizeof value, 0) < 0) fail("read counter");
    usleep(random_() % 100'000);
    const std::uint64_t next = value + 1;
    if (pwrite(counter.fd(), &next, sizeof next, 0) != sizeof next) fail("write counter");
    File(work_ + "/log", O_WRONLY | O_APPEND).write(std::to_string(value) + " " + name_ + "\n");
  }

  /// The shell's unlock fails even when it succeeds: only that it is no longer ours can be asked of
  /// both.
  void unlock() {
    if (call("is_mine") == 1) throw Violation("lost its lock while inside");
    while (!call("unlock")) {
    }
    while (const auto code = call("is_mine")) {
      if (*code == 1) return;
    }
  }

  /// The exit code, or nothing if the call was killed on its way.
  std::optional<int> call(const std::string& action) {
    Words words = tool_;
    words.insert(words.end(), {action, lock_, std::to_string(getpid())});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    pid_t pid = -1;
    errno = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0) fail(words[0]);
    if (random_() % 16 == 0) {
      usleep(random_() % 5000);
      kill(pid, SIGKILL);
    }
    int status = 0;
    while (waitpid(pid, &status, 0) < 0) {
      if (errno != EINTR) fail("waitpid");
    }
    return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
  }

  const std::string work_;
  const std::string name_;
  std::mt19937 random_;
  const std::string lock_;
  const Words tool_;
  bool is_in_doubt_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 4;
  Worker worker(argv[1], argv[2], static_cast<unsigned>(std::atol(argv[3])), argv[4],
                Words(argv + 5, argv + argc));
  try {
    worker.run();
  } catch (const std::exception& e) {
    worker.report(e.what());
    for (;;) pause();  // whoever started it waits for a process, and kills it
  }
}
