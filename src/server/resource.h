#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "server/claim.h"

namespace holdfast::server {

/// What a client's wish came to.
enum class Outcome {
  active,       ///< the claim is active
  waiting,      ///< it stands in the queue
  ended,        ///< it has the final status that was asked for
  conflict,     ///< others are before it
  wrong_state,  ///< not from the status in which it is
};

/// The live claims of one resource, and every rule about them. Pure: no I/O, no clock, no ids of
/// its own; the same machine decides whether the claims come from memory or from rows of a
/// database.
///
/// Decides:  who is active. At most one exclusive claim, or shared ones only, or counted ones up
///           to the smallest count among them. Places are given from the head of the queue and
///           never past it, so the order of ids is the order of grants.
/// Promises: after each call the queue's head, if any, could not be active: promotion and expiry
///           never wait for somebody to ask. An owner is expired only when its lease is over and
///           somebody who cannot be active beside it waits.
/// Fence:    grows by one with each activation.
/// Owns:     nothing; the claims live where the caller keeps them, and stay put while they are in
///           here.
class Resource {
 public:
  /// `fence`: the highest that was ever given out for this name. A place that nobody asked for is
  /// held for at least `grant_grace`.
  explicit Resource(std::uint64_t fence, Micros grant_grace = {})
      : fence_(fence), grant_grace_(grant_grace) {}

  void set_grant_grace(Micros grace) { grant_grace_ = grace; }

  /// Takes in a live claim as it was stored; in the order of ids.
  void restore(Claim& claim);

  /// There was a claim with this fence, which may have ended since.
  void raise_fence(std::uint64_t fence) { fence_ = std::max(fence_, fence); }

  /// What is due at `now`: waiters that fell silent leave, lapsed owners make way, heads become
  /// active.
  void settle(Stamp now);

  /// Whether a new claim would be active at once, now that all that is due is settled.
  bool has_place_for(Mode mode, std::uint32_t count, Micros time) const;

  /// A new claim, with the highest id so far: active or waiting.
  Outcome enter(Claim& claim, Stamp now);

  /// The client of a waiter is there: its silence begins when the client goes, after `heard_for`.
  void hear(Claim& claim, Micros heard_for, Stamp now);

  /// "status: active". `heard_for`: how long the client stays on the line.
  Outcome activate(Claim& claim, Micros heard_for, Stamp now);

  /// "ttl: n": a lease of `ttl` from now.
  Outcome renew(Claim& claim, Micros ttl, Stamp now);

  /// A final status by somebody's wish, with the reason to be kept, if any.
  Outcome end(Claim& claim, Status final_status, const std::string& reason, Stamp now);

  /// The next moment at which time alone matters: a lease is over, or a waiter silent for too long.
  std::optional<Micros> next_due(Micros time) const;

  /// From 1 for the head; 0 if it does not wait.
  std::size_t position(const Claim& claim) const;

  const std::vector<Claim*>& active() const { return active_; }
  const std::deque<Claim*>& waiting() const { return waiting_; }
  std::vector<const Claim*> live() const;  ///< active and waiting, by id
  bool is_idle() const { return active_.empty() && waiting_.empty(); }
  std::uint64_t fence() const { return fence_; }

  /// The claims that were changed since the last call, each once, by id.
  std::vector<Claim*> take_changed();

 private:
  bool admits(Mode mode, std::uint32_t count, Micros lapsed_at) const;
  Claim* lapsed_first(Micros time) const;
  void make_active(Claim& claim, Micros lease, Stamp now);
  void finish(Claim& claim, Status final_status, const std::string& reason, Stamp now);
  void drop_silent(Stamp now);

  std::uint64_t fence_;
  Micros grant_grace_;
  std::vector<Claim*> active_;  ///< in the order in which they became so
  std::deque<Claim*> waiting_;  ///< by id
  std::size_t with_waiting_ttl_ = 0;
  std::vector<Claim*> changed_;
};

/// One of the two things that a client may change about a claim.
struct Change {
  std::optional<Micros> ttl;     ///< a lease of that length from now
  std::optional<Status> status;  ///< active, or final but for expired
  Micros heard_for{};            ///< how long the client stays on the line
};
Outcome apply(Resource& resource, Claim& claim, const Change& change, Stamp now);

/// The POST of `claim` came again under its idempotency key: active, waiting, or wrong_state if the
/// claim has ended. The client may have missed the first answer, so an active claim whose client
/// was never told, or whose lease is over, gets a new lease, as with "status: active".
Outcome repeat_post(Resource& resource, Claim& claim, Micros heard_for, Stamp now);

}  // namespace holdfast::server
