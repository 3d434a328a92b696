#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/pg_connection.h"
#include "server/pg_scene.h"
#include "server/store.h"

namespace holdfast::server {

/// A gap in which no server was seen is one if it is longer than this.
inline constexpr Micros kPgGap = std::chrono::seconds(3);

/// Notes that a server lives. After a gap, in which nobody could renew, the leases and the
/// patience of all live claims get that time back, from the old note on or from what was decided
/// later: no lease is longer than it ever was. A step of the clock hides no gap; one ahead is one
/// itself. All by one transaction that shuts out all others, decided by who replaces the old note,
/// so once however many servers find the gap.
std::optional<PgError> pg_beat(PgConnection& connection);

/// The same again while it is another transaction's fault that it failed, a few times.
template <class T, class Work>
PgTold<T> pg_retry(PgConnection& connection, Work work) {
  constexpr int kTries = 8;
  for (int tries = 1;; ++tries) {
    PgTold<T> told = work();
    const auto* error = std::get_if<PgError>(&told);
    if (error == nullptr) return told;
    connection.roll_back();
    if (tries == kTries) return told;
    if (error->state == kPgStale) {
      if (auto fault = pg_beat(connection)) {
        connection.roll_back();
        return *fault;
      }
    } else if (!error->is_passing() && error->state != kPgGone) {
      return told;
    }
  }
}

/// What became of a transaction whose answer was lost.
enum class PgFate {
  done,      ///< committed
  not_done,  ///< and will not be
  running,   ///< not decided yet
  unknown,   ///< committed by its number, but no trace of it is left in the rows
};
PgTold<PgFate> pg_fate(PgConnection& connection, const PgDoubt& doubt);

/// Ends the connection of such a transaction if it is still there.
void pg_cut_off(PgConnection& connection, const PgDoubt& doubt);

/// Returns why the claims cannot be served: one of them has an unknown status or mode. Reads all
/// rows, so it is for the start of a server.
std::optional<std::string> pg_find_unknown(PgConnection& connection);

/// One transaction that drops up to `limit` ended claims which need not be kept, and the resources
/// that have none left. Only if it `counts` is Rules.retain_claims looked at. `archive` is called
/// before the commit; its reason stops it.
PgTold<std::size_t> pg_drop_ended(
    PgConnection& connection, const Rules& rules, bool counts, std::size_t limit,
    const std::function<std::optional<std::string>(const std::vector<Claim>&)>& archive);

}  // namespace holdfast::server
