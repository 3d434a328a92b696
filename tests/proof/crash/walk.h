/// Stopping a tool at each of its system calls in turn, and what must be true afterwards.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

using Words = std::vector<std::string>;

/// What the helper stop_at says about one run.
struct Stop {
  bool was_hit = false;
  long number = 0;   ///< of the call that was hit; else how many there were
  std::string call;  ///< "renameat", for the call that was hit
  int code = -1;     ///< of the command, or 137
  std::string said;  ///< by stop_at and by the command
};

Stop stop_at(long call, const std::string& set, const std::string& mode, const Words& command);

/// Whether calls can be counted here: not in a container that forbids it, not on any processor.
bool can_stop();

/// A sanitizer's own calls are no part of the tool: beyond this only changes are walked.
inline constexpr long kMostCalls = 500;
/// No walk is longer than this, whatever stop_at says.
inline constexpr long kEnd = 2000;

/// Point after point: `one_point` interferes with one call and says whether it was there to
/// interfere with. How many were.
long walk(const std::function<bool(long)>& one_point);

/// Runs a step of a check; says what went wrong with the words of the step.
void expect(int code, const Words& words);

/// One lock, and living processes that want it. Fresh for each point of a walk, but for the rival.
struct Scene {
  explicit Scene(Process& others) : rival(others) {}

  TempDir dir;
  std::string lock = dir / "1";   ///< and slot 1 of the semaphore `dir`
  Process self{kSleeper};         ///< the stopped tool works for this one
  std::optional<Process> holder;  ///< has the lock in some scenes
  Process& rival;                 ///< comes afterwards
  std::string dead;               ///< uid of a process that is no more, where the scene has one

  std::vector<std::string> owner() const;   ///< names in owner/
  Process* living(const std::string& uid);  ///< the one that has this uid, if it is of the scene
  void take_for_holder();
  void leave_dead_owner();     ///< `dead` is in owner/
  void leave_dead_proposal();  ///< `dead` has a proposal
  void leave_rubbish();        ///< a proposal, a .gone folder, an in_use mark: of nobody who lives
};

/// PID:START:BTIME of a living process.
std::string uid_of(const Process& process);

/// One thing a tool does, in one state of the world.
struct Scenario {
  enum class Kind { lock, unlock, clean, clean_ids };

  std::string name;
  Kind kind = Kind::lock;
  std::function<void(Scene&)> prepare;
  std::function<Words(const Scene&)> command;
  int least_calls = 0;        ///< a walk over all calls that is shorter went wrong
  int least_changes = 0;      ///< the same for changes of the filesystem
  bool keeps_holder = false;  ///< the holder has it before and after, whatever happens
};

/// lock on a free lock, lock after a dead owner, refused lock, unlock, clean, clean_stale_ids; by
/// each tool that has it.
std::vector<Scenario> free_locks();
std::vector<Scenario> recoveries();
std::vector<Scenario> refusals();
std::vector<Scenario> unlocks();
std::vector<Scenario> cleanings();
std::vector<Scenario> stale_id_cleanings();

/// Kills the scenario's command at its first system call, its second, and so on until it ends
/// unharmed. After each kill nobody holds who must not, and `after` follows.
void walk_kills(const Scenario& scenario, const std::function<void(Scene&)>& after);

/// Interferes (lost:EXYZ, fail:EXYZ) with each call that changes a filesystem. After each, what the
/// tool said is what is so, and the lock can still be had and cleaned.
void walk_faults(const Scenario& scenario, const std::string& mode);

/// Before each system call of the scenario's lock in turn, something else happens from its begin to
/// its end: `event`, shell text that finds the lock in $LOCK, and an attempt of the rival if it
/// comes as well. Never two have it, and each knows who does.
enum class Rival { comes, stays_away };
void walk_meetings(const Scenario& scenario, const std::string& event, Rival rival);

/// Another living process gets the lock: at once, or as soon as its living holder is dead. Then it
/// is unlocked and cleaned, and nothing is left.
void rival_comes(Scene& scene);

/// The process for which the killed tool worked tries again, and has it.
void self_locks_again(Scene& scene);
void self_unlocks_again(Scene& scene);

}  // namespace holdfast::testing
