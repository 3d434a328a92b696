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

/// How long a ticket counts if nobody can judge its waiter.
struct TicketTimes {
  std::chrono::nanoseconds renewal = std::chrono::seconds(30);  ///< a waiter renews it that often
  /// Not renewed for that long, by the clock of the filesystem, it is removed. A waiter that was
  /// busy with one slow check must not lose its place.
  std::chrono::seconds limit = std::chrono::minutes(2);
};

/// For whom a lock is taken, and how the others are judged.
struct Holder {
  identity::Identity self;  ///< who holds it in the end
  identity::Identity
      waiter;  ///< who stands in line for it: if that process dies, so does the place
  std::shared_ptr<const identity::Checker> checker;
  std::optional<std::chrono::seconds> grace{};  ///< as policy::Rules
  const Log& log = silent_log();
  TicketTimes ticket_times{};

  policy::Rules rules() const { return {*checker, grace, false, real_clock(), log}; }

  /// Whether that is a process that this host can see at first hand.
  bool can_see(const std::optional<Record>& process) const;

  /// The process that runs this code, among processes of this host. Nothing, with the reason in
  /// `why`, where procfs does not show it.
  static std::optional<Holder> this_process(std::string& why, disk::Disk& disk = disk::posix());
};

/// Judges those who wait for others, which are processes whatever the ids of holders are: those of
/// this host at first hand, others by the checker of holders if that one knows processes.
class WaiterChecker final : public identity::Checker {
 public:
  explicit WaiterChecker(const Holder& holder) : holder_(holder) {}

  identity::Verdict check(const Uid& id, const std::optional<Record>& record) const override;
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return holder_.checker->is_cheap(); }

 private:
  const Holder& holder_;
};

}  // namespace holdfast::composite
