/// For whom the tools with a line lock, by the words of the user.
#pragma once

#include <memory>
#include <optional>

#include "cli/tool.h"
#include "common/interrupts.h"
#include "composite/holder.h"
#include "composite/patience.h"
#include "lock/fast_lock.h"

namespace holdfast::tools {

inline constexpr cli::Option kPartyGrace =
    cli::rows::grace("no second check of an id before so long (with --ssh 10, else 0)");

/// Whether the word has to be a process that runs, or may be the uid of one that does not.
enum class Given { pid, pid_or_uid };

/// The holder that word `i` names. Nothing, told on stderr, if there is no such process.
std::optional<composite::Holder> make_holder(const cli::Call& call, std::size_t i, Given given);

/// The same for a word that stands elsewhere; `waits`: this process may stand in line for it.
std::optional<composite::Holder> make_holder(const cli::Call& call, const std::string& id,
                                             Given given, bool waits);

/// Nobody: for looking and cleaning.
composite::Holder make_judge(const cli::Call& call);

/// A word as a number of slots or permits, from `least` up, or a UsageError.
std::uint32_t to_count(const std::string& what, const std::string& text, std::uint32_t least);

/// Word 1 as the name of a slot, or a UsageError.
const std::string& slot_given(const cli::Call& call);

/// --wait, ended by `interrupts`.
composite::Patience patience_of(const cli::Call& call, const Interrupts& interrupts);

/// Of acquire, upgrade, downgrade: says on stderr what must be said, and gives the exit code.
Exit report_hold(cli::Call& call, const lock::FastLock& lock, const Uid& id,
                 const lock::Answer& answer);

/// Of unlock.
Exit report_release(cli::Call& call, const lock::Answer& answer);

/// Who stands in line: position, r or w, id, seconds.
Exit print_line(cli::Call& call);

}  // namespace holdfast::tools
