#include "server/pg_upkeep.h"

#include "server/audit.h"
#include "server/pg_rows.h"
#include "server/pg_transaction.h"

namespace holdfast::server {
namespace {

std::string micros(Micros value) {
  return std::to_string(value.count());
}

std::optional<PgError> error_of(PgTold<std::vector<PgRows>>& told) {
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  return std::nullopt;
}

std::optional<PgError> bridge_gap(PgConnection& connection, std::int64_t last_seen) {
  // A server was there as well when anything was decided about the resource.
  const std::string given = "greatest(0, gap.ending - greatest(seen, $1::bigint))";
  std::string bridge = "WITH gap AS (UPDATE holdfast.meta SET last_seen = ";
  bridge += kPgClock;
  bridge += " WHERE last_seen = $1::bigint RETURNING last_seen AS ending),";
  bridge += " leases AS (UPDATE holdfast.claims c SET deadline = deadline + " + given;
  bridge += ", heard = heard + " + given;
  bridge += " FROM gap, holdfast.resources r WHERE r.id = c.resource AND c.status < 2)";
  bridge += " UPDATE holdfast.resources SET due = due + " + given;
  bridge += " FROM gap WHERE due IS NOT NULL";
  // Whoever decides anything has a row of resources locked, so nobody is in the middle of it now.
  auto told = pg_begin(connection, PgUse::change,
                       {{"LOCK TABLE holdfast.resources IN EXCLUSIVE MODE"},
                        {bridge, {std::to_string(last_seen)}},
                        {"COMMIT"}});
  return error_of(told);
}

}  // namespace

std::optional<PgError> pg_beat(PgConnection& connection) {
  const std::string clock = kPgClock;
  // A second server's note is as good as ours; one from before the clock was stepped back is not.
  const std::string note = "UPDATE holdfast.meta SET last_seen = " + clock +
                           " WHERE last_seen BETWEEN " + clock + " - $1::bigint AND " + clock +
                           " - 300000 OR last_seen > " + clock;
  auto told = pg_begin(connection, PgUse::change,
                       {{"SELECT set_config('synchronous_commit', 'off', true)"},
                        {note, {micros(kPgGap)}},
                        {"SELECT last_seen, " + clock + " FROM holdfast.meta"},
                        {"COMMIT"}});
  if (auto error = error_of(told)) return error;
  const PgRows& row = std::get<0>(told)[2];
  if (row.size() != 1) return PgError{"holdfast.meta has no row"};
  if (row.number(0, 1) - row.number(0, 0) <= kPgGap.count()) return std::nullopt;
  return bridge_gap(connection, row.number(0, 0));
}

PgTold<PgFate> pg_fate(PgConnection& connection, const PgDoubt& doubt) {
  auto told = connection.run(
      {{"SELECT pg_xact_status($1::xid8), "
        "EXISTS (SELECT 1 FROM holdfast.resources WHERE id = ANY($3::bigint[]) AND attempt = $2) "
        "OR EXISTS (SELECT 1 FROM holdfast.claims WHERE id = ANY($4::bigint[]) "
        "AND $2::bigint IN (attempt, origin))",
        {doubt.transaction, std::to_string(doubt.attempt), pg_array(doubt.resources),
         pg_array(doubt.changed)}}});
  if (auto* error = std::get_if<PgError>(&told)) {
    // After a crash of the database the number may not even have been given out.
    if (error->state == "22023") return PgFate::not_done;
    return *error;
  }
  const PgRows& row = std::get<0>(told)[0];
  const std::string_view status = row.text(0, 0);
  if (row.flag(0, 1)) return PgFate::done;
  if (status == "aborted") return PgFate::not_done;
  if (status == "in progress") return PgFate::running;
  return PgFate::unknown;
}

void pg_cut_off(PgConnection& connection, const PgDoubt& doubt) {
  // Without the right to do so it takes as long as the database needs to notice.
  (void)connection.run(
      {{"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = $1::integer "
        "AND backend_xid::text::numeric = mod($2::numeric, 4294967296)",
        {std::to_string(doubt.backend), doubt.transaction}}});
}

std::optional<std::string> pg_find_unknown(PgConnection& connection) {
  constexpr std::chrono::minutes kPatience(10);
  auto told = connection.run(
      {{std::string("SELECT ") + kPgClaim +
        " FROM holdfast.claims c JOIN holdfast.resources r ON r.id = c.resource "
        "WHERE c.status NOT BETWEEN 0 AND 6 OR c.mode NOT BETWEEN 0 AND 2 ORDER BY c.id LIMIT 1"}},
      kPatience);
  if (auto error = error_of(told)) return error->why;
  const PgRows& rows = std::get<0>(told)[0];
  if (rows.size() == 0) return std::nullopt;
  return Audit::why_unknown(to_claim(rows, 0));
}

PgTold<std::size_t> pg_drop_ended(
    PgConnection& connection, const Rules& rules, bool counts, std::size_t limit,
    const std::function<std::optional<std::string>(const std::vector<Claim>&)>& archive) {
  // Not those of unknown status or mode: they may hold their resource.
  const std::string ended =
      " FROM holdfast.claims WHERE status >= 2 AND status <= 6 AND mode BETWEEN 0 AND 2 ";
  auto told = pg_begin(
      connection, PgUse::change,
      {{"WITH aged AS (SELECT id" + ended + "AND ended <= " + kPgClock +
            " - $1::bigint ORDER BY ended, id LIMIT $3), surplus AS (SELECT id" + ended +
            "AND $4::boolean ORDER BY ended DESC, id DESC OFFSET $2 LIMIT $3) SELECT " + kPgClaim +
            " FROM holdfast.claims c JOIN holdfast.resources r ON r.id = c.resource "
            "WHERE c.id IN (SELECT id FROM aged UNION SELECT id FROM surplus) ORDER BY c.id "
            "FOR UPDATE OF c SKIP LOCKED",
        {micros(rules.retain), std::to_string(rules.retain_claims), std::to_string(limit),
         counts ? "true" : "false"}}});
  if (auto error = error_of(told)) return *error;
  const PgRows& rows = std::get<0>(told)[0];
  std::vector<Claim> claims;
  std::vector<ClaimId> ids;
  std::vector<std::int64_t> resources;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    claims.push_back(to_claim(rows, i));
    ids.push_back(claims.back().id);
    resources.push_back(rows.number(i, kPgResourceColumn));
  }
  if (claims.empty()) {
    connection.roll_back();
    return std::size_t{0};
  }
  if (auto why = archive(claims)) {
    connection.roll_back();
    return PgError{*why};
  }
  auto dropped = connection.run(
      {{"DELETE FROM holdfast.claims WHERE id = ANY($1::bigint[])", {pg_array(ids)}},
       {"SELECT 1 FROM holdfast.resources WHERE id = ANY($1::bigint[]) ORDER BY id FOR UPDATE",
        {pg_array(resources)}},
       {"WITH gone AS (DELETE FROM holdfast.resources r WHERE id = ANY($1::bigint[]) AND NOT "
        "EXISTS "
        "(SELECT 1 FROM holdfast.claims WHERE resource = r.id) RETURNING fence) "
        "UPDATE holdfast.meta SET fence_floor = top.fence FROM (SELECT max(fence) AS fence FROM "
        "gone)"
        " AS top WHERE top.fence > fence_floor",
        {pg_array(resources)}},
       {"COMMIT"}});
  if (auto error = error_of(dropped)) return *error;
  return claims.size();
}

}  // namespace holdfast::server
