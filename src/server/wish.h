#pragma once

#include <string>

#include "server/claim.h"
#include "server/store.h"

namespace holdfast::server {

/// How long an idempotency key stands for its claim.
inline constexpr Micros kKeyLife = std::chrono::hours(24);

/// What an idempotency key is known by. Owners cannot hold a newline: see routes/auth.
std::string key_word(const std::string& owner, const std::string& key);

/// The claim that was wished for, still without an id.
Claim to_claim(const NewClaim& wish, Stamp now);

}  // namespace holdfast::server
