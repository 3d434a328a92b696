#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "wire/status.h"

namespace holdfast::server {

using wire::Mode;
using wire::Status;

using ClaimId = std::uint64_t;  ///< from 1 up, never given twice
using Micros = std::chrono::microseconds;

/// A moment on both clocks. `time` is the store's own, never stepped, and decides; `wall` is shown.
struct Stamp {
  Micros time{};
  Micros wall{};  ///< since 1970
};

/// One client's wish for one resource, from the day it is posted until it is dropped. A plain
/// value: Resource alone moves it from one status to another.
struct Claim {
  ClaimId id = 0;
  std::string resource;
  std::string owner;      ///< who posted it; empty without authentication
  std::string key;        ///< of idempotency; empty if none was given
  std::string user_data;  ///< JSON text
  std::string reason;     ///< of a revocation
  Micros ttl{};           ///< as posted
  Micros waiting_ttl{};   ///< 0: may wait in silence for ever
  Mode mode = Mode::exclusive;
  Status status = Status::waiting;
  bool is_confirmed = false;  ///< its client has heard that it is active
  std::uint32_t count = 0;    ///< of a counted claim
  std::uint64_t fence = 0;    ///< 0: never active
  Stamp queued;
  Stamp activated;    ///< if fence != 0
  Stamp ended;        ///< if final
  Micros deadline{};  ///< of the lease, if fence != 0
  Micros heard{};     ///< until when a waiter counts as heard of; waiting_ttl runs from there

  bool was_active() const { return fence != 0; }
  bool is_final() const { return wire::is_final(status); }
  bool is_lapsed(Micros time) const { return status == Status::active && deadline <= time; }

  Micros waited(Micros time) const {
    return (was_active() ? activated.time : is_final() ? ended.time : time) - queued.time;
  }
  Micros was_active_for(Micros time) const {
    return (is_final() ? ended.time : time) - activated.time;
  }
};

}  // namespace holdfast::server
