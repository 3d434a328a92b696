#include "server/pg_reads.h"

#include <algorithm>
#include <limits>

#include "server/pg_rows.h"
#include "server/pg_transaction.h"
#include "server/pg_upkeep.h"

namespace holdfast::server {
namespace {

/// The moment of this transaction, the same in all its statements.
constexpr auto kNow = "current_setting('holdfast.now')::bigint";

constexpr auto kClaims = " FROM holdfast.claims c JOIN holdfast.resources r ON r.id = c.resource ";

std::string bounded(std::size_t number) {
  constexpr std::size_t kMost = std::numeric_limits<std::int64_t>::max();
  return std::to_string(std::min(number, kMost));
}

/// A WHERE that grows, with its parameters.
class Conditions {
 public:
  /// "?" in `sql` is the value.
  void also(std::string sql, std::string value) {
    values_.push_back(std::move(value));
    sql.replace(sql.find('?'), 1, pg_place(values_.size()));
    also(sql);
  }
  void also(const std::string& sql) { text_ += (text_.empty() ? "WHERE " : " AND ") + sql; }

  void within(const std::string& value, const ListQuery::Range<Micros>& range) {
    const auto bound = [&](const char* order, const std::optional<Micros>& micros) {
      if (micros) also(value + order + "?::bigint", std::to_string(micros->count()));
    };
    bound(" >= ", range.minimum);
    bound(" <= ", range.maximum);
  }

  std::string place(std::string value) {
    values_.push_back(std::move(value));
    return pg_place(values_.size());
  }
  const std::string& text() const { return text_; }
  std::vector<std::string> take_values() { return std::move(values_); }

 private:
  std::string text_;
  std::vector<std::string> values_;
};

/// As ListQuery::fits.
Conditions conditions_of(const ListQuery& query) {
  Conditions all;
  if (query.resource) {
    all.also("c.resource = (SELECT id FROM holdfast.resources WHERE hash = " + pg_hash("?") + ")",
             *query.resource);
  }
  if (query.status)
    all.also("c.status = ?::smallint", std::to_string(static_cast<int>(*query.status)));
  if (query.mode) all.also("c.mode = ?::smallint", std::to_string(static_cast<int>(*query.mode)));
  if (query.status && !claims::is_final(*query.status)) all.also("c.status < 2");
  if (query.ttl.is_set()) all.also("c.status = 1 AND c.status < 2");
  all.within(std::string("c.deadline - ") + kNow, query.ttl);
  if (query.active_duration.is_set()) all.also("c.fence <> 0");
  const std::string now = kNow;
  all.within("(CASE WHEN c.status >= 2 THEN c.ended ELSE " + now + " END) - c.activated",
             query.active_duration);
  all.within("(CASE WHEN c.fence <> 0 THEN c.activated WHEN c.status >= 2 THEN c.ended ELSE " +
                 now + " END) - c.queued",
             query.waiting_duration);
  all.within("c.queued", query.created);
  return all;
}

/// The claims of a page, each with its place in the queue.
PgStatement with_positions(const std::string& page, std::vector<std::string> values) {
  return {
      "WITH page AS (" + page +
          "), places AS (SELECT w.id, row_number() OVER (PARTITION BY w.resource ORDER BY w.id) "
          "AS place FROM holdfast.claims w WHERE w.status = 0 AND w.status < 2 AND w.resource IN "
          "(SELECT resource FROM page WHERE status = 0)) "
          "SELECT page.*, coalesce(places.place, 0) FROM page LEFT JOIN places USING (id) "
          "ORDER BY page.id",
      std::move(values)};
}

std::vector<View> to_views(const PgRows& rows) {
  std::vector<View> views;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    views.push_back({to_claim(rows, i), static_cast<std::size_t>(rows.number(i, kPgClaimColumns))});
  }
  return views;
}

const std::string kQueueLength =
    "(SELECT count(*) FROM holdfast.claims w WHERE w.resource = r.id AND w.status = 0 "
    "AND w.status < 2)";

}  // namespace

PgTold<PgLooked<std::vector<PgRows>>> PgReads::look(const std::vector<PgStatement>& wanted) {
  constexpr int kTries = 5;
  const std::string now = kNow;
  std::vector<PgStatement> statements{
      {std::string("SELECT set_config('holdfast.now', ") + kPgClock + "::text, true)"},
      {"SELECT " + now + ", EXISTS (SELECT 1 FROM holdfast.claims WHERE status < 2) AND " + now +
           " - last_seen > $1::bigint, ARRAY(SELECT id FROM holdfast.resources WHERE due <= " +
           now + " ORDER BY due LIMIT 1000) FROM holdfast.meta",
       {std::to_string(kPgGap.count())}}};
  constexpr std::size_t kFreshness = 1;
  statements.insert(statements.end(), wanted.begin(), wanted.end());
  statements.push_back({"COMMIT"});
  for (int tries = 1;; ++tries) {
    auto told = pg_begin(connection_, PgUse::look, statements);
    if (auto* error = std::get_if<PgError>(&told)) {
      if (error->is_passing() && tries < kTries) continue;
      return *error;
    }
    auto& rows = std::get<0>(told);
    if (rows[kFreshness].size() != 1) return PgError{"holdfast.meta has no row"};
    const bool is_after_gap = rows[kFreshness].flag(0, 1);
    const auto due = rows[kFreshness].numbers(0, 2);
    if ((is_after_gap || !due.empty()) && tries < kTries) {
      auto error = is_after_gap ? pg_beat(connection_) : settle_(due);
      if (!error) continue;
      connection_.roll_back();
      return *error;
    }
    PgLooked<std::vector<PgRows>> looked{to_stamp(rows[kFreshness].number(0, 0)), {}};
    for (std::size_t i = kFreshness + 1; i + 1 < rows.size(); ++i) {
      looked.value.push_back(std::move(rows[i]));
    }
    return looked;
  }
}

