#include "server/pg_scene.h"

#include <algorithm>
#include <random>

#include "server/audit.h"
#include "server/pg_rows.h"
#include "server/pg_transaction.h"
#include "server/wish.h"

namespace holdfast::server {
namespace {

std::int64_t random_number() {
  thread_local std::mt19937_64 numbers{std::random_device{}()};
  return static_cast<std::int64_t>(numbers() >> 1U);
}

const std::string kByName = "hash = " + pg_hash("$1");

PgStatement make_resource(const std::string& name) {
  return {"INSERT INTO holdfast.resources (hash, name, fence, seen) SELECT " + pg_hash("$1") +
              ", $1::text, m.fence_floor, 0 FROM holdfast.meta m WHERE NOT EXISTS "
              "(SELECT 1 FROM holdfast.resources WHERE " +
              kByName + ") ON CONFLICT (hash) DO NOTHING",
          {name}};
}

PgStatement lock_resources(const PgScene::Plan& plan) {
  const std::string columns = "SELECT id, name, fence, seen, due FROM holdfast.resources WHERE ";
  if (plan.name) return {columns + kByName + " FOR UPDATE", {*plan.name}};
  return {columns + "id = ANY($1::bigint[]) ORDER BY id FOR UPDATE" +
              (plan.skips_locked ? " SKIP LOCKED" : ""),
          {pg_array(plan.resources)}};
}

PgStatement live_claims(const PgScene::Plan& plan) {
  const std::string of_plan =
      plan.name ? "c.resource = (SELECT id FROM holdfast.resources WHERE " + kByName + ")"
                : std::string("c.resource = ANY($1::bigint[])");
  const std::string columns =
      std::string("SELECT ") + kPgLightClaim + " FROM holdfast.claims c WHERE " + of_plan;
  // With an unknown status, a claim that never ended may hold the resource. The index of ended
  // claims finds those at once.
  return {columns + " AND c.status < 2 UNION ALL " + columns +
              " AND c.status >= 2 AND c.status > 6 AND c.ended = 0 ORDER BY 1",
          {plan.name ? *plan.name : pg_array(plan.resources)}};
}

/// The targets, and those that were posted with the keys.
PgStatement whole_claims(const PgScene::Plan& plan) {
  return {std::string("SELECT ") + kPgClaim +
              " FROM holdfast.claims c JOIN holdfast.resources r ON r.id = c.resource "
              "WHERE c.id = ANY($1::bigint[]) OR c.id = ANY(ARRAY(SELECT k.claim "
              "FROM unnest($2::text[]) AS w(word) JOIN holdfast.keys k ON k.hash = " +
              pg_hash("w.word") + ")) ORDER BY c.id",
          {pg_array(plan.targets), pg_text_array(plan.keys)}};
}

PgStatement known_keys(const std::vector<std::string>& keys) {
  return {
      "SELECT w.word, c.id, c.resource, c.queued FROM unnest($1::text[]) AS w(word) "
      "JOIN holdfast.keys k ON k.hash = " +
          pg_hash("w.word") + " JOIN holdfast.claims c ON c.id = k.claim",
      {pg_text_array(keys)}};
}

PgStatement owned_claims(const std::vector<std::string>& owners) {
  return {
      "SELECT owner, count(*) FROM holdfast.claims "
      "WHERE status < 2 AND owner = ANY($1::text[]) GROUP BY owner",
      {pg_text_array(owners)}};
}

/// A key whose claim was posted a day ago makes room; one that is newer breaks the transaction.
void put_key(std::vector<PgStatement>& statements, const Claim& claim, Micros expired) {
  const std::string word = key_word(claim.owner, claim.key);
  statements.push_back({"DELETE FROM holdfast.keys k USING holdfast.claims c WHERE k.hash = " +
                            pg_hash("$1") + " AND c.id = k.claim AND c.queued <= $2::bigint",
                        {word, std::to_string(expired.count())}});
  statements.push_back(
      {"INSERT INTO holdfast.keys (hash, claim) VALUES (" + pg_hash("$1") + ", $2::bigint)",
       {word, std::to_string(claim.id)}});
}

}  // namespace

PgTold<std::unique_ptr<PgScene>> PgScene::open(PgConnection& connection, const Plan& plan,
                                               Micros grant_grace) {
  std::vector<PgStatement> statements;
  const auto also = [&](PgStatement statement) {
    statements.push_back(std::move(statement));
    return statements.size() - 1;
  };
  if (plan.makes_it) also(make_resource(plan.name.value()));
  const std::size_t locked = also(lock_resources(plan));
  const std::size_t moment =
      also({std::string("SELECT ") + kPgClock +
            ", last_seen, pg_current_xact_id(), pg_backend_pid() FROM holdfast.meta"});
  const std::size_t live = also(live_claims(plan));
  const bool has_targets = !plan.targets.empty() || !plan.keys.empty();
  const std::size_t targets = has_targets ? also(whole_claims(plan)) : 0;
  const std::size_t ids = plan.ids == 0 ? 0
                                        : also({"SELECT nextval('holdfast.claim_ids') FROM "
                                                "generate_series(1, $1::integer)",
                                                {std::to_string(plan.ids)}});
  const std::size_t keys = plan.keys.empty() ? 0 : also(known_keys(plan.keys));
  const std::size_t owners = plan.owners.empty() ? 0 : also(owned_claims(plan.owners));

  auto told = pg_begin(connection, PgUse::change, statements);
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  const auto& rows = std::get<0>(told);

  auto scene = std::make_unique<PgScene>();
  if (rows[moment].size() != 1) return PgError{"holdfast.meta has no row"};
  scene->now_ = to_stamp(rows[moment].number(0, 0));
  scene->transaction_ = rows[moment].text(0, 2);
  scene->backend_ = rows[moment].number(0, 3);
  scene->attempt_ = random_number();
  // From the future: the clock was stepped back, and no gap would be noticed until it is there.
  const Micros unseen = scene->now_.time - Micros(rows[moment].number(0, 1));
  if (unseen > kPgBeatDue || unseen < Micros{}) {
    return PgError{"no server was seen for some time", kPgStale};
  }
  scene->take_resources(rows[locked], grant_grace);
  if (plan.makes_it && scene->entries_.empty()) return PgError{"dropped just now", kPgGone};
  scene->leave_unknown(rows[live]);
  if (plan.name && scene->unknown_) return PgError{*scene->unknown_};
  scene->take_live(rows[live], targets == 0 ? nullptr : &rows[targets]);
  for (std::size_t i = 0; ids != 0 && i < rows[ids].size(); ++i) {
    scene->ids_.push_back(static_cast<ClaimId>(rows[ids].number(i, 0)));
  }
  for (std::size_t i = 0; keys != 0 && i < rows[keys].size(); ++i) {
    scene->keys_[std::string(rows[keys].text(i, 0))] = {
        static_cast<ClaimId>(rows[keys].number(i, 1)), rows[keys].number(i, 2),
        Micros(rows[keys].number(i, 3))};
  }
  for (std::size_t i = 0; owners != 0 && i < rows[owners].size(); ++i) {
    scene->owned_[std::string(rows[owners].text(i, 0))] =
        static_cast<std::size_t>(rows[owners].number(i, 1));
  }
  return scene;
}

void PgScene::take_resources(const PgRows& rows, Micros grant_grace) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::int64_t id = rows.number(i, 0);
    entries_.try_emplace(id, id, std::string(rows.text(i, 1)),
                         static_cast<std::uint64_t>(rows.number(i, 2)), grant_grace);
    const Stamp seen = to_stamp(rows.number(i, 3));
    if (seen.time > now_.time) now_ = seen;
    stored_due_[id] = rows.is_null(i, 4) ? std::nullopt : std::optional(Micros(rows.number(i, 4)));
  }
}

