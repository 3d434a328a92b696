#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/log.h"
#include "identity/checker.h"
#include "identity/id_helper.h"
#include "identity/local_id.h"
#include "identity/program.h"
#include "identity/ssh_uid.h"

namespace holdfast::identity {

/// Ids of processes anywhere in a cluster: FQDN:PID:START:BTIME.
///
/// Decides:  dead only if the host that goes by that full name said so of itself, in an answer that
///           is whole; or this host, of a holder whose record has its boot id and pid namespace. A
///           host that is silent, cut off, frozen, renamed or unknown leaves everything unknown.
/// Journeys: are holdfast-ssh's, one for all that are asked together; none is made for an id that
///           is malformed, nor for a process whose record shows that it runs here.
/// Tells:    of each unknown the notifier hears once: `WORD... FQDN UID MESSAGE`.
class SshId final : public Checker, public IdHelper {
 public:
  struct Settings {
    std::vector<std::string> notifier{};  ///< none: the message goes to the log
    Output notifier_output = Output::ours;
    bool is_strict = false;    ///< only hosts with a known key
    bool is_insecure = false;  ///< any key
  };
  SshId(disk::Disk& disk, Settings settings, const Log& log);

  Verdict check(const Uid& uid, const std::optional<Record>& record) const override;
  std::vector<Verdict> check_all(std::span<const Subject> subjects) const override;
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return false; }

  std::optional<Identity> identify(const std::string& pid, std::string& why) const override;
  bool is_valid_uid(const std::string& text) const override;
  Told pid(const Uid& uid) const override;
  Told hostid(const Uid& uid) const override;
  int is_host_compatible(const std::string& host) const override;
  int kill(const Uid& uid, const std::optional<Record>& record, int signal,
           std::chrono::seconds patience) const override;

  /// Runs holdfast-ssh with these words.
  Ran travel(const std::vector<std::string>& words, Output output,
             const std::optional<std::string>& input = std::nullopt) const;

 private:
  std::vector<Verdict> ask(std::span<const Subject> subjects) const;
  std::optional<SshUid> parse(const Uid& uid) const;
  void notify(const Uid& uid, const Verdict& verdict) const;

  LocalId local_;
  Settings settings_;
  Log log_;
};

/// A line for holdfast-ssh: the id, and its record if there is one.
std::string to_line(const Subject& subject);
std::optional<Subject> parse_subject(std::string_view line);

/// And a line of its answer.
std::string to_line(const Uid& uid, const Verdict& verdict);
std::optional<Verdict> parse_verdict(const Uid& uid, std::string_view line);

/// Of an id that is none.
Verdict malformed();

/// alive, dead or unknown.
std::string_view word_of(Life life);

}  // namespace holdfast::identity
