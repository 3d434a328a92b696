#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/pg_connection.h"
#include "server/resource.h"
#include "server/store.h"

namespace holdfast::server {

/// No server was seen for too long: before anything is decided, leases must get that time back.
/// See pg_upkeep.h.
inline constexpr auto kPgStale = "HF001";
/// The resource's row was dropped just now: the same again makes a new one.
inline constexpr auto kPgGone = "HF002";

inline constexpr Micros kPgBeatDue = std::chrono::milliseconds(1500);

/// What is left of a transaction whose COMMIT was sent and never answered.
struct PgDoubt {
  std::string transaction;  ///< xid8
  std::int64_t backend = 0;
  std::int64_t attempt = 0;
  std::vector<std::int64_t> resources;
  std::vector<ClaimId> changed;
  std::vector<ClaimId> posted;  ///< without a key: nobody could ask for them again
};

/// One transaction: some resources, locked, with all their live claims, at one moment.
///
/// Decides:  through Resource, at the time of the database, taken after the locks were there. So
///           time does not go back from one transaction to the next on a resource; if the
///           database's clock does, the latest moment of that resource stands until it has caught
///           up.
/// Costs:    one round trip to open, one to commit.
/// Commit:   an error that came before COMMIT was handled means that nothing happened. If the
///           connection broke later, in_doubt() tells what to ask for.
class PgScene {
 public:
  struct Plan {
    std::optional<std::string> name{};      ///< of the one resource that it is about,
    std::vector<std::int64_t> resources{};  ///< or the numbers of several
    bool makes_it = false;                  ///< the one, if there is none of that name
    bool skips_locked = false;              ///< those that others work on are left out
    std::size_t ids = 0;                    ///< for how many new claims
    std::vector<ClaimId> targets{};         ///< claims wanted whole, ended ones too
    std::vector<std::string> keys{};        ///< of idempotency, by key_word
    std::vector<std::string> owners{};      ///< whose live claims are to be counted
  };
  struct Entry {
    Entry(std::int64_t number, std::string called, std::uint64_t fence, Micros grant_grace)
        : id(number), name(std::move(called)), machine(fence, grant_grace), first_fence(fence) {}

    std::int64_t id;
    std::string name;
    Resource machine;
    std::uint64_t first_fence;   ///< before anything was done
    std::deque<Claim> claims{};  ///< live ones and targets; in place while the scene lasts
    bool is_changed = false;
  };
  struct Key {
    ClaimId claim = 0;
    std::int64_t resource = 0;
    Micros queued{};
  };

  /// The one without rows: there is no such resource. If nobody can tell who holds a resource,
  /// because a claim of it has an unknown status or mode, nothing is decided about it: an error if
  /// the plan names it, and see unknown() if it is one of several.
  static PgTold<std::unique_ptr<PgScene>> open(PgConnection& connection, const Plan& plan,
                                               Micros grant_grace);

  Stamp now() const { return now_; }
  std::map<std::int64_t, Entry>& entries() { return entries_; }
  Entry* only() { return entries_.empty() ? nullptr : &entries_.begin()->second; }

  /// Why a resource of the plan was left out: one of its claims has an unknown status or mode.
  const std::optional<std::string>& unknown() const { return unknown_; }

  /// A target, or a live claim; nothing if it is not of these resources.
  Claim* find(ClaimId id);
  std::optional<Key> key(const std::string& word) const;
  std::size_t owned(const std::string& owner) const;

  /// A new claim, to be given to the machine; with the next of the ids.
  Claim& add(Entry& entry, Claim claim);

  /// To be called after each call to a machine.
  void note(Entry& entry);

  /// Whether there is anything to write.
  bool is_changed() const { return !changed_.empty() || has_new_due(); }

  std::optional<PgError> commit(PgConnection& connection);
  const std::optional<PgDoubt>& in_doubt() const { return doubt_; }

  // After commit.
  std::vector<View> views() const;  ///< of the claims that were changed
  std::vector<ClaimId> changed_ids() const;
  std::uint64_t granted() const;
  std::uint64_t expired() const { return expired_; }
  /// When time alone will change something next.
  std::optional<Micros> due() const;

 private:
  void take_resources(const PgRows& rows, Micros grant_grace);
  void leave_unknown(const PgRows& live);
  void take_live(const PgRows& live, const PgRows* targets);
  std::optional<Micros> due_of(const Entry& entry) const;
  bool has_new_due() const;
  std::vector<PgStatement> writing();
  void complete(const PgRows& rows);

  Stamp now_;
  std::string transaction_;
  std::int64_t backend_ = 0;
  std::int64_t attempt_ = 0;
  std::map<std::int64_t, Entry> entries_;
  std::map<std::int64_t, std::optional<Micros>> stored_due_;
  std::map<ClaimId, Claim*> claims_;
  std::set<ClaimId> whole_;  ///< loaded with all columns
  std::deque<ClaimId> ids_;
  std::map<std::string, Key> keys_;
  std::map<std::string, std::size_t> owned_;
  std::map<ClaimId, std::pair<Entry*, Claim*>> changed_;
  std::set<ClaimId> new_;
  std::optional<PgDoubt> doubt_;
  std::optional<std::string> unknown_;
  std::uint64_t expired_ = 0;
};

}  // namespace holdfast::server
