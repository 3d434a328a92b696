#include "composite/holder.h"

#include <unistd.h>

#include "identity/local_id.h"

namespace holdfast::composite {

std::optional<Holder> Holder::this_process(std::string& why, disk::Disk& disk) {
  auto local = std::make_shared<const identity::LocalId>(disk);
  const auto self = local->identify(std::to_string(getpid()), why);
  if (!self) return std::nullopt;
  return Holder{*self, *self, std::move(local)};
}

bool Holder::can_see(const std::optional<Record>& process) const {
  const Record& here = waiter.record;
  return process && process->names_process() && process->boot == here.boot &&
         process->pidns == here.pidns;
}

identity::Verdict WaiterChecker::check(const Uid& id, const std::optional<Record>& record) const {
  if (holder_.can_see(record)) return identity::LocalId(disk::posix()).check(id, record);
  if (holder_.checker->reads_records()) return holder_.checker->check(id, record);
  return {identity::Life::unknown, "it is no process that can be seen from here"};
}

}  // namespace holdfast::composite