void PgScene::leave_unknown(const PgRows& live) {
  for (std::size_t i = 0; i < live.size(); ++i) {
    if (!is_unknown(live, i)) continue;
    const auto home = entries_.find(live.number(i, kPgResourceColumn));
    if (home == entries_.end()) continue;
    Claim claim = to_claim(live, i);
    claim.resource = home->second.name;
    if (!unknown_) unknown_ = Audit::why_unknown(claim);
    stored_due_.erase(home->first);
    entries_.erase(home);
  }
}

void PgScene::take_live(const PgRows& live, const PgRows* targets) {
  const auto take = [this](const PgRows& rows, std::size_t row) -> Claim* {
    const auto home = entries_.find(rows.number(row, kPgResourceColumn));
    if (home == entries_.end()) return nullptr;
    Claim& claim = home->second.claims.emplace_back(to_claim(rows, row));
    claim.resource = home->second.name;
    claims_[claim.id] = &claim;
    return &claim;
  };
  for (std::size_t i = 0; i < live.size(); ++i) {
    Claim* claim = take(live, i);
    if (claim != nullptr) entries_.at(live.number(i, kPgResourceColumn)).machine.restore(*claim);
  }
  for (std::size_t i = 0; targets != nullptr && i < targets->size(); ++i) {
    const auto id = static_cast<ClaimId>(targets->number(i, 0));
    const auto known = claims_.find(id);
    if (known != claims_.end()) {
      *known->second = to_claim(*targets, i);  // in place: the machine points there
      whole_.insert(id);
    } else if (take(*targets, i) != nullptr) {
      whole_.insert(id);
    }
  }
}

Claim* PgScene::find(ClaimId id) {
  const auto found = claims_.find(id);
  return found == claims_.end() ? nullptr : found->second;
}

std::optional<PgScene::Key> PgScene::key(const std::string& word) const {
  const auto found = keys_.find(word);
  return found == keys_.end() ? std::nullopt : std::optional(found->second);
}

std::size_t PgScene::owned(const std::string& owner) const {
  const auto found = owned_.find(owner);
  return found == owned_.end() ? 0 : found->second;
}

