#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/uid.h"
#include "identity/ladder.h"

namespace holdfast::identity {

/// FQDN:PID:START:BTIME, the id of a process somewhere in a cluster.
///
/// Anyone who may write to a lock directory may put any name there, and parts of it travel to other
/// hosts: the host must look like a host name and the rest must be numbers, or it is no such id.
struct SshUid {
  std::string host;
  TextId process;

  static std::optional<SshUid> parse(std::string_view text);
};

/// Letters, digits, dots, dashes and underscores, not beginning with a dash or a dot.
bool is_host_name(std::string_view text);

/// What `hostname --fqdn` prints on this host; empty if it would print nothing.
std::string full_host_name();

}  // namespace holdfast::identity
