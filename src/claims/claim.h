#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "claims/status.h"

namespace holdfast::claims {

using ClaimId = std::uint64_t;  ///< counted from 1; an id is never given twice
using Micros = std::chrono::microseconds;

/// A moment on both clocks. Leases run on `time`, the store's own clock, which is never stepped.
/// `wall` is only shown.
struct Stamp {
  Micros time{};
  Micros wall{};  ///< since 1970
};

/// The claim of one client on one resource, from its POST until it is dropped from the store. A
/// plain value: the code that decides about statuses is elsewhere.
struct Claim {
  ClaimId id = 0;
  std::string resource;
  std::string owner;      ///< the principal that posted it; empty without authentication
  std::string key;        ///< the Idempotency-Key; empty if none was given
  std::string user_data;  ///< JSON text
  std::string reason;     ///< why it was revoked
  Micros ttl{};           ///< as posted
  Micros waiting_ttl{};   ///< 0: the client may stay silent for ever while it waits
  Mode mode = Mode::exclusive;
  Status status = Status::waiting;
  bool is_confirmed = false;  ///< its client was told that it is active
  std::uint32_t count = 0;    ///< of a counted claim
  std::uint64_t fence = 0;    ///< 0: never active
  Stamp queued;
  Stamp activated;    ///< if fence != 0
  Stamp ended;        ///< if final
  Micros deadline{};  ///< of the lease, if fence != 0
  Micros heard{};     ///< a waiting client counts as heard of until then; then waiting_ttl starts

  bool was_active() const { return fence != 0; }
  bool is_final() const { return claims::is_final(status); }
  bool is_lapsed(Micros time) const { return status == Status::active && deadline <= time; }

  Micros waited(Micros time) const {
    return (was_active() ? activated.time : is_final() ? ended.time : time) - queued.time;
  }
  Micros was_active_for(Micros time) const {
    return (is_final() ? ended.time : time) - activated.time;
  }
};

/// A claim as it stood at a moment.
struct View {
  Claim claim;
  std::size_t position = 0;  ///< in the queue, counted from 1; 0 if the claim does not wait
};

}  // namespace holdfast::claims
