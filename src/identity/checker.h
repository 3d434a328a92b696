#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/record.h"
#include "base/uid.h"

namespace holdfast::identity {

/// "I cannot see it" is not "it is dead": only `dead` ever frees a lock.
enum class Life { alive, dead, unknown };

struct Verdict {
  Life life;
  std::string why;
  /// Alive in another pid namespace or on another host: its pid means another process here.
  bool is_elsewhere = false;
  bool is_certain = true;  ///< no: its id fits, but would fit another process as well
  int code = -1;         ///< what `is_stale` of that checker exits with, if it says more than life
  bool is_told = false;  ///< the user heard already that nobody can tell
};

/// A holder to be judged.
struct Subject {
  Uid uid;
  std::optional<Record> record;
};

/// Alive, and the one that its pid means in our own pid namespace.
inline bool is_here(const Verdict& verdict) {
  return verdict.life == Life::alive && !verdict.is_elsewhere;
}

/// Tells whether the process behind an id lives.
class Checker {
 public:
  virtual ~Checker() = default;
  virtual Verdict check(const Uid& id, const std::optional<Record>& record) const = 0;

  /// Of several, in their order. One by one, unless a checker knows a cheaper way.
  virtual std::vector<Verdict> check_all(std::span<const Subject> subjects) const {
    std::vector<Verdict> verdicts;
    verdicts.reserve(subjects.size());
    for (const Subject& subject : subjects) {
      verdicts.push_back(check(subject.uid, subject.record));
    }
    return verdicts;
  }

  /// Judges by the record where there is one: without it, its "dead" may be wrong.
  virtual bool reads_records() const = 0;

  /// May be asked on every unlock, before the caller gets its answer.
  virtual bool is_cheap() const = 0;
};

}  // namespace holdfast::identity
