#include "server/audit.h"

#include <algorithm>

#include "base/text.h"

namespace holdfast::server {

namespace {

std::string name_of(const Claim& claim) {
  return "claim " + std::to_string(claim.id) + " of \"" + printable(claim.resource) + "\"";
}

}  // namespace

void Audit::fault(const Claim& claim, const std::string& what) {
  faults_.push_back(name_of(claim) + ": " + what);
}

bool Audit::is_unknown(const Claim& claim) {
  return claim.status == Status::unknown || claim.mode == Mode::unknown;
}

std::string Audit::why_unknown(const Claim& claim) {
  return name_of(claim) +
         ": its status or mode is unknown, so nobody can tell whether it holds the resource; "
         "\"holdfastd check\" lists all such claims, and holdfastd(8) says how to repair them";
}

void Audit::add(const Claim& claim) {
  if (claim.id <= last_) fault(claim, "its id is not larger than the one before");
  last_ = claim.id;
  if (claim.resource.empty()) fault(claim, "has no resource");
  if (is_unknown(claim)) {
    fault(claim, "its status or mode is unknown");
    return;
  }
  if (claim.status == Status::active && !claim.was_active())
    fault(claim, "is active without a fence");
  if (claim.status == Status::waiting && claim.was_active()) fault(claim, "waits with a fence");
  if (claim.was_active() && claim.activated.time < claim.queued.time) {
    fault(claim, "was active before it was posted");
  }
  if (claim.is_final() && claim.ended.time < claim.queued.time) {
    fault(claim, "ended before it was posted");
  }
  Seen& seen = resources_[claim.resource];
  if (claim.was_active()) {
    const auto [other, is_first] = seen.fences.emplace(claim.fence, claim.id);
    if (!is_first) {
      fault(claim, "has the same fence as claim " + std::to_string(other->second));
    }
  }
  if (claim.status == Status::active) seen.active.push_back(claim);
}

std::vector<std::string> Audit::end() const {
  std::vector<std::string> faults = faults_;
  for (const auto& [name, seen] : resources_) {
    if (seen.active.size() < 2) continue;
    const Claim& first = seen.active.front();
    std::size_t places = seen.active.size();
    bool is_mixed = first.mode == Mode::exclusive;
    for (const Claim& claim : seen.active) {
      if (claim.mode != first.mode) is_mixed = true;
      if (claim.mode == Mode::counted) places = std::min<std::size_t>(places, claim.count);
    }
    if (is_mixed || places < seen.active.size()) {
      faults.push_back("resource \"" + printable(name) +
                       "\": " + std::to_string(seen.active.size()) +
                       " claims are active that exclude each other");
    }
  }
  return faults;
}

}  // namespace holdfast::server
