#include "identity/command_id.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

namespace holdfast::identity {
namespace {

constexpr int kNotFound = 127;
constexpr int kCannotTell = 10;

/// Exit status as a shell would have it. No shell is involved: an id is one word, whatever is in
/// it.
int run(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  struct sigaction normal {
  }, inherited{};  // a parent that ignores SIGCHLD would hide the status from us
  normal.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &normal, &inherited);
  pid_t child = -1;
  int status = 0;
  pid_t waited = -1;
  if (posix_spawnp(&child, argv.front(), nullptr, nullptr, argv.data(), environ) == 0) {
    do {
      waited = waitpid(child, &status, 0);
    } while (waited < 0 && errno == EINTR);
  }
  sigaction(SIGCHLD, &inherited, nullptr);
  if (waited < 0) return kNotFound;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

Verdict CommandId::check(const Uid& id, const std::optional<Record>&) const {
  std::vector<std::string> words = words_;
  words.push_back(id.str());
  const int status = run(words);
  const Life life = status == 0 ? Life::dead : status < kCannotTell ? Life::alive : Life::unknown;
  return {life, words_.front() + " exited with " + std::to_string(status), false, true, status};
}

}  // namespace holdfast::identity
