#pragma once

#include "server/resource.h"
#include "server/store.h"

namespace holdfast::server {

/// A wish that was not carried out.
Answer refusal(Answer::Kind kind, Stamp now);

/// What a wish about `claim` came to, as its resource stands now.
Answer answer_of(Outcome outcome, const Resource& resource, const Claim& claim, Stamp now);

}  // namespace holdfast::server
