#pragma once

#include "claims/claim.h"

namespace holdfast::server {

using claims::Claim;
using claims::ClaimId;
using claims::Micros;
using claims::Mode;
using claims::Stamp;
using claims::Status;
using claims::View;

}  // namespace holdfast::server
