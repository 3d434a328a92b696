#pragma once

#include <optional>
#include <string>

#include "base/record.h"
#include "base/uid.h"

namespace holdfast::identity {

/// "I cannot see it" is not "it is dead": only `dead` ever frees a lock.
enum class Life { alive, dead, unknown };

struct Verdict {
  Life life;
  std::string why;
  bool is_elsewhere =
      false;                ///< alive in another pid namespace: its pid means another process here
  bool is_certain = true;   ///< no: its id fits, but would fit another process as well
  int program_status = -1;  ///< of an external checker, where one was asked
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

  /// Judges by the record where there is one: without it, its "dead" may be wrong.
  virtual bool reads_records() const = 0;

  /// May be asked on every unlock, before the caller gets its answer.
  virtual bool is_cheap() const = 0;
};

}  // namespace holdfast::identity
