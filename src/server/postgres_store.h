#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/log.h"
#include "server/store.h"

namespace holdfast::server {

/// Claims in a PostgreSQL database that any number of servers share. `conninfo` is what libpq
/// takes: "host=db dbname=locks" or "postgresql://db/locks".
///
/// Decides:  the rows, by the database's clock. Each change is one transaction that locks the row
///           of its resource, loads the live claims, lets Resource decide and writes what it
///           changed. Nothing is kept in this process that another server would have to know, and
///           nothing in the session, so a pooler that lends connections for single transactions
///           may be between.
/// Time:     what is due is carried out by whoever comes first: a change, a look, or the broom
///           that every server has.
/// Restart:  while there are live claims somebody notes every second that a server lives. Whoever
///           finds that note to be old gives all leases the missing time back before anything is
///           decided: nobody is robbed because the database or all servers were away.
/// COMMIT:   if its answer is lost, the database is asked, over a new connection and for up to 4
///           s, what became of the transaction, and only then is anything answered: what was
///           committed is answered as done, what was not is done again. If it cannot be found out,
///           the answer is "unavailable" with a reason that says so. A claim that was posted
///           without an idempotency key and so may be there unknown to its client is withdrawn as
///           soon as the database is back; with a key, asking again tells. For a PATCH the client
///           has to look.
/// Away:     every call is answered "unavailable" within seconds; connecting goes on by itself.
/// Limits:   Rules.max_claims_per_owner is looked at when a claim is posted; two posts at the same
///           moment on two resources may pass it together.
/// Killed:   a transaction that was not committed leaves nothing but a number that is not used
///           again.
/// Owns:     four threads that serve, one that listens and one broom, each with its connection.
std::variant<std::unique_ptr<Store>, StoreError> open_postgres(const std::string& conninfo,
                                                               Rules rules, Scheduler& scheduler,
                                                               const Log& log);

/// All claims by id, in one snapshot, and what is wrong with the tables around them.
std::variant<Inspection, StoreError> inspect_postgres(const std::string& conninfo,
                                                      const Inspector& each);

}  // namespace holdfast::server
