#include "identity/ladder.h"

#include <unistd.h>

#include "base/text.h"

namespace holdfast::identity {
namespace {

constexpr std::uint64_t kBootTimeTolerance = 1;  // seconds; btime is rounded, and slewed by NTP
constexpr std::uint64_t kNoClockErrs = 100ULL * 366 * 24 * 3600;  // seconds

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : b - a;
}

std::uint64_t ticks_per_second() {
  return static_cast<std::uint64_t>(sysconf(_SC_CLK_TCK));
}

/// Whether the START of an id can be a start time at all: in the first second after boot nobody
/// takes locks, but small numbers are what the shell reads of a process with blanks in its name.
bool can_be_start(const std::string& start) {
  const auto number = to_number(start);
  return number && *number >= ticks_per_second();
}

bool is_booted_after(std::uint64_t booted, const std::string& since) {
  const std::string boot =
      to_since(std::chrono::system_clock::time_point(std::chrono::seconds(booted)));
  return boot.size() == since.size() && boot > since;  // both in UTC, to the second
}

/// The rows of judge_by_text, but for who asks.
Verdict judge_fields(const TextId& id, const Place& place, const Sight& sight) {
  if (auto verdict = judge_by_look(sight)) return *verdict;
  if (!place.btime) return {Life::unknown, "no boot time there to compare with"};
  const ProcStat& process = sight.process;
  const std::string true_start = std::to_string(process.start);
  const bool same_start = id.start == true_start || id.start == process.word;
  const std::uint64_t step = distance(*place.btime, id.btime);
  if (same_start && is_same_boot_time(*place.btime, id.btime)) {
    return {Life::alive, "running", false, id.start == true_start};
  }
  if (same_start && step < kNoClockErrs) {
    return {
        Life::unknown,
        "same pid and start time, other boot time: the clock was stepped, or the host restarted"};
  }
  if (same_start) return {Life::dead, "its boot time is of another age"};
  if (!can_be_start(id.start)) {
    return {Life::unknown, "the START of its id is no start time: its name had blanks"};
  }
  if (process.word != true_start)
    return {Life::unknown, "its name has blanks, so the START of its id may have been any number"};
  if (*place.btime == id.btime) return {Life::dead, "its pid belongs to another process now"};
  // Seen from another time namespace, START and BTIME move against each other: their sum stays.
  const std::uint64_t hz = ticks_per_second();
  const auto start = to_number(id.start);
  if (start && distance(id.btime * hz + *start, *place.btime * hz + process.start) <= hz) {
    return {Life::unknown, "its start time may be from another time namespace"};
  }
  return {Life::dead, "its pid belongs to another process now"};
}

}  // namespace

bool is_same_boot_time(std::uint64_t a, std::uint64_t b) {
  return distance(a, b) <= kBootTimeTolerance;
}

bool is_telling_host_name(std::string_view host) {
  return !host.empty() && host != "(none)" && host != "localhost" &&
         !host.starts_with("localhost.");
}

std::optional<ProcStat> ProcStat::parse(std::string_view stat) {
  const std::size_t open = stat.find('(');
  const std::size_t close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos || close < open) return std::nullopt;
  // after the name: state is field 3, threads 20, start 22
  const auto fields = split(stat.substr(close + 1), " \n", true);
  if (fields.size() < 20) return std::nullopt;
  const auto threads = to_number(fields[17]);
  const auto start = to_number(fields[19]);
  if (fields[0].size() != 1 || !threads || !start) return std::nullopt;
  ProcStat process;
  process.name = stat.substr(open + 1, close - open - 1);
  process.state = fields[0].front();
  process.threads = *threads;
  process.start = *start;
  const auto words = split(stat, " \t\n", true);
  process.word = std::string(words[21]);
  return process;
}

