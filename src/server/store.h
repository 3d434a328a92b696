#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/log.h"
#include "server/claim.h"
#include "server/resource.h"

namespace holdfast::server {

/// The thread on which a store is called and calls back, with its timers.
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// Runs `task` on that thread, soon, behind all that were posted before. From any thread.
  virtual void post(std::function<void()> task) = 0;

  /// From that thread: after what is ready now, so that requests which came together are one batch.
  virtual void defer(std::function<void()> task) = 0;

  /// From that thread. Cancelled when the handle goes.
  using Timer = std::shared_ptr<void>;
  virtual Timer after(std::chrono::nanoseconds delay, std::function<void()> task) = 0;
};

/// What may be set without a restart.
struct Rules {
  Micros grant_grace{};
  std::size_t max_queue = 100000;              ///< waiting claims of one resource
  std::size_t max_claims_per_owner = 0;        ///< live ones; 0: any number
  Micros retain = std::chrono::hours(7 * 24);  ///< how long ended claims are kept
  std::size_t retain_claims = 1000000;         ///< and how many of them
  std::string archive;  ///< file to which dropped claims are appended as JSON lines; empty: none
};

/// Who asks. Without authentication everybody is nobody and may do all.
struct Caller {
  std::string name;
  bool is_admin = true;
};

struct NewClaim {
  std::string resource;
  std::string owner;
  std::string key;
  std::string user_data;
  Micros ttl{};
  Micros waiting_ttl{};
  Mode mode = Mode::exclusive;
  std::uint32_t count = 0;
  Micros heard_for{};  ///< how long the client stays on the line
};

struct Answer {
  enum class Kind {
    done,         ///< `outcome` says what it came to
    not_found,    ///< no such claim
    forbidden,    ///< not the caller's claim
    key_misused,  ///< the idempotency key belongs to a claim of another resource
    queue_full,   ///< as long as Rules allow
    too_many,     ///< as many claims as Rules allow one owner
    unavailable,  ///< the database does not take or tell it; nothing was changed. `reason` says why
  };
  Kind kind = Kind::done;
  Outcome outcome = Outcome::active;
  View view;                 ///< with done
  ClaimId active_claim = 0;  ///< with conflict: who holds it
  Micros time_to_lapse{};  ///< with waiting and conflict: until the first lease in the way is over
  Stamp now;
  std::string reason;
};

/// What GET /v1/claims/ asks for; bounds are inclusive.
struct ListQuery {
  template <class T>
  struct Range {
    std::optional<T> minimum, maximum;
    bool is_set() const { return minimum || maximum; }
    bool contains(T value) const {
      return (!minimum || value >= *minimum) && (!maximum || value <= *maximum);
    }
  };
  std::optional<std::string> resource;
  std::optional<Status> status;
  std::optional<Mode> mode;
  Range<Micros> ttl, active_duration, waiting_duration, created;  ///< created: wall time
  std::size_t limit = 10, offset = 0;

  /// Of one claim at `time`, all but the paging.
  bool fits(const Claim& claim, Micros time) const;
};

struct ResourceView {
  std::string name;
  std::vector<View> active;
  std::size_t queue_length = 0;
  std::uint64_t fence = 0;
};

struct ResourceQuery {
  std::string contains;  ///< in the name
  bool with_idle = false;
  std::size_t limit = 100, offset = 0;
};

struct QueueView {
  ResourceView resource;
  std::vector<View> waiting;
};

struct RevokeFilter {
  std::optional<ClaimId> claim;
  std::optional<std::string> resource;
  std::optional<std::string> owner;
  std::optional<Status> status;

  bool fits(const Claim& claim) const;
};

struct Totals {
  std::size_t active = 0, waiting = 0, resources = 0, claims = 0;  ///< resources: with live claims
};

/// What this server has done since it started; for /metrics.
struct Counters {
  std::uint64_t granted = 0, expired = 0, commits = 0, committed_changes = 0, commit_failures = 0;
  std::chrono::nanoseconds commit_time{}, commit_time_max{};
};

/// A result, or why the database did not give it.
template <class T>
struct Told {
  std::optional<T> value;
  Stamp now;
  std::string reason;  ///< without a value
};

/// All claims there are, behind one of several databases.
///
/// Decides:  by Resource, for every database alike.
/// Promises: no answer tells of a change that a kill or a power cut could undo; a change that is
///           answered with "unavailable" has not happened, except where a store's header says how
///           it could have, and what becomes of it then. Every callback is called once, and let
///           go, on the scheduler's thread, never before the call that asked for it has returned.
/// Threads:  calls from the scheduler's thread only.
class Store {
 public:
  using Done = std::function<void(const Answer&)>;
  template <class T>
  using Tell = std::function<void(Told<T>)>;

  virtual ~Store() = default;

  virtual void post(NewClaim wish, Done done) = 0;
  virtual void patch(ClaimId id, Change change, Caller caller, Done done) = 0;

  /// All that fit, in one step. Tells their ids.
  virtual void revoke(RevokeFilter filter, std::string reason, Tell<std::vector<ClaimId>> tell) = 0;

  virtual void claim(ClaimId id, Done done) = 0;
  virtual void list(ListQuery query, Tell<std::vector<View>> tell) = 0;
  virtual void resources(ResourceQuery query, Tell<std::vector<ResourceView>> tell) = 0;
  virtual void queue(std::string name, std::size_t limit, std::size_t offset,
                     Tell<QueueView> tell) = 0;
  virtual void fence(std::string name, Tell<std::uint64_t> tell) = 0;
  virtual void totals(Tell<Totals> tell) = 0;

  /// Called with each claim that was changed, after the change is durable and was answered.
  using Listener = std::function<void(const View&, Stamp now)>;
  virtual void on_change(Listener listener) = 0;

  /// Somebody waits for news of this claim: the listener will hear of its activation or its end
  /// even if another server brings it about. Until unwatch.
  virtual void watch(ClaimId id) = 0;
  virtual void unwatch(ClaimId id) = 0;

  virtual void set_rules(Rules rules) = 0;

  /// Why the database cannot be used now; nothing if it can.
  virtual std::optional<std::string> trouble() const = 0;
  virtual Counters counters() const = 0;
  virtual std::string_view kind() const = 0;  ///< "sqlite", "postgres" or "memory"

  /// Lets what was asked for be finished, then calls `done`; nothing may be asked any more.
  virtual void close(std::function<void()> done) = 0;
};

/// A place to keep claims: "sqlite:FILE", "postgres:CONNINFO" or "memory:".
struct StoreError {
  std::string why;
};
std::variant<std::unique_ptr<Store>, StoreError> open_store(const std::string& where, Rules rules,
                                                            Scheduler& scheduler, Log log);

/// Everything in a database, read without serving it. For `holdfastd check` and `export`. `now` is
/// the moment by which leases run there: of the last change, where the clock stands still without
/// a server.
struct Inspection {
  std::vector<std::string> faults;  ///< of the file and of the claims in it; none: sound
  std::size_t claims = 0;
};
using Inspector = std::function<void(const Claim& claim, Stamp now)>;
std::variant<Inspection, StoreError> inspect_store(const std::string& where, const Inspector& each);

}  // namespace holdfast::server
