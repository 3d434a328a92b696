/// What the lock tools have in common when they tell an outcome to the caller.
#pragma once

#include <optional>
#include <vector>

#include "cli/tool.h"
#include "identity/checker.h"
#include "identity/identity.h"
#include "lock/fast_lock.h"

namespace holdfast::tools {

/// Of lock(): says on stderr what must be said, and gives the exit code.
Exit report_lock(cli::Call& call, const lock::FastLock& lock, const Uid& id,
                 const lock::Answer& answer);

/// Says who holds it, from the records.
void tell_who_holds(const cli::Call& call, const lock::FastLock& lock);

/// To a person who was refused.
void tell_what_next(const cli::Call& call);

/// What an unlock of a lock that the caller does not hold is.
enum class Unheld { is_refused, is_fine };

/// Scripts unlock twice, in traps, so it is fine unless they say --strict.
inline Unheld unheld_of(const cli::Call& call) {
  return call.options.strict ? Unheld::is_refused : Unheld::is_fine;
}

/// Of unlock(). A disk that refused is never reported as success: the lock is still held.
Exit report_unlock(cli::Call& call, const lock::Answer& answer, Unheld unheld = Unheld::is_refused);

/// Of is_mine(), if another process holds the lock under the id of the caller.
void tell_of_twin(const cli::Call& call, const lock::FastLock& lock,
                  const identity::Identity& self);

/// Of staleness(): what `is_stale` exits with.
Exit report_staleness(cli::Call& call, const std::optional<identity::Verdict>& verdict);

/// The ids on stdout, one per line.
Exit print_owner(cli::Call& call, const std::vector<lock::Leaf>& leaves);

/// Before a lock by a process whose name a shell peer cannot cope with.
void warn_of_blank_name(const cli::Call& call, const identity::Identity& identity,
                        const std::string& pid);

lock::FastLock make_lock(const cli::Call& call);  ///< on word 0

}  // namespace holdfast::tools
