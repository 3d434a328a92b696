#pragma once

#include "identity/id_helper.h"
#include "identity/local_id.h"

namespace holdfast::identity {

/// local_id as an id helper. Its ids name no host: what is asked about hosts is a usage error, as
/// it is for the tool.
class LocalIdHelper final : public IdHelper {
 public:
  explicit LocalIdHelper(disk::Disk& disk) : local_(disk) {}

  std::optional<Identity> identify(const std::string& pid, std::string& why) const override {
    return local_.identify(pid, why);
  }
  bool is_valid_uid(const std::string& text) const override {
    return LocalId::pid_of(Uid::found(text)).has_value();
  }
  Told pid(const Uid& uid) const override;
  Told hostid(const Uid& uid) const override;
  int is_host_compatible(const std::string& host) const override;
  int kill(const Uid& uid, const std::optional<Record>& record, int signal,
           std::chrono::seconds patience) const override;

 private:
  LocalId local_;
};

}  // namespace holdfast::identity
