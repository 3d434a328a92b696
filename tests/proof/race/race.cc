#include "race.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstring>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "section.h"
#include "support/process.h"
#include "support/temp_dir.h"

extern char** environ;

namespace holdfast::testing {

namespace bfs = boost::filesystem;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// A dead holder that nobody recovers stops everything; a busy machine does not for that long.
constexpr std::chrono::seconds kLongestPause{20};

pid_t spawn(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t pid = -1;
  if (posix_spawn(&pid, argv[0], nullptr, nullptr, argv.data(), environ) != 0)
    throw std::runtime_error("cannot start " + words[0]);
  return pid;
}

std::vector<std::string> names_in(const std::string& path) {
  std::vector<std::string> names;
  boost::system::error_code ec;
  for (bfs::directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    names.push_back(it->path().filename().native());
  }
  return names;
}

std::vector<Entry> read_log(const std::string& path) {
  const std::string bytes = read_file(path);
  std::vector<Entry> entries(bytes.size() / sizeof(Entry));
  if (!entries.empty()) std::memcpy(entries.data(), bytes.data(), entries.size() * sizeof(Entry));
  return entries;
}

class Supervisor {
 public:
  Supervisor(const std::string& dir, const Plan& plan)
      : plan_(plan), lock_(dir + "/lock"), work_(dir + "/work") {
    // what a killed contender had started becomes a child of ours: so its end can be waited for
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    for (const char* name : {"", "/inside", "/log"}) bfs::create_directory(work_ + name);
    write_file(work_ + "/counter", std::string(sizeof(std::uint64_t), '\0'));
    const int all = plan.library_contenders + plan.tool_contenders;
    for (int i = 0; i < all; ++i) {
      const bool by_tool = i >= plan.library_contenders;
      const int among = by_tool ? plan.tool_contenders : plan.library_contenders;
      const int rank = by_tool ? i - plan.library_contenders : i;
      const long total = by_tool ? plan.tool_sections : plan.sections;
      slots_.push_back({by_tool, total / among + (rank < total % among ? 1 : 0), -1, {}});
    }
  }
  ~Supervisor() {
    end_all();
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  Findings run() {
    if (plan_.has_remover) helpers_.push_back(spawn({helper("contender"), "rmdirs", lock_}));
    if (plan_.has_cleaner)
      helpers_.push_back(spawn({helper("contender"), "cleans", lock_, tool("fast_lock")}));
    for (Slot& slot : slots_) start(slot);
    contend();
    end_all();
    count_sections();
    found_.violations += read_file(work_ + "/violations");
    const Result cleaned = run_clean();
    found_.left = tree(lock_);
    if (cleaned.code != 0 || bfs::exists(lock_)) found_.left.push_back("the lock itself");
    return found_;
  }

 private:
  struct Slot {
    bool by_tool;
    long left;  ///< sections still to be done
    pid_t pid;
    std::string name;  ///< of its witness and its log
  };

  Result run_clean() const {
    return holdfast::testing::run({"lock_local", "--older-than", "0", "clean", lock_});
  }

  void start(Slot& slot) {
    std::vector<std::string> words = {
        helper("contender"),       slot.by_tool ? "tools" : "library", lock_, work_,
        std::to_string(slot.left), std::to_string(random_())};
    if (slot.by_tool) words.push_back(tool("lock_local"));
    slot.pid = spawn(words);
    slot.name = std::to_string(slot.pid);
    slot.name += ":" + start_of(slot.name).value_or("?");
  }

  void contend() {
    const auto begin = Clock::now();
    auto last_progress = begin;
    auto next_kill = begin + milliseconds(30);
    std::uintmax_t seen = 0;
    while (is_busy() && found_.violations.empty() && !bfs::exists(work_ + "/violations")) {
      const auto now = Clock::now();
      if (now >= next_kill) {
        kill_one();
        next_kill = now + milliseconds(5 + random_() % 40);
      }
      reap();
      const std::uintmax_t done = progress();
      if (done != seen || !is_busy()) {
        found_.longest_pause = std::max(
            found_.longest_pause, std::chrono::duration_cast<milliseconds>(now - last_progress));
        seen = done;
        last_progress = now;
      }
      if (now - last_progress > kLongestPause) say("nobody got in for too long");
      if (now - begin > plan_.limit) say("out of time");
      std::this_thread::sleep_for(milliseconds(2));
    }
  }

  bool is_busy() const {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot& s) { return s.pid > 0; });
  }

  void say(const std::string& what) { found_.violations += what + "\n"; }

  std::uintmax_t progress() const {
    std::uintmax_t bytes = done_bytes_;
    for (const Slot& slot : slots_) {
      struct stat st {};
      if (slot.pid > 0 && stat((work_ + "/log/" + slot.name).c_str(), &st) == 0)
        bytes += static_cast<std::uintmax_t>(st.st_size);
    }
    return bytes;
  }

