#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/record.h"
#include "base/uid.h"
#include "identity/identity.h"

namespace holdfast::identity {

/// What an id helper answered: an exit status, and the text that goes with 0.
struct Told {
  int code;
  std::string text{};
};

/// Makes ids of processes and takes them apart: what `--idhelper` of hostpid_lock names. Our own
/// ssh_id is asked in this process, any other program by its words (`WORD... uid PID` and so on).
class IdHelper {
 public:
  virtual ~IdHelper() = default;

  /// `uid PID`: of a running process of this host, or nothing with the reason in `why`.
  virtual std::optional<Identity> identify(const std::string& pid, std::string& why) const = 0;

  virtual bool is_valid_uid(const std::string& text) const = 0;
  virtual Told pid(const Uid& uid) const = 0;
  virtual Told hostid(const Uid& uid) const = 0;
  virtual int is_host_compatible(const std::string& host) const = 0;

  /// `kill UID SIGNAL`: KillExit, or why its host did not do it (SshIdExit).
  virtual int kill(const Uid& uid, const std::optional<Record>& record, int signal,
                   std::chrono::seconds patience) const = 0;
};

}  // namespace holdfast::identity
