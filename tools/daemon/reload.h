#pragma once

#include <string>

#include "daemon/options.h"
#include "routes/auth.h"

namespace holdfast::daemon {

/// Returns why a running server must not take over the options `wanted`, or an empty string.
///
/// A reload never removes the need for a token, and it is checked against the addresses that
/// `in_force` has bound: a reload opens and closes no sockets, so the addresses in `wanted` say
/// nothing about who can connect.
std::string why_not_to_reload(const Options& in_force, const Options& wanted);

/// Returns `wanted` with what needs a restart as it is in force, above all the bound addresses.
Options after_reload(const Options& in_force, Options wanted);

/// Returns what differs between two sets of options and of tokens, as one line for the log.
/// Either pointer may be null. The store is named without its value, which can hold a password.
std::string describe_changes(const Options& before, const Options& after,
                             const routes::Tokens* tokens_before,
                             const routes::Tokens* tokens_after);

}  // namespace holdfast::daemon