  /// Stops one contender after the other, looks whether it holds, and lets it go on if not: holders
  /// are what the killer is after, and stopped ones must keep their lock. Now and then it takes
  /// somebody else.
  void kill_one() {
    constexpr int kTries = 6;
    for (int tries = 0; tries < kTries; ++tries) {
      Slot& slot = slots_[random_() % slots_.size()];
      if (slot.pid <= 0) continue;
      kill(slot.pid, SIGSTOP);
      int status = 0;
      if (waitpid(slot.pid, &status, WUNTRACED) != slot.pid) continue;
      if (!WIFSTOPPED(status)) {
        ended(slot, status);
        continue;
      }
      const bool holds = is_holder(slot);
      const bool is_chosen = holds || random_() % 16 == 0;
      kill(slot.pid, is_chosen ? SIGKILL : SIGCONT);
      found_.killed_holders += holds;
      if (is_chosen) return;
    }
  }

  bool is_holder(const Slot& slot) const {
    const auto owners = names_in(lock_ + "/owner");
    return std::any_of(owners.begin(), owners.end(), [&](const std::string& owner) {
      return owner.starts_with(std::to_string(slot.pid) + ":");
    });
  }

  void reap() {
    for (Slot& slot : slots_) {
      int status = 0;
      if (slot.pid > 0 && waitpid(slot.pid, &status, WNOHANG) == slot.pid) ended(slot, status);
    }
  }

  void ended(Slot& slot, int status) {
    const bool was_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (was_killed) ++found_.killed;
    const auto entries = read_log(work_ + "/log/" + slot.name);
    done_bytes_ += entries.size() * sizeof(Entry);
    for (const Entry& entry : entries) slot.left -= entry.kind == Entry::end;
    slot.pid = -1;
    if (was_killed) {
      if (slot.left > 0) start(slot);
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || slot.left != 0) {
      say("contender " + slot.name + " ended with status " + std::to_string(status) + ", " +
          std::to_string(slot.left) + " sections too early");
    }
  }

  void end_all() {
    for (Slot& slot : slots_) {
      if (slot.pid > 0) kill(slot.pid, SIGKILL);
    }
    for (const pid_t pid : helpers_) kill(pid, SIGKILL);
    // theirs too: tools that were just running end by themselves
    const bool all_ended = eventually([] {
      pid_t pid = 0;
      do pid = waitpid(-1, nullptr, WNOHANG);
      while (pid > 0);
      return pid < 0 && errno == ECHILD;
    });
    if (!all_ended) say("a tool does not end");
    for (Slot& slot : slots_) slot.pid = -1;
    helpers_.clear();
  }

  /// Each number the counter went through belongs to exactly one completed section, or to none and
  /// to one that was killed after it wrote: nothing else can have been lost or done twice.
  void count_sections() {
    std::map<std::uint64_t, int> completed;
    std::set<std::uint64_t> cut_short;
    for (const std::string& name : names_in(work_ + "/log")) {
      const auto entries = read_log(work_ + "/log/" + name);
      for (std::size_t i = 0; i < entries.size(); ++i) {
        const Entry& entry = entries[i];
        if (entry.kind == Entry::failed_attempt) ++found_.failed_attempts;
        if (entry.kind == Entry::end) ++completed[entry.counter];
        const bool is_last = i + 1 == entries.size();
        if (entry.kind == Entry::begin && is_last) cut_short.insert(entry.counter);
        if (entry.kind == Entry::begin && !is_last && entries[i + 1].kind != Entry::end)
          say(name + " began a section inside another");
      }
    }
    std::uint64_t counter = 0;
    const std::string bytes = read_file(work_ + "/counter");
    if (bytes.size() == sizeof counter) std::memcpy(&counter, bytes.data(), sizeof counter);
    for (const auto& [value, times] : completed) {
      found_.completed += times;
      if (times != 1) say(std::to_string(times) + " sections began with " + std::to_string(value));
      if (value >= counter) say("the counter went back below " + std::to_string(value));
    }
    for (std::uint64_t value = 0; value < counter; ++value) {
      if (!completed.contains(value) && !cut_short.contains(value))
        say("nobody counted from " + std::to_string(value));
    }
  }

  const Plan plan_;
  const std::string lock_;
  const std::string work_;
  std::vector<Slot> slots_;
  std::vector<pid_t> helpers_;
  std::uintmax_t done_bytes_ = 0;
  std::mt19937 random_{std::random_device{}()};
  Findings found_;
};

}  // namespace

Findings race(const std::string& dir, const Plan& plan) {
  return Supervisor(dir, plan).run();
}

void race_and_check(const std::string& name, const std::string& dir, const Plan& plan) {
  const auto begin = Clock::now();
  const Findings found = race(dir, plan);
  std::cout << name << ": " << found.completed << " sections in "
            << std::chrono::duration_cast<milliseconds>(Clock::now() - begin).count() << " ms, "
            << found.killed << " contenders killed, " << found.killed_holders
            << " of them holders, longest pause " << found.longest_pause.count() << " ms, "
            << found.failed_attempts << " failed attempts" << std::endl;
  CHECK(found.violations == "");
  CHECK(found.completed == plan.sections + plan.tool_sections);
  CHECK(found.killed_holders >= 10);
  CHECK(found.left == std::vector<std::string>{});
}

}  // namespace holdfast::testing
