#pragma once

#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/claim.h"
#include "server/resource.h"
#include "server/store.h"

namespace holdfast::server {

/// All claims of a server that is alone with them, in memory: every resource, every index, every
/// limit.
///
/// Decides:  through Resource. Moments are given; nothing here waits or writes.
/// Promises: whatever a call changed is told once by take_changes(), to be made durable before
///           anybody hears of it.
/// Fence:    a resource that is forgotten leaves the floor from which a later one of that name
///           goes on.
class Book {
 public:
  explicit Book(const Rules& rules) : rules_(rules) {}

  /// All that was stored; the claims by id. Once, at first.
  void restore(std::vector<Claim> claims, ClaimId last_id, std::uint64_t fence_floor);

  Answer post(const NewClaim& wish, Stamp now);
  Answer patch(ClaimId id, const Change& change, const Caller& caller, Stamp now);
  std::vector<ClaimId> revoke(const RevokeFilter& filter, const std::string& reason, Stamp now);

  Answer claim(ClaimId id, Stamp now) const;
  std::vector<View> list(const ListQuery& query, Stamp now) const;
  std::vector<ResourceView> resources(const ResourceQuery& query) const;
  QueueView queue(const std::string& name, std::size_t limit, std::size_t offset) const;
  std::uint64_t fence(const std::string& name) const;
  Totals totals() const { return totals_; }
  const Counters& counters() const { return counters_; }

  /// All that time alone brings about until `now`.
  void settle_due(Stamp now);

  /// When that, or the dropping of ended claims, has something to do next.
  std::optional<Micros> next_due() const;

  /// Ended claims that need not be kept any more, at most `limit` of them.
  void drop_ended(Stamp now, std::size_t limit);

  struct Changes {
    std::vector<const Claim*> claims;  ///< valid until the next call
    std::vector<Claim> dropped;
    ClaimId last_id = 0;
    std::uint64_t fence_floor = 0;
  };
  Changes take_changes();
  bool has_changes() const { return !changed_.empty() || !dropped_.empty(); }

  View view(const Claim& claim) const;
  ClaimId last_id() const { return last_id_; }

  /// The rules that were given have other values now.
  void rules_changed();

 private:
  struct Entry {
    std::string name;
    Resource resource;
    std::deque<ClaimId> claims;  ///< live and ended, by id
    std::optional<Micros> due;
    std::size_t active = 0, waiting = 0;  ///< as counted in totals_
    std::uint64_t fence = 0;              ///< as counted in counters_
  };
  using Entries = std::map<std::string, Entry, std::less<>>;

  Entry& entry(const std::string& name);
  void keep(Entry& entry, Claim& claim);
  void note(Entry& entry, Micros time);
  void count(Entry& entry);
  void count_live(const Claim& claim, int difference);
  Claim* remembered(const NewClaim& wish, Stamp now);
  ResourceView resource_view(const Entry& entry) const;
  bool is_droppable(Micros time) const;
  void forget(const Claim& claim);

  const Rules& rules_;
  ClaimId last_id_ = 0;
  std::uint64_t fence_floor_ = 0;
  std::map<ClaimId, Claim> claims_;
  Entries entries_;
  std::set<ClaimId> live_;
  std::set<std::pair<Micros, Entry*>> due_;
  std::deque<std::pair<Micros, ClaimId>> ended_;  ///< by the time of the end
  std::unordered_map<std::string, ClaimId> keys_;
  std::unordered_map<std::string, std::size_t> live_of_owner_;
  std::vector<const Claim*> changed_;
  std::vector<Claim> dropped_;
  Totals totals_;
  Counters counters_;
};

}  // namespace holdfast::server
