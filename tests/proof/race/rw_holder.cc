/// rw_holder LOCK ROLE WORK TURNS - one of many on one rw lock, through the library.
///
/// ROLE is r (shares), w (alone), u (shares, then upgrades) or p (a plain lock: it knows no sharing
/// and no line). Inside it leaves WORK/shared/<pid>:<start> or WORK/alone/<pid>:<start> and looks
/// for the living that must not be there: each is a line in WORK/violations and exit 3. Exit 0 when
/// TURNS are done, 4 for trouble, 5 for a wait without end.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>

#include "composite/rw_lock.h"
#include "policy/locker.h"
#include "proof/race/section.h"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using composite::Patience;
using lock::Mode;
using lock::Outcome;

std::string work;
std::string self;

void mark(const std::string& folder) {
  close(open((work + "/" + folder + "/" + self).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
}
void unmark(const std::string& folder) {
  unlink((work + "/" + folder + "/" + self).c_str());
}

int others_in(const std::string& folder) {
  int count = 0;
  DIR* dir = opendir((work + "/" + folder).c_str());
  while (const dirent* entry = dir ? readdir(dir) : nullptr) {
    count += entry->d_name != self && testing::is_living(entry->d_name);
  }
  if (dir) closedir(dir);
  return count;
}

void must_be(bool is_so, const std::string& what) {
  if (is_so) return;
  const int file =
      open((work + "/violations").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string line = self + ": " + what + "\n";
  std::_Exit(write(file, line.data(), line.size()) < 0 ? 4 : 3);
}

void be_inside() {
  static std::mt19937 random(std::random_device{}());
  if (random() % 2) std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
}

void alone() {
  mark("alone");
  must_be(others_in("alone") + others_in("shared") == 0, "somebody is beside one who is alone");
  be_inside();
  unmark("alone");
}

void share() {
  mark("shared");
  must_be(others_in("alone") == 0, "somebody is alone beside one who shares");
  be_inside();
  must_be(others_in("alone") == 0, "somebody got in alone beside one who shares");
}

/// Shares, then wants to be alone. While it asks it shares all the time.
void upgrade(composite::RwLock& lock) {
  const auto answer = lock.upgrade(Patience::of(20s));
  if (answer.outcome == Outcome::held) {
    unmark("shared");
    alone();
    mark("shared");
    must_be(lock.downgrade().outcome == Outcome::held, "a downgrade was refused");
  } else {
    must_be(answer.outcome == Outcome::deadlock, "an upgrade got no answer: " + answer.why);
  }
  must_be(others_in("alone") == 0, "somebody is alone beside one who asked for an upgrade");
}

void take_turn(const std::string& path, char role, const composite::Holder& holder) {
  if (role == 'p') {
    Locker plain(path);
    auto guard = plain.try_lock();
    for (int tries = 0; !guard && tries < 20000; ++tries) {
      std::this_thread::sleep_for(1ms);
      guard = plain.try_lock();
    }
    if (!guard) std::_Exit(5);
    return alone();
  }
  composite::RwLock lock(path, holder);
  auto guard = lock.hold(role == 'w' ? Mode::exclusive : Mode::shared, Patience::of(40s));
  if (!guard) {
    std::fprintf(stderr, "%c: %s\n", role, lock.refusal().why.c_str());
    std::_Exit(5);
  }
  if (role == 'w') return alone();
  share();
  if (role == 'u') upgrade(lock);
  unmark("shared");
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5) return 4;
  work = argv[3];
  const std::string pid = std::to_string(getpid());
  self = pid + ":" + testing::start_of(pid).value();
  std::string why;
  const auto holder = composite::Holder::this_process(why);
  if (!holder) return 4;
  for (long turns = std::atol(argv[4]); turns > 0; --turns) {
    take_turn(argv[1], argv[2][0], *holder);
  }
}
