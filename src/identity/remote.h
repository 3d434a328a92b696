/// Judging processes of another host from what it says of them. Pure: the journey is
/// holdfast-ssh's.
///
/// The question is one line for a POSIX shell, so that it needs nothing installed there, and goes
/// through any login shell as it stands: `exec /bin/sh -c '...'` without a quote inside. Only
/// numbers are put into it. The answer is lines of a word and a value, between a line that begins
/// it (what a login says before is skipped) and one that ends it; each line proves by its last word
/// that it is whole. What is not whole tells nothing.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "identity/ladder.h"
#include "identity/ssh_uid.h"

namespace holdfast::identity {

/// Of these pids, and of the host itself.
std::string question(std::span<const std::uint64_t> pids);

struct RemoteAnswer {
  std::string fqdn;
  Place place;
  bool is_own_procfs = false;  ///< what it shows are the processes of that pid namespace
  std::map<std::uint64_t, Sight> sights;
};

/// The host had begun to answer, before whatever happened.
bool has_begun(std::string_view output);

/// Nothing if it was cut short.
std::optional<RemoteAnswer> parse_answer(std::string_view output);

/// With the code that `ssh_id is_stale` exits with.
Verdict judge_remote(const SshUid& uid, const std::optional<Record>& record,
                     const RemoteAnswer& answer);

/// For a host from which nothing came, and for one whose answer is not whole or does not tell.
Verdict unreachable(std::string why);
Verdict cut_short(std::string why);

/// A word for the reason, as the shell's notifiers know it.
std::string_view reason_of(int code);

/// As the kernel prints it: what is put into an order.
bool is_boot_id(std::string_view text);

/// Sends `signal` to a process that was just seen alive under that start time on that boot, and
/// waits until it is gone or `patience` is over.
std::string kill_order(std::uint64_t pid, std::uint64_t start, const std::string& boot, int signal,
                       std::chrono::seconds patience);

/// KillExit of what came back; cut_short if that does not tell.
int parse_kill(std::string_view output);

}  // namespace holdfast::identity
