/// permit_holder SEM MAX PERMITS WORK TURNS - one of many that want so many permits, through the
/// library: in line, or with 0 for PERMITS one of those who know no line.
///
/// Inside it leaves WORK/inside/<k>/<pid>:<start> for each of its permits and counts those of the
/// living; more than MAX of them is a line in WORK/violations and exit 3. Exit 0 when TURNS are
/// done, 4 for trouble.
#include <dirent.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "composite/fair_semaphore.h"
#include "proof/race/section.h"

namespace {

using namespace holdfast;
using namespace std::chrono_literals;

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
  if (argc != 6) return 4;
  const auto max = static_cast<std::uint32_t>(std::atol(argv[2]));
  const auto permits = static_cast<std::uint32_t>(std::atol(argv[3]));
  const std::string work = argv[4];
  const std::string pid = std::to_string(getpid());
  std::vector<std::string> witnesses;
  for (std::uint32_t k = 1; k <= std::max(permits, 1U); ++k) {
    witnesses.push_back(work + "/inside/" + std::to_string(k) + "/" + pid + ":" +
                        testing::start_of(pid).value());
  }
  std::string why;
  const auto self = composite::Holder::this_process(why);
  if (!self) return 4;
  composite::OwnSlots slots(disk::posix(), self->rules(), self->self);
  composite::Semaphore plain(disk::posix(), argv[1], slots);
  composite::FairSemaphore fair(argv[1], *self);
  std::mt19937 random(std::random_device{}());
  for (long turns = std::atol(argv[5]); turns > 0;) {
    auto guard = permits == 0 ? plain.try_acquire(max)
                              : fair.hold(max, permits, composite::Patience::of(60s));
    if (!guard) {
      const lock::Answer& no = permits == 0 ? plain.refusal().answer : fair.refusal();
      if (permits > 0 || no.outcome == lock::Outcome::already_mine) return violation(work, no.why);
      usleep(random() % 1000);
      continue;
    }
    for (const std::string& witness : witnesses) {
      close(open(witness.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    }
    const int inside = living_in(work + "/inside/1") + living_in(work + "/inside/2");
    if (inside > static_cast<int>(max)) {
      return violation(work, std::to_string(inside) + " inside");
    }
    usleep(random() % 2000);
    for (const std::string& witness : witnesses) {
      if (unlink(witness.c_str()) != 0) return violation(work, "the witness is gone");
    }
    if (!guard->release()) return violation(work, pid + " lost its permits while inside");
    --turns;
  }
  return 0;
}
