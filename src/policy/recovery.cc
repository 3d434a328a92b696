#include "policy/recovery.h"

#include <algorithm>

#include "base/text.h"

namespace holdfast::policy {

using identity::Life;
using identity::Verdict;
using lock::Leaf;

namespace {

bool contains(std::span<const Uid> ids, const Uid& id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

std::vector<Uid> ids_of(std::span<const Leaf> leaves) {
  std::vector<Uid> ids;
  ids.reserve(leaves.size());
  for (const Leaf& leaf : leaves) ids.push_back(leaf.id);
  return ids;
}

}  // namespace

std::optional<Verdict> Recovery::staleness() const {
  std::optional<Verdict> worst;
  const auto weight = [](Life life) {
    return life == Life::dead ? 0 : life == Life::unknown ? 1 : 2;
  };
  std::error_code ec;
  for (Verdict& verdict : judge(lock_.owner(ec))) {
    if (!worst || weight(verdict.life) > weight(worst->life)) worst = std::move(verdict);
  }
  if (ec) worst = {Life::unknown, ec.message()};
  return worst;
}

std::vector<Uid> Recovery::clean_stale_owner() {
  const std::vector<Leaf> dead = dead_among(holders([](const Uid&) { return true; }));
  for (const Leaf& leaf : dead) log_.info("recovery needed for {}", leaf.id.str());
  clean(dead);
  return ids_of(dead);
}

void Recovery::clean_stale() {
  clean_stale_owner();
  clean_proposals(dead_among(lock_.proposals()));
}

std::vector<Uid> Recovery::clean_stale(std::span<const Uid> ids) {
  std::vector<Leaf> leaves = holders([&](const Uid& id) { return contains(ids, id); });
  const std::vector<Uid> holding = ids_of(leaves);
  for (Leaf& leaf : lock_.proposals()) {
    if (contains(ids, leaf.id) && !contains(holding, leaf.id)) leaves.push_back(std::move(leaf));
  }
  std::vector<Leaf> dead = dead_among(leaves);
  const auto proposers = std::stable_partition(
      dead.begin(), dead.end(), [&](const Leaf& leaf) { return contains(holding, leaf.id); });
  clean({dead.begin(), proposers});
  for (auto leaf = dead.begin(); leaf != proposers; ++leaf) {
    log_.info("cleaned stale id {}", leaf->id.str());
  }
  clean_proposals({proposers, dead.end()});
  return ids_of(dead);
}

void Recovery::clean(std::span<const Leaf> dead) {
  stuck_.clear();
  if (dead.empty()) return;
  const auto stuck = lock_.clean_stale(dead);
  if (!stuck) return;
  const std::string lock = lock_.path().native();
  const std::string id = stuck->id.str();
  stuck_ = lock + " is held by " + id + ", which is dead, but " + lock + "/owner/" + id +
           " cannot be removed: " + stuck->error.message() +
           ". As root or as the owner of that folder, type: " + way_out(stuck->id);
}

/// For a person who knows more than the checker.
std::string Recovery::way_out(const Uid& id) const {
  return "fast_lock clean_stale_ids " + shell_word(lock_.path().native()) + " " +
         shell_word(id.str());
}

lock::Answer Recovery::explained(lock::Answer answer) const {
  if (answer.outcome != lock::Outcome::contended || stuck_.empty()) return answer;
  lock::Answer failed{lock::Outcome::failed, stuck_};
  failed.is_stuck = true;
  return failed;
}

void Recovery::clean_proposals(const std::vector<Leaf>& dead) {
  if (dead.empty()) return;
  lock_.clean_proposals(ids_of(dead));
  for (const Leaf& leaf : dead) log_.info("cleaned stale id {}", leaf.id.str());
}

std::vector<Leaf> Recovery::holders(const std::function<bool(const Uid&)>& wanted) const {
  std::error_code ec;
  auto leaves = lock_.owner(wanted, ec);
  if (ec)
    log_.warn("WARNING: {}: cannot see who holds it: {}", lock_.path().native(), ec.message());
  return leaves;
}

std::vector<Leaf> Recovery::dead_among(std::span<const Leaf> leaves) const {
  const auto verdicts = judge(leaves);
  std::vector<Leaf> dead;
  dead.reserve(leaves.size());
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (verdicts[i].life == Life::dead) dead.push_back(leaves[i]);
    if (verdicts[i].life != Life::unknown || verdicts[i].is_told) continue;
    log_.warn(
        "WARNING: {}: unable to identify live/staleness for {}: {}. If you know that it has ended, "
        "type: {}",
        lock_.path().native(), leaves[i].id.str(), verdicts[i].why, way_out(leaves[i].id));
  }
  return dead;
}

std::vector<Verdict> Recovery::judge(std::span<const Leaf> leaves) const {
  if (leaves.empty()) return {};
  std::vector<identity::Subject> subjects;
  subjects.reserve(leaves.size());
  for (const Leaf& leaf : leaves) subjects.push_back({leaf.id, leaf.record});
  auto verdicts = checker_.check_all(subjects);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    if (verdicts[i].life == Life::dead && !leaves[i].is_readable && checker_.reads_records()) {
      verdicts[i] = {Life::unknown, "its record cannot be read"};
    }
    if (leaves[i].is_foreign) verdicts[i] = {Life::unknown, "it was not made by a locker"};
  }
  return verdicts;
}

}  // namespace holdfast::policy
