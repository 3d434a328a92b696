#pragma once

#include <string>
#include <vector>

#include "identity/id_helper.h"
#include "identity/local_id.h"
#include "identity/program.h"

namespace holdfast::identity {

/// An id helper that is a program:
///
///     WORD... uid PID                   prints the id of a running process, else exits with 1
///     WORD... pid UID                   prints the pid in an id, or exits with what is wrong
///     WORD... hostid UID                prints the host in it, likewise
///     WORD... is_host_compatible HOST   exits with 0 if that host can be asked
///     WORD... kill UID SIGNAL           need not be known
///     WORD... is_valid_uid TEXT         need not be known: then it is one if `pid` finds one in it
///
/// The record of such an id tells who locks and from where, but no process: what the id means is
/// the program's business.
class CommandIdHelper final : public IdHelper {
 public:
  CommandIdHelper(std::vector<std::string> words, disk::Disk& disk)
      : words_(std::move(words)), local_(disk) {}

  std::optional<Identity> identify(const std::string& pid, std::string& why) const override;
  bool is_valid_uid(const std::string& text) const override;
  Told pid(const Uid& uid) const override { return told("pid", uid.str()); }
  Told hostid(const Uid& uid) const override { return told("hostid", uid.str()); }
  int is_host_compatible(const std::string& host) const override;
  int kill(const Uid& uid, const std::optional<Record>& record, int signal,
           std::chrono::seconds patience) const override;

 private:
  std::vector<std::string> words_and(std::initializer_list<std::string> more) const;
  Told told(const std::string& action, const std::string& word,
            Output output = Output::captured) const;

  std::vector<std::string> words_;
  LocalId local_;
};

}  // namespace holdfast::identity
