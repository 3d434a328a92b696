#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/log.h"
#include "disk/disk.h"
#include "identity/checker.h"
#include "identity/identity.h"
#include "policy/policy.h"

namespace holdfast::composite {

/// For whom a lock is taken, and how the others are judged.
struct Holder {
  identity::Identity self;  ///< who holds it in the end
  identity::Identity
      waiter;  ///< who stands in line for it: if that process dies, so does the place
  std::shared_ptr<const identity::Checker> checker;
  std::optional<std::chrono::seconds> grace{};  ///< as policy::Rules
  const Log& log = silent_log();

  policy::Rules rules() const { return {*checker, grace, false, real_clock(), log}; }

  /// The process that runs this code, among processes of this host. Nothing, with the reason in
  /// `why`, where procfs does not show it.
  static std::optional<Holder> this_process(std::string& why, disk::Disk& disk = disk::posix());
};

}  // namespace holdfast::composite
