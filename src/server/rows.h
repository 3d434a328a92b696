#pragma once

#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "server/claim.h"
#include "server/store.h"

namespace holdfast::server {

/// The database under a server that is alone with it.
///
/// Promises: commit() makes all of a batch durable, or nothing of it.
/// Threads:  one at a time; not always the same.
class Rows {
 public:
  struct Row {
    View view;
    bool is_new = false;
  };
  struct Batch {
    std::vector<Row> changed;  ///< each claim once, as it is now
    std::vector<Claim> dropped;
    Micros time{};  ///< at which the last of it was decided
    ClaimId last_id = 0;
    std::uint64_t fence_floor = 0;
  };
  struct Contents {
    std::vector<Claim> claims;  ///< by id
    ClaimId last_id = 0;        ///< ever given out, or less than the last of the claims
    std::uint64_t fence_floor = 0;
    Micros last_time{};  ///< of all batches
  };

  virtual ~Rows() = default;

  virtual std::variant<Contents, StoreError> load() = 0;

  /// The reason if it failed.
  virtual std::optional<std::string> commit(const Batch& batch) = 0;

  /// Whether a commit would work: makes one that means nothing. The reason if not.
  virtual std::optional<std::string> probe() = 0;
};

}  // namespace holdfast::server