std::optional<TextId> TextId::parse(std::string_view pid, std::string_view start,
                                    std::string_view btime) {
  const auto pid_number = to_pid(pid);
  const auto btime_number = to_number(btime);
  const bool has_start = !start.empty() && start.find_first_of(" \t\n") == std::string_view::npos;
  if (!pid_number || !btime_number || !has_start) return std::nullopt;
  return TextId{*pid_number, std::string(start), *btime_number};
}

std::optional<std::uint64_t> parse_boot_time(std::string_view stat) {
  const auto line = line_after(stat, "btime ");
  const auto words = split(line.value_or(""), " \t", true);
  return words.empty() ? std::nullopt : to_number(words[0]);
}

std::optional<Verdict> judge_by_look(const Sight& sight) {
  switch (sight.kind) {
    case Sight::Kind::gone:
      return Verdict{Life::dead, "no such process"};
    case Sight::Kind::hidden:
      return Verdict{Life::alive, "running, and hidden from us"};
    case Sight::Kind::unreadable:
      return Verdict{Life::unknown, "its state cannot be read"};
    case Sight::Kind::seen:
      break;
  }
  if (sight.process.is_in_transit()) return Verdict{Life::unknown, "it is about to end or to exec"};
  if (sight.process.is_dead()) return Verdict{Life::dead, "a zombie"};
  return std::nullopt;
}

Verdict judge_restarted(const Record& record, std::uint64_t btime, const Place& place) {
  if (place.boot.empty()) return {Life::unknown, "no boot id there to compare with"};
  const bool has_same_name = record.host == place.host && is_telling_host_name(record.host);
  const bool are_hosts = record.pidns == kFirstPidNamespace && place.pidns == kFirstPidNamespace;
  const bool is_later_boot = place.btime && *place.btime > btime + kBootTimeTolerance &&
                             is_booted_after(*place.btime, record.since);
  if (has_same_name && are_hosts && (is_later_boot || !place.is_asker)) {
    return {Life::dead, "the host was restarted since"};
  }
  if (has_same_name && place.is_named_by_id && !place.is_asker && is_later_boot) {
    return {Life::dead, "the container's host was restarted since"};
  }
  return {Life::unknown, "it was locked on another host or in a container: " + record.host};
}

Verdict judge_by_record(const Record& record, std::uint64_t btime, const Place& place,
                        const Sight& sight) {
  if (place.boot.empty()) return {Life::unknown, "no boot id there to compare with"};
  if (record.boot != place.boot) return judge_restarted(record, btime, place);
  if (record.pidns != place.pidns) return {Life::unknown, "it runs in another pid namespace"};
  const auto dead = [&](std::string why) {
    if (record.host == place.host) return Verdict{Life::dead, std::move(why)};
    return Verdict{Life::unknown, "the host is called " + place.host + " and was " + record.host};
  };
  if (auto verdict = judge_by_look(sight)) {
    return verdict->life == Life::dead ? dead(std::move(verdict->why)) : *verdict;
  }
  if (record.timens != place.timens)
    return {Life::unknown, "its start time is from another time namespace"};
  if (sight.process.start == record.start) return {Life::alive, "running"};
  return dead("its pid belongs to another process now");
}

Verdict judge_by_text(const TextId& id, const Place& place, const Sight& sight) {
  Verdict verdict = judge_fields(id, place, sight);
  const bool is_earlier_boot = !place.btime || (*place.btime + kBootTimeTolerance < id.btime &&
                                                distance(*place.btime, id.btime) < kNoClockErrs);
  if (verdict.life == Life::dead && place.is_asker && is_earlier_boot) {
    return {Life::unknown, "its host booted later than this one, which goes by the same name"};
  }
  return verdict;
}

Verdict dead_only_there(Verdict verdict, const Record& record, std::uint64_t btime,
                        const Place& place) {
  if (verdict.life != Life::dead) return verdict;
  if (!record.boot.empty() && record.boot != place.boot) {
    return judge_restarted(record, btime, place);
  }
  if (!record.pidns.empty() && record.pidns != place.pidns) {
    return {Life::unknown, "it was locked in another pid namespace"};
  }
  return verdict;
}

}  // namespace holdfast::identity
