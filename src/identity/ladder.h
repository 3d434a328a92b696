/// The verdict ladder: what can be said of a process from what was seen of it, here or over ssh.
/// Pure: nothing in this file looks at anything.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "identity/checker.h"

namespace holdfast::identity {

/// The first pid namespace has no ancestors: a procfs in which we find ourselves is then our own.
inline constexpr std::string_view kFirstPidNamespace = "pid:[4026531836]";

/// Names that many hosts share do not tell one from another.
bool is_telling_host_name(std::string_view host);

/// What PID/stat says.
struct ProcStat {
  std::string name;  ///< comm
  char state = '?';
  std::uint64_t threads = 0;
  std::uint64_t start = 0;  ///< the true field 22
  std::string word;         ///< the 22nd blank-separated word: what the shell takes for it

  bool is_dead() const { return state == 'Z' && threads == 1; }

  /// Seen so for a moment when it ends, and also when a thread of a living process execs: proves
  /// nothing.
  bool is_in_transit() const { return state == 'X' || threads == 0; }
  static std::optional<ProcStat> parse(std::string_view stat);
};

/// What a look at a pid showed.
struct Sight {
  enum class Kind {
    seen,        ///< `process` has it
    gone,        ///< the kernel knows no such pid
    hidden,      ///< there is one, but not for us to see
    unreadable,  ///< its state makes no sense, or was not read whole
  };
  Kind kind = Kind::unreadable;
  ProcStat process{};
};

/// Where that look was taken. What could not be read is empty.
struct Place {
  std::string host;  ///< node name
  std::string boot;
  std::string pidns;
  std::string timens;
  std::optional<std::uint64_t> btime;

  /// Reached by the full name that stands in the id. Else two places may only look alike:
  /// containers on two hosts can share a node name.
  bool is_named_by_id = false;

  /// The one who asks, reached by that name: two machines of one name each reach themselves.
  bool is_asker = false;
};

/// PID:START:BTIME of an id. START is digits, but for a process whose name has blanks: then it is
/// another word of PID/stat.
struct TextId {
  std::uint64_t pid;
  std::string start;
  std::uint64_t btime;

  static std::optional<TextId> parse(std::string_view pid, std::string_view start,
                                     std::string_view btime);
};

/// Whether two readings can be of one boot: the kernel rounds, and NTP slews the clock.
bool is_same_boot_time(std::uint64_t a, std::uint64_t b);

/// First row that fits:
///
///   record of that boot, pid namespace and node    another start time or no such pid: dead;
///                                                  the same: alive
///   of that boot and pid namespace, other node     alive as above, but never dead: machines
///                                                  resumed from one image share a boot id
///   of that boot, another pid namespace            unknown
///   of another boot                                judge_restarted
Verdict judge_by_record(const Record& record, std::uint64_t btime, const Place& place,
                        const Sight& sight);

/// Without a record:
///
///   no such pid                                    dead; unknown if the one who asks reached
///                                                  itself and has not booted since
///   same pid, START in either form, BTIME +-1 s    alive
///   same pid and START, another BTIME              unknown: a stepped clock or a restart;
///                                                  100 years off: dead, no clock does that
///   a START that is no start time                  unknown: its name had blanks
///   another START                                  dead, if no time namespace explains it
Verdict judge_by_text(const TextId& id, const Place& place, const Sight& sight);

/// Of a record from another boot of a host of the same, telling name: dead, if both are hosts and
/// no containers. A container reached by its full name: dead, if it booted after the lock was
/// taken. If the one who asks reached itself, a host counts only if it booted after the lock was
/// taken, and a container not at all: others of that name may live. All else: unknown.
Verdict judge_restarted(const Record& record, std::uint64_t btime, const Place& place);

/// What the look alone settles; nothing if there is a living process, whose start time must tell.
std::optional<Verdict> judge_by_look(const Sight& sight);

/// A record without a pid still tells where the id means something: "dead" only counts there.
Verdict dead_only_there(Verdict verdict, const Record& record, std::uint64_t btime,
                        const Place& place);

/// Of procfs `stat`.
std::optional<std::uint64_t> parse_boot_time(std::string_view stat);

}  // namespace holdfast::identity
