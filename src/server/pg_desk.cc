#include "server/pg_desk.h"

#include <algorithm>
#include <utility>

#include "server/answers.h"
#include "server/pg_rows.h"
#include "server/pg_transaction.h"
#include "server/wish.h"

namespace holdfast::server {
namespace {

Answer repeat(PgScene& scene, PgScene::Entry& entry, const PgScene::Key& key, Micros heard_for) {
  Claim* claim = key.resource == entry.id ? scene.find(key.claim) : nullptr;
  if (claim == nullptr) return refusal(Answer::Kind::key_misused, scene.now());
  const Outcome outcome = repeat_post(entry.machine, *claim, heard_for, scene.now());
  scene.note(entry);
  return answer_of(outcome, entry.machine, *claim, scene.now());
}

Answer post(PgScene& scene, PgScene::Entry& entry, const NewClaim& wish, const Rules& rules) {
  const Stamp now = scene.now();
  if (!wish.key.empty()) {
    const auto key = scene.key(key_word(wish.owner, wish.key));
    if (key && now.time - key->queued < kKeyLife) {
      return repeat(scene, entry, *key, wish.heard_for);
    }
  }
  if (rules.max_claims_per_owner != 0 && !wish.owner.empty() &&
      scene.owned(wish.owner) >= rules.max_claims_per_owner) {
    return refusal(Answer::Kind::too_many, now);
  }
  entry.machine.settle(now);
  scene.note(entry);
  if (entry.machine.waiting().size() >= rules.max_queue &&
      !entry.machine.has_place_for(wish.mode, wish.count, now.time)) {
    return refusal(Answer::Kind::queue_full, now);
  }
  Claim& claim = scene.add(entry, to_claim(wish, now));
  const Outcome outcome = entry.machine.enter(claim, now);
  scene.note(entry);
  return answer_of(outcome, entry.machine, claim, now);
}

Answer patch(PgScene& scene, PgScene::Entry* entry, const PgWish::Patch& wish) {
  const Stamp now = scene.now();
  Claim* claim = entry == nullptr ? nullptr : scene.find(wish.id);
  if (claim == nullptr) return refusal(Answer::Kind::not_found, now);
  if (!wish.caller.is_admin && wish.caller.name != claim->owner) {
    return refusal(Answer::Kind::forbidden, now);
  }
  const Outcome outcome = apply(entry->machine, *claim, wish.change, now);
  scene.note(*entry);
  return answer_of(outcome, entry->machine, *claim, now);
}

PgScene::Plan plan_for(const std::string& name, std::span<const PgWish> wishes,
                       const Rules& rules) {
  PgScene::Plan plan;
  plan.name = name;
  for (const PgWish& wish : wishes) {
    if (const auto* change = std::get_if<PgWish::Patch>(&wish.what)) {
      plan.targets.push_back(change->id);
      continue;
    }
    const auto& fresh = std::get<NewClaim>(wish.what);
    plan.makes_it = true;
    ++plan.ids;
    if (!fresh.key.empty()) plan.keys.push_back(key_word(fresh.owner, fresh.key));
    if (rules.max_claims_per_owner != 0 && !fresh.owner.empty()) {
      plan.owners.push_back(fresh.owner);
    }
  }
  return plan;
}

PgTold<std::vector<std::int64_t>> resources_with(PgConnection& connection,
                                                 const RevokeFilter& filter) {
  std::string sql =
      "SELECT DISTINCT c.resource FROM holdfast.claims c JOIN holdfast.resources r "
      "ON r.id = c.resource WHERE c.status < 2";
  std::vector<std::string> parameters;
  const auto also = [&](const std::string& condition, std::string value) {
    parameters.push_back(std::move(value));
    sql += " AND " + condition + pg_place(parameters.size());
  };
  if (filter.claim) also("c.id = ", std::to_string(static_cast<std::int64_t>(*filter.claim)));
  if (filter.resource) {
    parameters.push_back(*filter.resource);
    sql += " AND r.hash = " + pg_hash(pg_place(parameters.size()));
  }
  if (filter.owner) also("c.owner = ", *filter.owner);
  auto told = pg_begin(connection, PgUse::look, {{sql, parameters}, {"COMMIT"}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  std::vector<std::int64_t> resources;
  const PgRows& rows = std::get<0>(told)[0];
  for (std::size_t i = 0; i < rows.size(); ++i) resources.push_back(rows.number(i, 0));
  return resources;
}

}  // namespace

PgTold<PgDecision> pg_decide(PgConnection& connection, const std::string& name,
                             std::span<const PgWish> wishes, const Rules& rules) {
  auto opened = PgScene::open(connection, plan_for(name, wishes, rules), rules.grant_grace);
  if (auto* error = std::get_if<PgError>(&opened)) return *error;
  PgDecision decision{std::move(std::get<0>(opened)), {}};
  PgScene& scene = *decision.scene;
  for (const PgWish& wish : wishes) {
    const auto* fresh = std::get_if<NewClaim>(&wish.what);
    decision.answers.push_back(
        fresh != nullptr ? post(scene, *scene.only(), *fresh, rules)
                         : patch(scene, scene.only(), std::get<PgWish::Patch>(wish.what)));
  }
  return decision;
}

PgTold<std::unique_ptr<PgScene>> pg_settle(PgConnection& connection,
                                           const std::vector<std::int64_t>& resources,
                                           bool skips_locked, const Rules& rules) {
  PgScene::Plan plan;
  plan.resources = resources;
  plan.skips_locked = skips_locked;
  auto opened = PgScene::open(connection, plan, rules.grant_grace);
  if (auto* error = std::get_if<PgError>(&opened)) return *error;
  PgScene& scene = *std::get<0>(opened);
  for (auto& [id, entry] : scene.entries()) {
    entry.machine.settle(scene.now());
    scene.note(entry);
  }
  return opened;
}

PgTold<std::unique_ptr<PgScene>> pg_revoke(PgConnection& connection, const RevokeFilter& filter,
                                           const std::string& reason, const Rules& rules,
                                           std::vector<ClaimId>& revoked) {
  auto found = resources_with(connection, filter);
  if (auto* error = std::get_if<PgError>(&found)) return *error;
  auto opened = pg_settle(connection, std::get<0>(found), false, rules);
  if (auto* error = std::get_if<PgError>(&opened)) return *error;
  PgScene& scene = *std::get<0>(opened);
  if (scene.unknown()) return PgError{*scene.unknown()};
  revoked.clear();
  for (auto& [id, entry] : scene.entries()) {
    std::vector<Claim*> fitting;
    for (Claim& claim : entry.claims) {
      if (!claim.is_final() && filter.fits(claim)) fitting.push_back(&claim);
    }
    // From the back: a waiter that is to go must not become active for a moment.
    for (auto claim = fitting.rbegin(); claim != fitting.rend(); ++claim) {
      (void)entry.machine.end(**claim, Status::revoked, reason, scene.now());  // they are live
      scene.note(entry);
      revoked.push_back((*claim)->id);
    }
  }
  std::sort(revoked.begin(), revoked.end());
  return opened;
}

}  // namespace holdfast::server
