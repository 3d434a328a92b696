/// permit_holder SEM MAX WORK TURNS - one of many that want a slot, through the library.
///
/// Inside it leaves WORK/inside/<pid>:<start> and counts those of the living; more than MAX of them
/// is a line in WORK/violations and exit 3. Exit 0 when TURNS are done, 4 for trouble.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "composite/own_slots.h"
#include "composite/semaphore.h"
#include "identity/local_id.h"
#include "race/section.h"

namespace {

using namespace holdfast;

int living_in(const std::string& folder) {
  int count = 0;
  DIR* dir = opendir(folder.c_str());
  while (const dirent* entry = dir ? readdir(dir) : nullptr) {
    count += testing::is_living(entry->d_name);
  }
  if (dir) closedir(dir);
  return count;
}

int violation(const std::string& work, const std::string& what) {
  const int file =
      open((work + "/violations").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  const std::string line = what + "\n";
  return write(file, line.data(), line.size()) < 0 ? 4 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (argc != 5) return 4;
  const auto max = static_cast<std::uint32_t>(std::atol(argv[2]));
  const std::string work = argv[3];
  const std::string pid = std::to_string(getpid());
  const std::string witness = work + "/inside/" + pid + ":" + testing::start_of(pid).value();
  const identity::LocalId ids(disk::posix());
  std::string why;
  const auto self = ids.identify(pid, why);
  if (!self) return 4;
  composite::OwnSlots slots(disk::posix(), policy::Rules{.checker = ids}, self);
  composite::Semaphore semaphore(disk::posix(), argv[1], slots);
  std::mt19937 random(std::random_device{}());
  for (long turns = std::atol(argv[4]); turns > 0;) {
    auto guard = semaphore.try_acquire(max);
    if (!guard) {
      if (semaphore.refusal().answer.outcome == lock::Outcome::already_mine) {
        return violation(work, semaphore.refusal().answer.why);
      }
      usleep(random() % 1000);
      continue;
    }
    close(open(witness.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    const int inside = living_in(work + "/inside");
    if (inside > static_cast<int>(max)) {
      return violation(work, std::to_string(inside) + " inside");
    }
    usleep(random() % 2000);
    if (unlink(witness.c_str()) != 0) return violation(work, "the witness is gone");
    if (!guard->release()) return violation(work, pid + " lost its slot while inside");
    --turns;
  }
  return 0;
}
