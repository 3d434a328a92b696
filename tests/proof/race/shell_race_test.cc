/// Shell scripts and our tools fight for one lock, and holders are killed all the while.
#include <sys/prctl.h>
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
using namespace std::chrono_literals;

namespace {

constexpr int kOfEachKind = 3;
constexpr int kMostSections = 1500;
constexpr auto kLongest = 20s;

/// The contenders, and the processes that those who were killed left behind.
class Fight {
 public:
  explicit Fight(const std::string& peer) {
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    write_file(folder_ / "book", "");
    for (int i = 0; i < kOfEachKind; ++i) {
      lockers_.push_back(tool("lock_local"));
      lockers_.push_back(peer);
    }
    for (const std::string& locker : lockers_) contenders_.push_back(start(locker));
  }
  Fight(const Fight&) = delete;
  Fight& operator=(const Fight&) = delete;
  ~Fight() {
    contenders_.clear();
    eventually([&] { return !reap(); });
    prctl(PR_SET_CHILD_SUBREAPER, 0);
  }

  std::string lock() const { return folder_ / "lock"; }
  std::string violations() const { return read_file(folder_ / "violations"); }
  const std::set<pid_t>& killed() const { return killed_; }

  /// Words of each line of the book.
  std::vector<std::vector<std::string>> book() const {
    std::vector<std::vector<std::string>> lines;
    std::istringstream text(read_file(folder_ / "book"));
    for (std::string line; std::getline(text, line);) {
      std::istringstream words(line);
      lines.emplace_back(std::istream_iterator<std::string>(words),
                         std::istream_iterator<std::string>());
    }
    return lines;
  }

  int sections() const {
    const auto lines = book();
    return lines.empty() ? 0 : std::stoi(lines.back().at(1));
  }

  /// Whoever holds the lock, if it is one of ours, else anybody.
  void kill_holder(std::size_t anybody) {
    const auto owners = tree(lock() + "/owner");
    for (std::size_t i = 0; i < contenders_.size() && !owners.empty(); ++i) {
      if (owners[0].starts_with(contenders_[i]->pid_text() + ":")) return kill(i);
    }
    kill(anybody % contenders_.size());
  }

  void kill(std::size_t i) {
    killed_.insert(contenders_[i]->pid());
    contenders_[i]->kill_and_wait();
    contenders_[i] = start(lockers_[i]);
    reap();
  }

  /// All leave by themselves, the left-behind too. False if somebody does not.
  bool stop() {
    write_file(folder_ / "stop", "");
    for (const auto& contender : contenders_) {
      if (contender->wait() != 0) return false;
    }
    return eventually([&] { return !reap(); });
  }

 private:
  std::unique_ptr<Process> start(const std::string& locker) const {
    return std::make_unique<Process>(std::vector<std::string>{
        source_dir() + "/tests/proof/race/shell_contender", locker, lock(), folder_.path()});
  }

  /// Collects orphans that are over. True while there are children, contenders included.
  bool reap() const {
    for (;;) {
      siginfo_t over{};
      if (waitid(P_ALL, 0, &over, WEXITED | WNOHANG | WNOWAIT) != 0) return false;
      const bool is_contender = std::any_of(contenders_.begin(), contenders_.end(),
                                            [&](const auto& c) { return c->pid() == over.si_pid; });
      if (over.si_pid == 0 || is_contender) return true;
      waitpid(over.si_pid, nullptr, 0);
    }
  }

  TempDir folder_;
  std::vector<std::string> lockers_;
  std::vector<std::unique_ptr<Process>> contenders_;
  std::set<pid_t> killed_;
};

/// Sections follow each other one by one, and only the killed did not leave theirs.
void check_book(const Fight& fight) {
  int number = 0;
  pid_t inside = 0;
  for (const auto& line : fight.book()) {
    REQUIRE(line.size() == 4);
    const bool is_enter = line[0] == "enter";
    const pid_t pid = std::stoi(line[2]);
    CAPTURE(line, number, inside);
    if (is_enter) {
      CHECK(std::stoi(line[1]) == number + 1);
      CHECK((inside == 0 || fight.killed().contains(inside)));
      inside = pid;
      number = std::stoi(line[1]);
    } else {
      CHECK(std::stoi(line[1]) == number);
      CHECK(pid == inside);
      inside = 0;
    }
  }
}

int sections_by(const Fight& fight, const std::string& locker) {
  const auto lines = fight.book();
  return static_cast<int>(std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
    return line[0] == "leave" && line[3] == locker;
  }));
}

void race_with(const std::string& peer) {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 dice(seed);
  const auto end = std::chrono::steady_clock::now() + kLongest;
  Fight fight(peer);
  const auto is_over = [&] {
    return std::chrono::steady_clock::now() >= end || fight.sections() >= kMostSections;
  };
  while (!is_over()) {
    const int next = fight.sections() + 1 + static_cast<int>(dice() % 8);
    const bool went_on = eventually([&] { return fight.sections() >= next || is_over(); }, 60s);
    REQUIRE(went_on);
    switch (dice() % 4) {
      case 0:
        fight.kill(dice() % (2 * kOfEachKind));
        break;
      case 1:
        run({"lock_local", "--older-than", "0", "clean", fight.lock()});
        break;
      default:
        fight.kill_holder(dice());
    }
  }
  CHECK(fight.stop());

  CHECK(fight.violations() == "");
  check_book(fight);
  CHECK(sections_by(fight, "lock_local") > 0);
  CHECK(sections_by(fight, peer.substr(peer.rfind('/') + 1)) > 0);
  CHECK(fight.killed().size() > 0);
  CHECK(run({"lock_local", "--older-than", "0", "clean", fight.lock()}).code == 0);
  CHECK(tree(fight.lock()) == std::vector<std::string>{});
  std::cout << fight.sections() << " sections, " << sections_by(fight, "lock_local")
            << " by our tools, " << fight.killed().size() << " kills\n";
}

}  // namespace

TEST_CASE("shell scripts and our tools never hold one lock together", "[compat][race]") {
  race_with(source_dir() + "/tests/system/compat/shell_peer");
}

TEST_CASE("the original lockers and our tools never hold one lock together", "[compat][race]") {
  const char* source = std::getenv("LOCKERS_SRC");
  if (!source) SKIP_TEST("needs LOCKERS_SRC, a checkout of the original lockers");
  race_with(std::string(source) + "/lock_local.sh");
}

TEST_CASE("lockers with dear checks and with cheap ones never hold one lock together",
          "[compat][race]") {
  // the same ids, and no grace: each refusal and each unlock asks about everybody
  const TempDir dir;
  const std::string graced = dir / "graced";
  std::ofstream(graced) << "#!/bin/sh\nexec '" << tool("hostpid_lock") << "' --idhelper '"
                        << tool("local_id") << "' --grace-seconds 0 \"$@\"\n";
  REQUIRE(run({"/bin/chmod", "+x", graced}).code == 0);
  race_with(graced);
}
