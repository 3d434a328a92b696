#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "claims/claim.h"

namespace holdfast::wire {

/// Appends the claim object of the API as it stood at `now`. `url_base` is the part of the URL
/// before the id. With an empty `url_base` the object has no url: that form is for files.
void put_claim(std::string& out, const claims::View& view, claims::Stamp now,
               std::string_view url_base);

/// A claim object as a client reads it: of our server, or of any other server of API v1.
struct ClaimObject {
  struct Moment {
    claims::Status status = claims::Status::waiting;
    std::string timestamp;  ///< RFC 2822
    std::string reason;     ///< empty if none was given
  };

  std::uint64_t id = 0;  ///< from the url if there is no `id`; 0 if neither has one
  std::string url;
  std::string resource;
  claims::Status status = claims::Status::waiting;
  claims::Mode mode = claims::Mode::exclusive;
  std::uint32_t count = 0;                ///< of a counted claim
  std::string user_data = "null";         ///< JSON text
  std::optional<double> ttl;              ///< seconds that are left of the lease, if active
  std::optional<double> active_duration;  ///< seconds
  double waiting_duration = 0;            ///< seconds
  std::uint64_t fence = 0;                ///< 0: none
  std::uint64_t position = 0;             ///< in the queue, counted from 1; 0: none
  bool has_position = false;  ///< the key is there: the server is ours and offers Prefer: wait
  std::string owner;          ///< empty without authentication
  std::string created;        ///< RFC 2822
  std::vector<Moment> history;
  double initial_ttl = 0;  ///< seconds; 0: the server did not say
};

/// Nothing if the text is not a JSON object or has no `status` that is the status of a claim. Any
/// other key that is missing or of a wrong type gets the default above. Unknown keys are ignored.
std::optional<ClaimObject> parse_claim_object(std::string_view text);

}  // namespace holdfast::wire
