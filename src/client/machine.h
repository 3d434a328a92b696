#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The life of one claim in a keychain, as a table. step() is pure; client::Agent carries out the
/// actions that it returns.
///
/// A reply is turned into an event before the table is asked (see event_of() in client/reply.h).
/// The conditions of the specification are therefore events of their own: `not_found_with_budget`
/// is a 404 that may still be retried, `refused_as_final` is a refusal that names a claim which has
/// already ended.
namespace holdfast::client {

enum class State : std::uint8_t {
  unstarted,  ///< "new"
  // One request is in flight.
  registering,
  activating,
  renewing,
  releasing,
  withdrawing,
  aborting,
  // At rest.
  waiting,
  active,
  // Pausing after a failure.
  retrying_register,
  retrying_activate,
  retrying_renew,
  retrying_release,
  retrying_withdraw,
  retrying_abort,
  // Terminal. In the first three the server knows about the end.
  released,
  withdrawn,
  aborted,
  done,    ///< given up: the server's side ends with the lease
  failed,  ///< refused or lost
};
inline constexpr std::size_t kStateCount = 20;

enum class Event : std::uint8_t {
  start,
  stop,     ///< shutdown, a signal, or the end of the pipe
  release,  ///< the caller gives the claim back, or no longer wants it
  // Timers.
  tick,      ///< the one activate, renew or retry timer
  timeout,   ///< the deadline of the acquisition
  farewell,  ///< the deadline of the parting request
  lapse,     ///< the lease is certainly over
  // Replies.
  created,                ///< 201 at registration
  accepted,               ///< 202 at registration
  ok,                     ///< any other 2xx that confirms the request
  conflict,               ///< 409
  refused,                ///< 4xx, other 3xx, junk
  not_found_with_budget,  ///< 404 at registration that may be retried
  refused_as_final,       ///< 4xx at activation, and the claim has ended already
  unavailable,            ///< 5xx, 408, 429, no connection, reset, HTTP timeout
};
inline constexpr std::size_t kEventCount = 15;

/// A set of actions, one bit each.
enum class Actions : std::uint32_t {
  none = 0,
  drop_request = 1U << 0U,    ///< forget the request in flight
  linger = 1U << 1U,          ///< ... but withdraw the claim if its reply still brings an URL
  reset_backoff = 1U << 2U,   ///< of the retry timer
  clear_timer = 1U << 3U,     ///< the activate, renew or retry timer
  clear_timeout = 1U << 4U,   ///< the deadline of the acquisition
  clear_farewell = 1U << 5U,  ///< the deadline of the parting request
  clear_lapse = 1U << 6U,     ///< the end of the lease
  keep_url = 1U << 7U,        ///< remember the claim's URL
  remember_error = 1U << 8U,  ///< the reason that is told when the withdrawal is through
  set_timeout = 1U << 9U,
  set_farewell = 1U << 10U,
  set_lapse = 1U << 11U,  ///< ttl counted from the sending of the confirmed request
  start_activate_timer = 1U << 12U,
  start_renew_timer = 1U << 13U,
  start_retry_timer = 1U << 14U,
  post = 1U << 15U,
  patch_active = 1U << 16U,
  patch_ttl = 1U << 17U,
  patch_released = 1U << 18U,
  patch_withdrawn = 1U << 19U,
  patch_aborted = 1U << 20U,
  tell_acquired = 1U << 21U,
  // What the main process is told at the end, exactly once.
  tell_released = 1U << 22U,
  tell_release_refused = 1U << 23U,
  tell_release_unknown = 1U << 24U,
  tell_withdrawn = 1U << 25U,  ///< the remembered error, or cancelled, or timeout
  tell_timeout = 1U << 26U,
  tell_refused = 1U << 27U,
  tell_stopped = 1U << 28U,
  tell_lost = 1U << 29U,
};

constexpr Actions operator|(Actions a, Actions b) {
  return static_cast<Actions>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr Actions operator&(Actions a, Actions b) {
  return static_cast<Actions>(static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b));
}
constexpr Actions without(Actions from, Actions taken) {
  return static_cast<Actions>(static_cast<std::uint32_t>(from) &
                              ~static_cast<std::uint32_t>(taken));
}
constexpr bool has(Actions set, Actions any_of) {
  return (set & any_of) != Actions::none;
}
/// How many actions the set holds.
constexpr int count(Actions set) {
  int found = 0;
  for (auto bits = static_cast<std::uint32_t>(set); bits != 0; bits &= bits - 1) ++found;
  return found;
}

/// The actions that send a request.
inline constexpr Actions kSends = Actions::post | Actions::patch_active | Actions::patch_ttl |
                                  Actions::patch_released | Actions::patch_withdrawn |
                                  Actions::patch_aborted;
/// The actions that tell the main process about the end of the claim.
inline constexpr Actions kTellsEnd = Actions::tell_released | Actions::tell_release_refused |
                                     Actions::tell_release_unknown | Actions::tell_withdrawn |
                                     Actions::tell_timeout | Actions::tell_refused |
                                     Actions::tell_stopped | Actions::tell_lost;

constexpr bool is_terminal(State state) {
  return state >= State::released;
}
/// One request is in flight in these states, and in no other state.
constexpr bool is_acting(State state) {
  return state >= State::registering && state <= State::aborting;
}
/// The main process may rely on the lease.
constexpr bool is_held(State state) {
  return state == State::active || state == State::renewing || state == State::retrying_renew;
}
/// A last request ends the claim at the server.
constexpr bool is_parting(State state) {
  return (state >= State::releasing && state <= State::aborting) ||
         (state >= State::retrying_release && state <= State::retrying_abort);
}
constexpr bool is_reply(Event event) {
  return event >= Event::created;
}

/// One row of the table.
struct Transition {
  State from;
  Event on;
  State to;
  Actions then;
};

/// What an event leads to. Without a row the state stays and `is_ignored` is true.
struct Step {
  State to;
  Actions actions;
  bool is_ignored;

  friend bool operator==(const Step&, const Step&) = default;
};

/// The table, in the order of the specification.
std::span<const Transition> transitions();

/// The table's answer. Tests pass tables of their own.
constexpr Step step(std::span<const Transition> table, State state, Event event) {
  for (const Transition& row : table) {
    if (row.from == state && row.on == event) return {row.to, row.then, false};
  }
  return {state, Actions::none, true};
}
Step step(State state, Event event);

std::string_view word(State state);
std::string_view word(Event event);
/// The actions in the short form of the specification, separated by blanks: "-T b0 url tN +L".
std::string words(Actions actions);

/// One line for each row: "from | event | to | actions", columns aligned.
std::string to_text(std::span<const Transition> table);

/// The table as a graph in the language of graphviz.
std::string to_dot(std::span<const Transition> table);

}  // namespace holdfast::client
