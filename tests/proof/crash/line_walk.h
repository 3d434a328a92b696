/// The same walks for the tools with a line, of whom several may hold, several locks are taken at
/// once, and some wait.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "walk.h"

namespace holdfast::testing {

/// What of a scene is worked on: its lock, which is called 1; the locks 1 and 2; or the semaphore
/// that has these two as slots.
enum class On { lock, several, semaphore };

/// One thing that a tool does for `who`, in one state of the world.
struct LineScenario {
  std::string name;
  On on = On::lock;
  std::function<void(Scene&, const Process& who)> prepare;
  std::function<Words(const Scene&, const Process& who)> command;
  Words before;           ///< what `who` holds: X 1, S 2; of a semaphore X for each permit
  Words after;            ///< and after a yes
  int unharmed = 0;       ///< the answer if nothing happens
  int least_changes = 0;  ///< a walk over all changes that is shorter went wrong
  /// For one who waits: when to let the holder go. None in the others.
  std::function<bool(const Scene&, const Process& who)> until{};
  /// Waits until its time is up, a second for each point: not walked in all the ways there are.
  bool is_slow = false;
};

/// rw_lock and fair_lock: taking a lock, changing a hold, giving it up; the same for several locks
/// and for permits; and cleaning.
std::vector<LineScenario> line_locks();
std::vector<LineScenario> line_waits();
std::vector<LineScenario> line_changes();
std::vector<LineScenario> line_unlocks();
std::vector<LineScenario> line_cleanings();
std::vector<LineScenario> permit_scenarios();
std::vector<LineScenario> several_scenarios();

/// Kills the command at its first system call, its second, and so on until it ends unharmed.
/// Afterwards nobody holds who must not, the living hold what they held and keep out whom it keeps
/// out, `who` can go on, and when all are dead a next one of each kind gets in; then nothing is
/// left.
void walk_line_kills(const LineScenario& scenario);

/// Interferes with each call that changes a filesystem. The same, and what was said is so.
void walk_line_faults(const LineScenario& scenario, const std::string& mode);

/// Before each call of `one`, `other` is done for the rival from its begin to its end. What both
/// were told is so, and no two hold that exclude each other.
void walk_line_meetings(const LineScenario& one, const LineScenario& other);

}  // namespace holdfast::testing
