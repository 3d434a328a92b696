#pragma once

#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "client/machine.h"

namespace holdfast::client::testing {

/// How long things last in a simulated world, in ticks of its clock.
struct Durations {
  int ttl = 4;
  int renew = 2;
  int retry = 1;
  int activate = 2;
  int timeout = 3;  ///< -1: the caller waits for ever
  int farewell = 2;
  int linger = 1;
  int not_found_tries = 1;
};

/// What a table meets: a clock, four timers, a server that may answer anything at any time, and a
/// caller that may stop or release at any time. It carries out the actions of the table as an
/// agent would, keeps its own account of what is true, and says which promise was broken.
///
/// A copy is a world of its own; two equal worlds have the same future.
class World {
 public:
  World(std::span<const Transition> table, const Durations& durations)
      : table_(table), durations_(durations), budget_(durations.not_found_tries) {}

  State state() const { return state_; }
  bool is_over() const { return is_terminal(state_) && linger_ < 0; }

  /// The events that can happen now.
  std::vector<Event> possible() const;
  /// False while a timer is due: it rings before the clock moves on.
  bool can_wait() const;

  /// Both return the broken promise, or nothing.
  std::optional<std::string> happen(Event event);
  std::optional<std::string> wait();

  /// Everything that the future depends on.
  auto key() const {
    return std::tuple(state_, tick_, timeout_, farewell_, lapse_, linger_, is_in_flight_,
                      last_request_, sent_ago_, lease_, has_url_, is_told_acquired_, ends_told_,
                      failures_, budget_, has_error_, remembers_error_);
  }

 private:
  static constexpr int kOff = -1;

  void take_reply(Event event);
  std::optional<std::string> carry_out(Event event, State from, Actions actions);
  std::optional<std::string> broken_promise(Event event, const Step& after) const;

  std::span<const Transition> table_;
  Durations durations_;
  State state_ = State::unstarted;
  int tick_ = kOff, timeout_ = kOff, farewell_ = kOff, lapse_ = kOff, linger_ = kOff;
  bool is_in_flight_ = false;
  int sent_ago_ = 0;  ///< of the last request
  Actions last_request_ = Actions::none;
  int lease_ = 0;  ///< what is left of the lease that the server confirmed
  bool has_url_ = false;
  int is_told_acquired_ = 0;
  int ends_told_ = 0;
  int failures_ = 0;  ///< since the last reset of the backoff, at most 2 are counted
  int budget_;
  bool has_error_ = false;
  bool remembers_error_ = false;
};

}  // namespace holdfast::client::testing
