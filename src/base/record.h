#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

/// What a holder says about itself, one line of JSON inside its leaf.
///
/// It never decides who holds: the leaf's name does. It makes verdicts better (boot id, namespaces,
/// true start time) and refusals richer (host, user, command, since). A missing or broken record
/// is no record. `nonce` tells apart two attempts under one id: see FastLock::lock.
struct Record {
  std::string host;         ///< node name of the holder's host
  std::string boot;         ///< kernel boot id of the host on which it was locked
  std::string pidns;        ///< pid namespace in which `pid` counts, as the kernel names it
  std::string timens;       ///< time namespace in which `start` was read; empty on old kernels
  std::uint64_t pid = 0;    ///< 0: the id does not stand for a known process
  std::uint64_t start = 0;  ///< true start time in clock ticks since boot
  std::string nonce;
  std::optional<std::uint64_t> uid;  ///< number of the user, as the kernel knows it
  std::string user;                  ///< what $LOGNAME said: a remark, anybody can set it
  std::string cmd;
  std::string since;  ///< UTC, ISO 8601 to the second

  bool names_process() const { return pid != 0 && !boot.empty() && !pidns.empty(); }
};

/// One and the same process: of one boot and pid namespace, with one pid and start time.
bool is_same_process(const Record& a, const Record& b);

/// One line with its newline. Bytes that are no UTF-8 become '?': a record is for reading.
std::string to_line(const Record& record);
std::optional<Record> parse_record(std::string_view text);

std::string to_since(std::chrono::system_clock::time_point when);
std::optional<std::chrono::system_clock::time_point> parse_since(const std::string& since);

/// For a refusal: "pid 4242 (make) of anna (uid 1000) on build7 since 2026-11-16T01:40:34Z".
/// Names only what the record knows; "someone who left no record" for an empty one.
std::string describe(const Record& record);

}  // namespace holdfast
