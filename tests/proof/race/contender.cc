/// One of many that want the same lock.
///
///   contender library LOCK WORK SECTIONS SEED             through holdfast::Locker
///   contender tools LOCK WORK SECTIONS SEED LOCK_LOCAL    through the tool, for its own pid; now
///                                                         and then the tool is killed on its way
///   contender rmdirs LOCK                                 removes empty folders, until killed
///   contender cleans LOCK FAST_LOCK                       cleans without asking, until killed
///
/// Exit: 0 when SECTIONS are done; 3 after a line in WORK/violations; 4 for trouble.
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "policy/locker.h"
#include "proof/race/section.h"

extern char** environ;

namespace {

using holdfast::testing::Entry;

struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

int open_or_fail(const std::string& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC, 0666);
  if (fd < 0) fail(path);
  return fd;
}

/// The critical section.
class Section {
 public:
  Section(const std::string& work, std::mt19937& random)
      : inside_(work + "/inside"),
        self_(std::to_string(getpid()) + ":" +
              holdfast::testing::start_of(std::to_string(getpid())).value()),
        witness_(inside_ + "/" + self_),
        counter_(open_or_fail(work + "/counter", O_RDWR)),
        log_(open_or_fail(work + "/log/" + self_, O_WRONLY | O_CREAT | O_APPEND)),
        random_(random) {}

  void run() {
    close(open_or_fail(witness_, O_WRONLY | O_CREAT | O_EXCL));
    look_around();
    std::uint64_t value = 0;
    if (pread(counter_, &value, sizeof value, 0) != sizeof value) fail("read counter");
    log(Entry::begin, value);
    linger();
    const std::uint64_t next = value + 1;
    if (pwrite(counter_, &next, sizeof next, 0) != sizeof next) fail("write counter");
    if (unlink(witness_.c_str()) != 0) throw Violation("the witness of " + self_ + " was removed");
    log(Entry::end, value);
  }

  void log(Entry::Kind kind, std::uint64_t value = 0) {
    const Entry entry{kind, value};
    if (write(log_, &entry, sizeof entry) != sizeof entry) fail("write log");
  }

  const std::string& self() const { return self_; }

 private:
  /// A witness of the dead may go: whoever is inside now came after it. One of the living is a
  /// second holder.
  void look_around() {
    DIR* dir = opendir(inside_.c_str());
    if (!dir) fail(inside_);
    std::vector<std::string> others;
    while (const dirent* entry = readdir(dir)) {
      if (entry->d_name[0] != '.' && entry->d_name != self_) others.push_back(entry->d_name);
    }
    closedir(dir);
    for (const std::string& other : others) {
      if (holdfast::testing::is_living(other))
        throw Violation(self_ + " found " + other + " inside");
      unlink((inside_ + "/" + other).c_str());
    }
  }

  /// Mostly short; sometimes long enough for the others to try in vain, and to be killed in.
  void linger() {
    sched_yield();
    if (random_() % 32 == 0) usleep(random_() % 1500);
  }

  const std::string inside_;
  const std::string self_;
  const std::string witness_;
  const int counter_;
  const int log_;
  std::mt19937& random_;
};

void back_off(std::mt19937& random) {
  usleep(random() % 1000);
}

void contend_through_library(const std::string& lock, Section& section, long sections,
                             std::mt19937& random) {
  holdfast::Locker locker(lock);
  while (sections > 0) {
    if (auto guard = locker.try_lock()) {
      section.run();
      --sections;
      if (!guard->unlock()) throw Violation(section.self() + " lost its lock while inside");
      continue;
    }
    switch (locker.refusal().outcome) {
      case holdfast::lock::Outcome::contended:
        break;
      case holdfast::lock::Outcome::failed:
        section.log(Entry::failed_attempt);
        break;
      default:
        throw Violation(section.self() + " was told: " + locker.refusal().why);
    }
    back_off(random);
  }
}

/// A program without a voice: what it says of races lost and won is no news.
class Tool {
 public:
  explicit Tool(std::vector<std::string> words) {
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    errno = posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    if (errno != 0) fail(words[0]);
  }

  void kill() { ::kill(pid_, SIGKILL); }

  /// Its exit code; nothing if it was killed.
  std::optional<int> wait() {
    int status = 0;
    while (waitpid(pid_, &status, 0) < 0) {
      if (errno != EINTR) fail("waitpid");
    }
    return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
  }

 private:
  pid_t pid_ = -1;
};

/// Runs a tool. Nothing if it was killed on its way, which happens at random.
std::optional<int> run_tool(const std::vector<std::string>& words, std::mt19937& random) {
  Tool tool(words);
  if (random() % 8 == 0) {
    usleep(random() % 3000);
    tool.kill();
  }
  return tool.wait();
}

void contend_through_tools(const std::string& lock, Section& section, long sections,
                           const std::string& lock_local, std::mt19937& random) {
  const std::string pid = std::to_string(getpid());
  bool is_in_doubt = false;  // whether a killed tool got it
  while (sections > 0) {
    const auto code = run_tool({lock_local, "lock", lock, pid}, random);
    if (!code) {
      is_in_doubt = true;
      continue;
    }
    if (*code == 0 || (*code == 20 && is_in_doubt)) {
      is_in_doubt = false;
      section.run();
      --sections;
      std::optional<int> unlocked;
      bool was_killed = false;
      while (!(unlocked = run_tool({lock_local, "--strict", "unlock", lock, pid}, random)))
        was_killed = true;
      if (*unlocked != 0 && !was_killed)
        throw Violation(section.self() + " lost its lock while inside");
      continue;
    }
    if (*code == 2) section.log(Entry::failed_attempt);
    if (*code > 2) throw Violation(section.self() + " was told code " + std::to_string(*code));
    back_off(random);
  }
}

[[noreturn]] void remove_folders(const std::string& lock) {
  for (;;) {
    rmdir((lock + "/owner").c_str());
    rmdir((lock + "/build").c_str());
    rmdir(lock.c_str());
    usleep(20);
  }
}

[[noreturn]] void clean(const std::string& lock, const std::string& fast_lock) {
  for (;;) {
    const auto code = Tool({fast_lock, "--older-than", "0", "clean", lock}).wait();
    if (!code || *code > 1) throw std::runtime_error("clean failed");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || argc < 3) return 4;
  const std::string mode = argv[1];
  const std::string lock = argv[2];
  try {
    if (mode == "rmdirs") remove_folders(lock);
    if (mode == "cleans" && argc > 3) clean(lock, argv[3]);
    if (argc < 6) throw std::runtime_error("usage: contender MODE LOCK ...");
    const std::string work = argv[3];
    std::mt19937 random(static_cast<unsigned>(std::atol(argv[5])));
    Section section(work, random);
    try {
      if (mode == "library") contend_through_library(lock, section, std::atol(argv[4]), random);
      if (mode == "tools" && argc > 6)
        contend_through_tools(lock, section, std::atol(argv[4]), argv[6], random);
    } catch (const Violation& e) {
      const std::string line = std::string(e.what()) + "\n";
      const int file = open_or_fail(work + "/violations", O_WRONLY | O_CREAT | O_APPEND);
      return write(file, line.data(), line.size()) < 0 ? 4 : 3;
    }
  } catch (const std::exception& e) {
    std::fprintf(stderr, "contender %s: %s\n", mode.c_str(), e.what());
    return 4;
  }
  return 0;
}
