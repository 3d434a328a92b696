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

}  // namespace holdfast::composite
