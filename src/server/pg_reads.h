#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "server/pg_connection.h"
#include "server/store.h"

namespace holdfast::server {

template <class T>
struct PgLooked {
  Stamp now;
  T value;
};

/// Looks at the tables, each time at one moment and in one snapshot.
///
/// Promises: what is due at that moment was carried out before: a look that finds something due
///           calls `settle` for these resources and looks again.
class PgReads {
 public:
  using Settle = std::function<std::optional<PgError>(const std::vector<std::int64_t>& resources)>;

  PgReads(PgConnection& connection, Settle settle)
      : connection_(connection), settle_(std::move(settle)) {}

  PgTold<PgLooked<std::vector<View>>> claims(const std::vector<ClaimId>& ids);
  PgTold<PgLooked<std::vector<View>>> list(const ListQuery& query);
  PgTold<PgLooked<std::vector<ResourceView>>> resources(const ResourceQuery& query);
  PgTold<PgLooked<QueueView>> queue(const std::string& name, std::size_t limit, std::size_t offset);
  PgTold<PgLooked<std::uint64_t>> fence(const std::string& name);
  PgTold<PgLooked<Totals>> totals();

 private:
  PgTold<PgLooked<std::vector<PgRows>>> look(const std::vector<PgStatement>& statements);

  PgConnection& connection_;
  Settle settle_;
};

}  // namespace holdfast::server
