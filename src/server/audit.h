#pragma once

#include <map>
#include <string>
#include <vector>

#include "server/claim.h"

namespace holdfast::server {

/// Looks over stored claims, by id, for what no server could have written.
class Audit {
 public:
  void add(const Claim& claim);

  /// Returns true if the row has a status or a mode for which there is no word. Whether such a
  /// claim holds its resource cannot be told.
  static bool is_unknown(const Claim& claim);

  /// Returns why nothing can be decided about the resource of such a claim, and what to do.
  static std::string why_unknown(const Claim& claim);

  /// All that was found; none if it is sound.
  std::vector<std::string> end() const;

 private:
  struct Seen {
    std::vector<Claim> active;
    std::map<std::uint64_t, ClaimId> fences;
  };
  void fault(const Claim& claim, const std::string& what);

  ClaimId last_ = 0;
  std::map<std::string, Seen> resources_;
  std::vector<std::string> faults_;
};

}  // namespace holdfast::server
