#pragma once

#include <optional>
#include <string>
#include <vector>

#include "server/claim.h"

namespace holdfast::server {

/// Appends the claims to a file, a JSON line each, and has them on disk before it returns. The
/// reason if that failed; a line may then be half there. Called again after a crash it writes them
/// twice.
std::optional<std::string> archive(const std::string& file, const std::vector<Claim>& claims);

}  // namespace holdfast::server
