#pragma once

#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "server/pg_connection.h"
#include "server/pg_scene.h"
#include "server/store.h"

namespace holdfast::server {

/// What somebody wants of one resource.
struct PgWish {
  struct Patch {
    ClaimId id = 0;
    Change change;
    Caller caller;
  };
  std::variant<NewClaim, Patch> what;
  Store::Done done;
};

/// Decided, and not written yet if there is anything to write.
struct PgDecision {
  std::unique_ptr<PgScene> scene;
  std::vector<Answer> answers;  ///< of the wishes, in their order
};

/// All wishes about the resource `name`, in their order, in one transaction, which stays open.
PgTold<PgDecision> pg_decide(PgConnection& connection, const std::string& name,
                             std::span<const PgWish> wishes, const Rules& rules);

/// What is due on these resources. With `skips_locked` those are left to others that others work
/// on.
PgTold<std::unique_ptr<PgScene>> pg_settle(PgConnection& connection,
                                           const std::vector<std::int64_t>& resources,
                                           bool skips_locked, const Rules& rules);

/// All live claims that fit, of any resource. `revoked`: their ids.
PgTold<std::unique_ptr<PgScene>> pg_revoke(PgConnection& connection, const RevokeFilter& filter,
                                           const std::string& reason, const Rules& rules,
                                           std::vector<ClaimId>& revoked);

}  // namespace holdfast::server
