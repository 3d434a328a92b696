#include "unit/client/machine_world.h"

#include <algorithm>

namespace holdfast::client::testing {
namespace {

using A = Actions;

Actions request_of(State state) {
  switch (state) {
    case State::registering:
      return A::post;
    case State::activating:
      return A::patch_active;
    case State::renewing:
      return A::patch_ttl;
    case State::releasing:
      return A::patch_released;
    case State::withdrawing:
      return A::patch_withdrawn;
    case State::aborting:
      return A::patch_aborted;
    default:
      return A::none;
  }
}

bool is_pausing(State state) {
  return state >= State::retrying_register && state <= State::retrying_abort;
}

bool is_acquiring(State state) {
  return state == State::registering || state == State::retrying_register ||
         state == State::waiting || state == State::activating || state == State::retrying_activate;
}

}  // namespace

std::vector<Event> World::possible() const {
  std::vector<Event> events;
  if (state_ == State::unstarted) return {Event::start, Event::stop};
  if (is_terminal(state_)) return {Event::stop, Event::release};
  events = {Event::stop, Event::release};
  if (tick_ == 0) events.push_back(Event::tick);
  if (timeout_ == 0) events.push_back(Event::timeout);
  if (farewell_ == 0) events.push_back(Event::farewell);
  if (lapse_ == 0) events.push_back(Event::lapse);
  if (!is_in_flight_) return events;
  for (const Event event : {Event::conflict, Event::refused, Event::unavailable}) {
    events.push_back(event);
  }
  if (state_ == State::registering) {
    events.push_back(Event::created);
    events.push_back(Event::accepted);
    if (budget_ > 0) events.push_back(Event::not_found_with_budget);
  } else {
    events.push_back(Event::ok);
  }
  if (state_ == State::activating) events.push_back(Event::refused_as_final);
  return events;
}

bool World::can_wait() const {
  return tick_ != 0 && timeout_ != 0 && farewell_ != 0 && lapse_ != 0 && !is_over();
}

std::optional<std::string> World::wait() {
  for (int* timer : {&tick_, &timeout_, &farewell_, &lapse_, &linger_}) {
    if (*timer > kOff) --*timer;
  }
  if (linger_ == 0) linger_ = kOff;  // the reply did not come: the request is dropped
  sent_ago_ = std::min(sent_ago_ + 1, durations_.ttl + 1);
  lease_ = std::max(lease_ - 1, -2);
  if (is_held(state_) && lease_ < -1) return "a lost lease is not noticed in time";
  return std::nullopt;
}

void World::take_reply(Event event) {
  is_in_flight_ = false;
  if (event == Event::created || (event == Event::ok && !is_parting(state_))) {
    lease_ = durations_.ttl - sent_ago_;  // the server counts from no earlier than the sending
  }
  if (event == Event::not_found_with_budget) --budget_;
  if (event == Event::refused && state_ == State::activating) has_error_ = true;
}

std::optional<std::string> World::happen(Event event) {
  if (is_reply(event)) take_reply(event);
  if (event == Event::tick) tick_ = kOff;
  if (event == Event::timeout) timeout_ = kOff;
  if (event == Event::farewell) farewell_ = kOff;
  if (event == Event::lapse) lapse_ = kOff;

  const Step after = step(table_, state_, event);
  const bool is_command = event == Event::stop || event == Event::release;
  if (after.is_ignored && !is_command) return "a timer or a reply is ignored";
  const State from = state_;
  state_ = after.to;
  if (auto broken = carry_out(event, from, after.actions)) return broken;
  return broken_promise(event, after);
}

std::optional<std::string> World::carry_out(Event event, State from, Actions actions) {
  if (has(actions, A::drop_request)) is_in_flight_ = false;
  if (has(actions, A::linger)) {
    is_in_flight_ = false;
    linger_ = durations_.linger;
  }
  if (has(actions, A::clear_timer)) tick_ = kOff;
  if (has(actions, A::clear_timeout)) timeout_ = kOff;
  if (has(actions, A::clear_farewell)) farewell_ = kOff;
  if (has(actions, A::clear_lapse)) lapse_ = kOff;
  if (has(actions, A::reset_backoff)) failures_ = 0;
  if (has(actions, A::keep_url)) has_url_ = true;
  if (has(actions, A::remember_error)) remembers_error_ = true;
  if (has(actions, A::set_timeout)) timeout_ = durations_.timeout;
  if (has(actions, A::set_farewell)) farewell_ = durations_.farewell;
  if (has(actions, A::set_lapse)) lapse_ = std::max(0, durations_.ttl - sent_ago_);
  if (has(actions, A::start_activate_timer)) tick_ = durations_.activate;
  if (has(actions, A::start_renew_timer)) tick_ = durations_.renew;
  if (has(actions, A::start_retry_timer)) {
    tick_ = durations_.retry;
    failures_ = std::min(failures_ + 1, 2);
  }
  if (has(actions, kSends)) {
    if (is_in_flight_) return "two requests are in flight";
    if (has(actions, without(kSends, A::post)) && !has_url_) return "a PATCH without a URL";
    if (is_pausing(from) && event == Event::tick && (actions & kSends) != last_request_) {
      return "another request is repeated than the one that failed";
    }
    is_in_flight_ = true;
    sent_ago_ = 0;
    last_request_ = actions & kSends;
  }
  if (has(actions, A::tell_acquired)) ++is_told_acquired_;
  ends_told_ += count(actions & kTellsEnd);
  if (has(actions, A::tell_withdrawn) && has_error_ != remembers_error_) {
    return "the server's reason is forgotten";
  }
  if (has(actions, A::tell_lost) && event == Event::lapse && lease_ > 0) {
    return "a lease is given up while it lasts";
  }
  const bool is_success = event == Event::created || event == Event::accepted ||
                          (event == Event::ok && !is_parting(from));
  if (is_success && failures_ != 0) return "the backoff is kept over a success";
  return std::nullopt;
}

std::optional<std::string> World::broken_promise(Event event, const Step& after) const {
  if (ends_told_ != (is_terminal(state_) ? 1 : 0)) return "the end is not told exactly once";
  if (is_told_acquired_ > 1) return "the acquisition is told twice";
  if (is_held(state_) && is_told_acquired_ == 0) return "the acquisition is not told";
  if (is_terminal(state_)) {
    if (tick_ != kOff || timeout_ != kOff || farewell_ != kOff || lapse_ != kOff) {
      return "a timer survives the end";
    }
    if (is_in_flight_) return "a request survives the end";
    if (linger_ != kOff && has_url_) return "a linger after the URL is known";
    return std::nullopt;
  }
  if (is_in_flight_ != is_acting(state_)) return "a state and its request do not agree";
  if (!after.is_ignored && has(after.actions, kSends) &&
      (after.actions & kSends) != request_of(state_)) {
    return "the wrong request is sent";
  }
  if ((tick_ != kOff) == is_acting(state_)) return "nothing will wake the claim, or too much";
  if ((farewell_ != kOff) != is_parting(state_)) return "a parting state without a deadline";
  if ((lapse_ != kOff) != is_held(state_)) return "a held state without the end of its lease";
  if (durations_.timeout > 0 && (timeout_ != kOff) != is_acquiring(state_)) {
    return "the deadline of the acquisition is not where it belongs";
  }
  const bool is_failure = event == Event::unavailable || event == Event::not_found_with_budget;
  if (!after.is_ignored && is_failure != is_pausing(state_)) return "a failure is no pause";
  if (event == Event::release && !is_parting(state_)) return "a release is not followed";
  if (event == Event::stop && (!is_parting(state_) || after.is_ignored)) {
    return "a stop is not followed";
  }
  return std::nullopt;
}

}  // namespace holdfast::client::testing
