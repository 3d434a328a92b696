#include "server/wish.h"

namespace holdfast::server {

std::string key_word(const std::string& owner, const std::string& key) {
  return owner + '\n' + key;
}

Claim to_claim(const NewClaim& wish, Stamp now) {
  Claim claim;
  claim.resource = wish.resource;
  claim.owner = wish.owner;
  claim.key = wish.key;
  claim.user_data = wish.user_data;
  claim.ttl = wish.ttl;
  claim.waiting_ttl = wish.waiting_ttl;
  claim.mode = wish.mode;
  claim.count = wish.count;
  claim.heard = now.time + wish.heard_for;
  return claim;
}

}  // namespace holdfast::server
