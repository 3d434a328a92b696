/// Workers in pid namespaces of their own, as containers have them, beside workers without one.
/// Those that start together are all process 1 of the same clock tick, so they have the same id.
/// Holders, waiters and cleaners are killed and stopped at random; see worker for the witness.
/// For a minute, or for $HOLDFAST_RACE_SECONDS. A container that was killed proves its death only
/// to root outside of all containers, so this needs to be there.

#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <csignal>
#include <fstream>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "support/process.h"
#include "support/race_length.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
using namespace std::chrono_literals;
using std::chrono::steady_clock;
namespace bfs = boost::filesystem;

namespace {

constexpr const char* kKinds[] = {"plain", "fair", "rw", "slots"};
constexpr int kContainersEach = 3;

std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// In the child: a procfs of its own pid namespace, then the worker.
[[noreturn]] void become_worker(const std::string& script, const char* kind, bool is_contained) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setpgid(0, 0);
  if (is_contained && (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
                       mount("proc", "/proc", "proc", 0, nullptr) != 0)) {
    _exit(99);
  }
  execl(script.c_str(), "worker", kind, nullptr);
  _exit(98);
}

class Crowd {
 public:
  Crowd() {
    setenv("DIR", dir_.path().c_str(), 1);
    setenv("PATH", (build_dir() + "/bin:" + getenv("PATH")).c_str(), 1);
  }
  ~Crowd() {
    while (!workers_.empty()) end(workers_.begin()->first);
  }

  /// All in one clock tick, if the machine is quick enough.
  void start_all() {
    for (const char* kind : kKinds) {
      start(kind, false);
      for (int i = 0; i < kContainersEach; ++i) start(kind, true);
    }
  }

  void rage(std::chrono::seconds length) {
    const auto end_of_it = steady_clock::now() + length;
    while (steady_clock::now() < end_of_it && violations().empty()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(below(40)));
      if (below(25) == 0) {
        restart_kind(kKinds[below(4)]);
      } else {
        stop_somebody();
      }
    }
  }

  /// Nobody is left who could hold: each lock must be had by somebody new.
  void settle() {
    while (!workers_.empty()) end(workers_.begin()->first);
    Process heir(kSleeper);
    for (const char* kind : {"plain", "fair", "rw"}) {
      CAPTURE(kind);
      CHECK(run({"lock_local", "lock", dir_ / kind, heir.pid_text()}).code == 0);
    }
    CHECK(run({"semaphore", "-l", "acquire", dir_ / "slots", "1", heir.pid_text()}).code == 0);
  }

  void judge() const {
    std::map<std::string, int> holds;
    for (const std::string& kind : lines_of(dir_ / "holds")) ++holds[kind];
    std::set<std::string> different;
    const auto ids = lines_of(dir_ / "ids");
    different.insert(ids.begin(), ids.end());
    const std::size_t twins = ids.size() - different.size();
    std::cout << "holds:";
    for (const auto& [kind, count] : holds) std::cout << " " << kind << " " << count;
    std::cout << "; " << ids.size() << " workers, " << twins << " with the id of another, "
              << killed_ << " killed, " << stopped_ << " stops\n";
    CHECK(violations() == "");
    for (const char* kind : kKinds) {
      CAPTURE(kind);
      CHECK(holds[kind] > 20);
    }
    CHECK(twins > 5);
    CHECK(killed_ > 5);
    CHECK(stopped_ > 50);
  }

 private:
  std::string violations() const { return read_file(dir_ / "violations"); }
  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random_); }

  void start(const char* kind, bool is_contained) {
    const std::string script = source_dir() + "/tests/proof/containers/worker";
    const unsigned long flags = SIGCHLD | (is_contained ? CLONE_NEWPID | CLONE_NEWNS : 0);
    const auto pid = static_cast<pid_t>(syscall(SYS_clone, flags, 0, 0, 0, 0));  // a fork otherwise
    if (pid == 0) become_worker(script, kind, is_contained);
    if (pid < 0) throw std::runtime_error("cannot start a worker");
    workers_[pid] = {kind, is_contained};
  }

  void end(pid_t worker) {
    ::kill(-worker, SIGKILL);
    ::kill(worker, SIGKILL);
    waitpid(worker, nullptr, 0);
    workers_.erase(worker);
    ++killed_;
  }

  /// Containers that start again together have the same id once more.
  void restart_kind(const std::string& kind) {
    std::vector<std::pair<pid_t, Worker>> of_kind;
    for (const auto& [pid, worker] : workers_) {
      if (worker.kind == kind) of_kind.emplace_back(pid, worker);
    }
    const std::size_t count = 1 + static_cast<std::size_t>(below(static_cast<int>(of_kind.size())));
    for (std::size_t i = 0; i < count; ++i) end(of_kind[i].first);
    for (std::size_t i = 0; i < count; ++i)
      start(of_kind[i].second.kind, of_kind[i].second.is_contained);
  }

  /// A worker, or a tool that it runs.
  void stop_somebody() {
    auto worker = workers_.begin();
    std::advance(worker, below(static_cast<int>(workers_.size())));
    pid_t victim = worker->first;
    const std::string pid = std::to_string(victim);
    std::istringstream children(read_file("/proc/" + pid + "/task/" + pid + "/children"));
    pid_t child = 0;
    if (below(4) != 0 && children >> child) victim = child;
    if (::kill(victim, SIGSTOP) != 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(below(60)));
    ::kill(victim, SIGCONT);
    ++stopped_;
  }

  struct Worker {
    const char* kind;
    bool is_contained;
  };

  TempDir dir_;
  std::map<pid_t, Worker> workers_;
  std::mt19937 random_{std::random_device{}()};
  int killed_ = 0;
  int stopped_ = 0;
};

bool can_have_containers() {
  return is_root() && bfs::read_symlink("/proc/self/ns/pid") == "pid:[4026531836]" &&
         run({"unshare", "--pid", "--fork", "--mount-proc", "true"}).code == 0;
}

}  // namespace

TEST_CASE("containers with the same ids never hold a lock together, whoever is killed or stopped",
          "[containers]") {
  if (!can_have_containers()) SKIP_TEST("needs root outside of all pid namespaces");
  Crowd crowd;
  crowd.start_all();
  crowd.rage(race_length());
  crowd.settle();
  crowd.judge();
}
