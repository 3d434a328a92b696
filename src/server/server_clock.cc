#include "server/server_clock.h"

#include <algorithm>
#include <ctime>
#include <utility>

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;
using std::chrono::duration_cast;
using std::chrono::nanoseconds;

/// A timer may be late by so much on a busy host; more means that we did not run.
constexpr Micros kLate = 1s;
/// Clocks that drift apart by less are not worth a word.
constexpr nanoseconds kStep = 1s;

nanoseconds read_clock(clockid_t id) {
  timespec now{};
  clock_gettime(id, &now);
  return std::chrono::seconds(now.tv_sec) + nanoseconds(now.tv_nsec);
}

std::string in_seconds(nanoseconds time) {
  return std::to_string(duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

ServerClock::Sources ServerClock::real() {
  return {[] { return read_clock(CLOCK_MONOTONIC); }, [] { return read_clock(CLOCK_REALTIME); },
          [] { return read_clock(CLOCK_BOOTTIME); }};
}

ServerClock::ServerClock(Micros start, Sources sources, Notice notice)
    : sources_(std::move(sources)), notice_(std::move(notice)), last_(start) {
  const nanoseconds monotonic = sources_.monotonic();
  offset_ = start - duration_cast<Micros>(monotonic);
  wall_ahead_ = sources_.wall() - monotonic;
  boot_ahead_ = sources_.boot() - monotonic;
  compared_ = monotonic;
}

Stamp ServerClock::now() {
  const nanoseconds monotonic = sources_.monotonic();
  const nanoseconds wall = sources_.wall();
  if (monotonic - compared_ >= kStep) compare_clocks(monotonic, wall);
  Micros time = duration_cast<Micros>(monotonic) + offset_;
  if (due_ && time - *due_ > kLate) {
    const Micros lost = time - (*due_ - kLate);
    notice_("the server stood still for about " + in_seconds(lost - kLate) +
            ": leases are longer by that");
    offset_ -= lost;
    time -= lost;
    due_.reset();
  }
  // After a stop it waits here until it is as late again as it was before.
  last_ = std::max(last_, time);
  return {last_, duration_cast<Micros>(wall)};
}

void ServerClock::compare_clocks(nanoseconds monotonic, nanoseconds wall) {
  compared_ = monotonic;
  const nanoseconds slept = sources_.boot() - monotonic - boot_ahead_;
  if (slept >= kStep) {
    notice_("the host slept for " + in_seconds(slept) + ": leases are longer by that");
    boot_ahead_ += slept;
    wall_ahead_ += slept;
  }
  const nanoseconds stepped = wall - monotonic - wall_ahead_;
  if (stepped >= kStep || stepped <= -kStep) {
    notice_("the wall clock was stepped by " + in_seconds(stepped) + ": leases do not mind");
    wall_ahead_ += stepped;
  }
}

}  // namespace holdfast::server