Claim& PgScene::add(Entry& entry, Claim claim) {
  claim.id = ids_.front();
  ids_.pop_front();
  Claim& added = entry.claims.emplace_back(std::move(claim));
  added.resource = entry.name;
  claims_[added.id] = &added;
  new_.insert(added.id);
  whole_.insert(added.id);
  if (!added.key.empty()) {
    keys_[key_word(added.owner, added.key)] = {added.id, entry.id, now_.time};
  }
  ++owned_[added.owner];
  return added;
}

void PgScene::note(Entry& entry) {
  for (Claim* claim : entry.machine.take_changed()) {
    changed_[claim->id] = {&entry, claim};
    entry.is_changed = true;
    if (!claim->is_final()) continue;
    if (claim->status == Status::expired) ++expired_;
    const auto owned = owned_.find(claim->owner);
    if (owned != owned_.end() && owned->second > 0) --owned->second;
  }
}

std::uint64_t PgScene::granted() const {
  std::uint64_t all = 0;
  for (const auto& [id, entry] : entries_) all += entry.machine.fence() - entry.first_fence;
  return all;
}

/// A lease that is over matters only to those who wait.
std::optional<Micros> PgScene::due_of(const Entry& entry) const {
  if (entry.machine.waiting().empty()) return std::nullopt;
  return entry.machine.next_due(now_.time);
}

std::optional<Micros> PgScene::due() const {
  std::optional<Micros> first;
  for (const auto& [id, entry] : entries_) {
    const auto due = due_of(entry);
    if (due && (!first || *due < *first)) first = due;
  }
  return first;
}

bool PgScene::has_new_due() const {
  return std::any_of(entries_.begin(), entries_.end(), [this](const auto& item) {
    return due_of(item.second) != stored_due_.at(item.first);
  });
}

std::vector<PgStatement> PgScene::writing() {
  std::vector<PgStatement> statements;
  std::vector<const Claim*> old;
  std::map<std::int64_t, std::vector<const Claim*>> fresh;
  std::vector<ClaimId> light;
  for (const auto& [id, change] : changed_) {
    if (new_.count(id) != 0) {
      fresh[change.first->id].push_back(change.second);
    } else {
      old.push_back(change.second);
    }
    if (whole_.count(id) == 0) light.push_back(id);
  }
  // First, so that its rows are known by their place.
  statements.push_back(
      {"SELECT id, key, user_data FROM holdfast.claims "
       "WHERE id = ANY($1::bigint[])",
       {pg_array(light)}});
  if (!old.empty()) statements.push_back(update_claims(old, attempt_));
  for (const auto& [resource, claims] : fresh) {
    statements.push_back(insert_claims(resource, claims, attempt_));
    for (const Claim* claim : claims) {
      if (!claim->key.empty()) {
        put_key(statements, *claim, now_.time - kKeyLife);
      }
    }
  }
  for (const auto& [id, entry] : entries_) {
    const auto due = due_of(entry);
    if (!entry.is_changed && due == stored_due_.at(id)) continue;
    statements.push_back(
        {"UPDATE holdfast.resources SET fence = $2::bigint, seen = $3::bigint, "
         "due = nullif($4::bigint, 0), attempt = $5::bigint WHERE id = $1::bigint",
         {std::to_string(id), std::to_string(entry.machine.fence()),
          std::to_string(now_.time.count()), std::to_string(due ? due->count() : 0),
          std::to_string(attempt_)}});
  }
  return statements;
}

std::optional<PgError> PgScene::commit(PgConnection& connection) {
  std::vector<PgStatement> statements = writing();
  statements.push_back({"COMMIT"});
  auto told = connection.run(statements);
  if (auto* error = std::get_if<PgError>(&told)) {
    if (error->is_lost || error->statement + 1 == statements.size()) {
      PgDoubt doubt{transaction_, backend_, attempt_, {}, changed_ids(), {}};
      for (const auto& [id, entry] : entries_) doubt.resources.push_back(id);
      for (const ClaimId id : new_) {
        if (claims_.at(id)->key.empty()) doubt.posted.push_back(id);
      }
      doubt_ = std::move(doubt);
    }
    return *error;
  }
  const auto& rows = std::get<0>(told);
  if (rows.back().command() != "COMMIT") return PgError{"the transaction was rolled back"};
  complete(rows.front());
  return std::nullopt;
}

void PgScene::complete(const PgRows& rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Claim& claim = *claims_.at(static_cast<ClaimId>(rows.number(i, 0)));
    claim.key = rows.text(i, 1);
    claim.user_data = rows.text(i, 2);
  }
}

std::vector<View> PgScene::views() const {
  std::vector<View> all;
  for (const auto& [id, change] : changed_) {
    all.push_back({*change.second, change.first->machine.position(*change.second)});
  }
  return all;
}

std::vector<ClaimId> PgScene::changed_ids() const {
  std::vector<ClaimId> ids;
  for (const auto& [id, change] : changed_) ids.push_back(id);
  return ids;
}

}  // namespace holdfast::server