PgTold<PgLooked<std::vector<View>>> PgReads::claims(const std::vector<ClaimId>& ids) {
  auto told = look({with_positions(
      std::string("SELECT ") + kPgClaim + kClaims + "WHERE c.id = ANY($1::bigint[])",
      {pg_array(ids)})});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& looked = std::get<0>(told);
  return PgLooked<std::vector<View>>{looked.now, to_views(looked.value[0])};
}

PgTold<PgLooked<std::vector<View>>> PgReads::list(const ListQuery& query) {
  Conditions conditions = conditions_of(query);
  const std::string limit = conditions.place(bounded(query.limit));
  const std::string offset = conditions.place(bounded(query.offset));
  const std::string page = std::string("SELECT ") + kPgClaim + kClaims + conditions.text() +
                           " ORDER BY c.id LIMIT " + limit + "::bigint OFFSET " + offset +
                           "::bigint";
  auto told = look({with_positions(page, conditions.take_values())});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& looked = std::get<0>(told);
  return PgLooked<std::vector<View>>{looked.now, to_views(looked.value[0])};
}

PgTold<PgLooked<std::vector<ResourceView>>> PgReads::resources(const ResourceQuery& query) {
  const std::string page =
      "SELECT r.id, r.name, r.fence, " + kQueueLength +
      " AS queue_length FROM holdfast.resources r WHERE strpos(r.name, $1::text) > 0 AND "
      "($2::boolean OR EXISTS (SELECT 1 FROM holdfast.claims l WHERE l.resource = r.id AND "
      "l.status < 2)) ORDER BY r.name LIMIT $3::bigint OFFSET $4::bigint";
  const std::string all =
      std::string("SELECT ") + kPgClaim +
      ", r.fence, r.queue_length FROM page r LEFT JOIN holdfast.claims c ON c.resource = r.id AND "
      "c.status = 1 AND c.status < 2 ORDER BY r.name, c.fence";
  auto told = look({{"WITH page AS (" + page + ") " + all,
                     {query.contains, query.with_idle ? "true" : "false", bounded(query.limit),
                      bounded(query.offset)}}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& looked = std::get<0>(told);
  const PgRows& rows = looked.value[0];
  PgLooked<std::vector<ResourceView>> answer{looked.now, {}};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string_view name = rows.text(i, 2);
    if (answer.value.empty() || answer.value.back().name != name) {
      ResourceView& view = answer.value.emplace_back();
      view.name = name;
      view.fence = static_cast<std::uint64_t>(rows.number(i, kPgClaimColumns));
      view.queue_length = static_cast<std::size_t>(rows.number(i, kPgClaimColumns + 1));
    }
    if (!rows.is_null(i, 0)) answer.value.back().active.push_back({to_claim(rows, i), 0});
  }
  return answer;
}

PgTold<PgLooked<QueueView>> PgReads::queue(const std::string& name, std::size_t limit,
                                           std::size_t offset) {
  const std::string of_name = "WHERE r.hash = " + pg_hash("$1");
  const std::string claims = std::string("SELECT ") + kPgClaim + kClaims + of_name;
  auto told = look(
      {{"SELECT r.fence, " + kQueueLength + " FROM holdfast.resources r " + of_name, {name}},
       {claims + " AND c.status = 1 AND c.status < 2 ORDER BY c.fence", {name}},
       {claims +
            " AND c.status = 0 AND c.status < 2 ORDER BY c.id LIMIT $2::bigint OFFSET $3::bigint",
        {name, bounded(limit), bounded(offset)}},
       {"SELECT fence_floor FROM holdfast.meta"}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& looked = std::get<0>(told);
  PgLooked<QueueView> answer{looked.now, {}};
  ResourceView& resource = answer.value.resource;
  resource.name = name;
  const PgRows& row = looked.value[0];
  resource.fence =
      static_cast<std::uint64_t>(row.size() == 0 ? looked.value[3].number(0, 0) : row.number(0, 0));
  if (row.size() != 0) resource.queue_length = static_cast<std::size_t>(row.number(0, 1));
  for (std::size_t i = 0; i < looked.value[1].size(); ++i) {
    resource.active.push_back({to_claim(looked.value[1], i), 0});
  }
  for (std::size_t i = 0; i < looked.value[2].size(); ++i) {
    answer.value.waiting.push_back({to_claim(looked.value[2], i), offset + i + 1});
  }
  return answer;
}

PgTold<PgLooked<std::uint64_t>> PgReads::fence(const std::string& name) {
  auto told =
      look({{"SELECT coalesce((SELECT fence FROM holdfast.resources WHERE hash = " + pg_hash("$1") +
                 "), fence_floor) FROM holdfast.meta",
             {name}}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& looked = std::get<0>(told);
  return PgLooked<std::uint64_t>{looked.now,
                                 static_cast<std::uint64_t>(looked.value[0].number(0, 0))};
}

PgTold<PgLooked<Totals>> PgReads::totals() {
  auto told =
      look({{"SELECT count(*) FILTER (WHERE status = 1), count(*) FILTER (WHERE status = 0), "
             "count(DISTINCT resource), (SELECT count(*) FROM holdfast.claims) "
             "FROM holdfast.claims WHERE status < 2"}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& looked = std::get<0>(told);
  const PgRows& row = looked.value[0];
  const auto count = [&row](int column) { return static_cast<std::size_t>(row.number(0, column)); };
  return PgLooked<Totals>{looked.now, {count(0), count(1), count(2), count(3)}};
}

}  // namespace holdfast::server
