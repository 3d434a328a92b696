#include "client/machine.h"

#include <algorithm>

namespace holdfast::client {
namespace {

using E = Event;
using A = Actions;
using enum State;

// Short forms, as the specification writes them.
constexpr A kDrop = A::drop_request, kLinger = A::linger, kB0 = A::reset_backoff;
constexpr A kEndTick = A::clear_timer, kEndTimeout = A::clear_timeout;
constexpr A kEndFarewell = A::clear_farewell, kEndLapse = A::clear_lapse;
constexpr A kTimeout = A::set_timeout, kFarewell = A::set_farewell, kLapse = A::set_lapse;
constexpr A kUrl = A::keep_url, kError = A::remember_error;
constexpr A kTickActivate = A::start_activate_timer, kTickRenew = A::start_renew_timer;
constexpr A kTickRetry = A::start_retry_timer;
constexpr A kHeld = kB0 | kTickRenew | kLapse | kEndTimeout | A::tell_acquired;

// The specification's rows that name two events are two rows here. clear_farewell is ours: no timer
// may survive the end, and the specification leaves that to the reader.
// clang-format off
constexpr std::array kTransitions{
    Transition{unstarted,         E::start,                 registering,       kTimeout | A::post},
    Transition{unstarted,         E::stop,                  done,              A::tell_stopped},

    Transition{registering,       E::created,               active,            kUrl | kHeld},
    Transition{registering,       E::accepted,              waiting,           kB0 | kUrl | kTickActivate},
    Transition{registering,       E::unavailable,           retrying_register, kTickRetry},
    Transition{registering,       E::not_found_with_budget, retrying_register, kTickRetry},
    Transition{registering,       E::refused,               failed,            kEndTimeout | A::tell_refused},
    Transition{registering,       E::conflict,              failed,            kEndTimeout | A::tell_refused},
    Transition{registering,       E::timeout,               done,              kLinger | A::tell_timeout},
    Transition{registering,       E::stop,                  done,              kEndTimeout | kLinger | A::tell_stopped},
    Transition{registering,       E::release,               done,              kEndTimeout | kLinger | A::tell_stopped},
    Transition{retrying_register, E::tick,                  registering,       A::post},
    Transition{retrying_register, E::timeout,               done,              kEndTick | A::tell_timeout},
    Transition{retrying_register, E::stop,                  done,              kEndTick | kEndTimeout | A::tell_stopped},
    Transition{retrying_register, E::release,               done,              kEndTick | kEndTimeout | A::tell_stopped},

    Transition{waiting,           E::tick,                  activating,        A::patch_active},
    Transition{waiting,           E::timeout,               withdrawing,       kEndTick | kFarewell | A::patch_withdrawn},
    Transition{waiting,           E::release,               withdrawing,       kEndTick | kEndTimeout | kFarewell | A::patch_withdrawn},
    Transition{waiting,           E::stop,                  aborting,          kEndTick | kEndTimeout | kFarewell | A::patch_aborted},

    Transition{activating,        E::ok,                    active,            kHeld},
    Transition{activating,        E::conflict,              waiting,           kTickActivate},
    Transition{activating,        E::unavailable,           retrying_activate, kTickRetry},
    Transition{activating,        E::refused_as_final,      failed,            kEndTimeout | A::tell_lost},
    Transition{activating,        E::refused,               withdrawing,       kEndTimeout | kFarewell | A::patch_withdrawn | kError},
    Transition{activating,        E::timeout,               withdrawing,       kDrop | kB0 | kFarewell | A::patch_withdrawn},
    Transition{activating,        E::release,               withdrawing,       kDrop | kB0 | kEndTimeout | kFarewell | A::patch_withdrawn},
    Transition{activating,        E::stop,                  aborting,          kDrop | kB0 | kEndTimeout | kFarewell | A::patch_aborted},
    Transition{retrying_activate, E::tick,                  activating,        A::patch_active},
    Transition{retrying_activate, E::timeout,               withdrawing,       kEndTick | kFarewell | A::patch_withdrawn},
    Transition{retrying_activate, E::release,               withdrawing,       kEndTick | kEndTimeout | kFarewell | A::patch_withdrawn},
    Transition{retrying_activate, E::stop,                  aborting,          kEndTick | kB0 | kEndTimeout | kFarewell | A::patch_aborted},

    Transition{active,            E::tick,                  renewing,          A::patch_ttl},
    Transition{active,            E::release,               releasing,         kEndTick | kEndLapse | kFarewell | A::patch_released},
    Transition{active,            E::stop,                  aborting,          kEndTick | kEndLapse | kFarewell | A::patch_aborted},
    Transition{active,            E::lapse,                 failed,            kEndTick | A::tell_lost},

    Transition{renewing,          E::ok,                    active,            kB0 | kTickRenew | kLapse},
    Transition{renewing,          E::unavailable,           retrying_renew,    kTickRetry},
    Transition{renewing,          E::refused,               failed,            kEndLapse | A::tell_lost},
    Transition{renewing,          E::conflict,              failed,            kEndLapse | A::tell_lost},
    Transition{renewing,          E::release,               releasing,         kDrop | kB0 | kEndLapse | kFarewell | A::patch_released},
    Transition{renewing,          E::stop,                  aborting,          kDrop | kB0 | kEndLapse | kFarewell | A::patch_aborted},
    Transition{renewing,          E::lapse,                 failed,            kDrop | A::tell_lost},
    Transition{retrying_renew,    E::tick,                  renewing,          A::patch_ttl},
    Transition{retrying_renew,    E::release,               releasing,         kEndTick | kEndLapse | kFarewell | A::patch_released},
    Transition{retrying_renew,    E::stop,                  aborting,          kEndTick | kEndLapse | kFarewell | A::patch_aborted},
    Transition{retrying_renew,    E::lapse,                 failed,            kEndTick | A::tell_lost},

    Transition{releasing,         E::ok,                    released,          kEndFarewell | A::tell_released},
    Transition{releasing,         E::unavailable,           retrying_release,  kTickRetry},
    Transition{releasing,         E::refused,               failed,            kEndFarewell | A::tell_release_refused},
    Transition{releasing,         E::conflict,              failed,            kEndFarewell | A::tell_release_refused},
    Transition{releasing,         E::stop,                  done,              kDrop | kEndFarewell | A::tell_release_unknown},
    Transition{releasing,         E::farewell,              done,              kDrop | A::tell_release_unknown},
    Transition{retrying_release,  E::tick,                  releasing,         A::patch_released},
    Transition{retrying_release,  E::stop,                  done,              kEndTick | kEndFarewell | A::tell_release_unknown},
    Transition{retrying_release,  E::farewell,              done,              kEndTick | A::tell_release_unknown},

    Transition{withdrawing,       E::ok,                    withdrawn,         kEndFarewell | A::tell_withdrawn},
    Transition{withdrawing,       E::unavailable,           retrying_withdraw, kTickRetry},
    Transition{withdrawing,       E::refused,               failed,            kEndFarewell | A::tell_refused},
    Transition{withdrawing,       E::conflict,              failed,            kEndFarewell | A::tell_refused},
    Transition{withdrawing,       E::stop,                  done,              kDrop | kEndFarewell | A::tell_timeout},
    Transition{withdrawing,       E::farewell,              done,              kDrop | A::tell_timeout},
    Transition{retrying_withdraw, E::tick,                  withdrawing,       A::patch_withdrawn},
    Transition{retrying_withdraw, E::stop,                  done,              kEndTick | kEndFarewell | A::tell_timeout},
    Transition{retrying_withdraw, E::farewell,              done,              kEndTick | A::tell_timeout},

    Transition{aborting,          E::ok,                    aborted,           kEndFarewell | A::tell_stopped},
    Transition{aborting,          E::unavailable,           retrying_abort,    kTickRetry},
    Transition{aborting,          E::refused,               failed,            kEndFarewell | A::tell_stopped},
    Transition{aborting,          E::conflict,              failed,            kEndFarewell | A::tell_stopped},
    Transition{aborting,          E::stop,                  done,              kDrop | kEndFarewell | A::tell_stopped},
    Transition{aborting,          E::farewell,              done,              kDrop | A::tell_stopped},
    Transition{retrying_abort,    E::tick,                  aborting,          A::patch_aborted},
    Transition{retrying_abort,    E::stop,                  done,              kEndTick | kEndFarewell | A::tell_stopped},
    Transition{retrying_abort,    E::farewell,              done,              kEndTick | A::tell_stopped},
};
// clang-format on

using EventSet = std::uint32_t;

template <class... Events>
constexpr EventSet set_of(Events... events) {
  return (0U | ... | (1U << static_cast<unsigned>(events)));
}

/// Every pair without a row, named. They cannot happen (a reply while no request is in flight, a
/// timer that is not armed), or are too late to matter (a release while the claim is being
/// released already).
struct Ignored {
  State state;
  EventSet events;
};
constexpr EventSet kTimers = set_of(E::tick, E::timeout, E::farewell, E::lapse);
constexpr EventSet kAtRegistration = set_of(E::created, E::accepted, E::not_found_with_budget);
constexpr EventSet kReplies =
    kAtRegistration | set_of(E::ok, E::conflict, E::refused, E::refused_as_final, E::unavailable);
constexpr EventSet kAll = kTimers | kReplies | set_of(E::start, E::stop, E::release);
constexpr EventSet kForeign = kAtRegistration | set_of(E::refused_as_final);

constexpr std::array kIgnored{
    Ignored{unstarted, set_of(E::release) | kTimers | kReplies},
    Ignored{registering,
            set_of(E::start, E::tick, E::farewell, E::lapse, E::ok, E::refused_as_final)},
    Ignored{retrying_register, set_of(E::start, E::farewell, E::lapse) | kReplies},
    Ignored{waiting, set_of(E::start, E::farewell, E::lapse) | kReplies},
    Ignored{activating, set_of(E::start, E::tick, E::farewell, E::lapse) | kAtRegistration},
    Ignored{retrying_activate, set_of(E::start, E::farewell, E::lapse) | kReplies},
    Ignored{active, set_of(E::start, E::timeout, E::farewell) | kReplies},
    Ignored{renewing, set_of(E::start, E::tick, E::timeout, E::farewell) | kForeign},
    Ignored{retrying_renew, set_of(E::start, E::timeout, E::farewell) | kReplies},
    Ignored{releasing, set_of(E::start, E::release, E::tick, E::timeout, E::lapse) | kForeign},
    Ignored{retrying_release, set_of(E::start, E::release, E::timeout, E::lapse) | kReplies},
    Ignored{withdrawing, set_of(E::start, E::release, E::tick, E::timeout, E::lapse) | kForeign},
    Ignored{retrying_withdraw, set_of(E::start, E::release, E::timeout, E::lapse) | kReplies},
    Ignored{aborting, set_of(E::start, E::release, E::tick, E::timeout, E::lapse) | kForeign},
    Ignored{retrying_abort, set_of(E::start, E::release, E::timeout, E::lapse) | kReplies},
    Ignored{released, kAll},
    Ignored{withdrawn, kAll},
    Ignored{aborted, kAll},
    Ignored{done, kAll},
    Ignored{failed, kAll},
};

constexpr int rows_of(State state, Event event) {
  int found = 0;
  for (const Transition& row : kTransitions) found += row.from == state && row.on == event ? 1 : 0;
  return found;
}

constexpr bool is_in_ignored(State state, Event event) {
  return std::any_of(kIgnored.begin(), kIgnored.end(), [&](const Ignored& row) {
    return row.state == state && (row.events & set_of(event)) != 0;
  });
}

/// Whether the condition is true of each pair of a state and an event.
template <class Condition>
constexpr bool all_pairs(Condition condition) {
  for (std::size_t state = 0; state < kStateCount; ++state) {
    for (std::size_t event = 0; event < kEventCount; ++event) {
      if (!condition(static_cast<State>(state), static_cast<Event>(event))) return false;
    }
  }
  return true;
}

template <class Condition>
constexpr bool all_rows(Condition condition) {
  return std::all_of(kTransitions.begin(), kTransitions.end(), condition);
}

static_assert(all_pairs([](State state, Event event) { return rows_of(state, event) <= 1; }),
              "two rows answer the same event");
static_assert(all_pairs([](State state, Event event) {
                return (rows_of(state, event) == 1) != is_in_ignored(state, event);
              }),
              "a pair must have a row or be named in kIgnored, not both");
static_assert(all_rows([](const Transition& row) { return !is_terminal(row.from); }),
              "a terminal state has a way out");
static_assert(all_rows([](const Transition& row) {
                return count(row.then & kTellsEnd) == (is_terminal(row.to) ? 1 : 0);
              }),
              "the end is told exactly once, and nothing else is told as the end");
static_assert(all_rows([](const Transition& row) {
                return count(row.then & kSends) == (is_acting(row.to) ? 1 : 0);
              }),
              "a request leaves exactly when an acting state is entered");
static_assert(all_pairs([](State state, Event event) {
                const bool is_common = event == Event::conflict || event == Event::refused ||
                                       event == Event::unavailable;
                return !is_acting(state) || !is_common || rows_of(state, event) == 1;
              }),
              "an acting state answers every kind of failure");

constexpr std::array<std::string_view, kStateCount> kStateWords{"new",
                                                                "registering",
                                                                "activating",
                                                                "renewing",
                                                                "releasing",
                                                                "withdrawing",
                                                                "aborting",
                                                                "waiting",
                                                                "active",
                                                                "retrying register",
                                                                "retrying activate",
                                                                "retrying renew",
                                                                "retrying release",
                                                                "retrying withdraw",
                                                                "retrying abort",
                                                                "released",
                                                                "withdrawn",
                                                                "aborted",
                                                                "done",
                                                                "fail"};

constexpr std::array<std::string_view, kEventCount> kEventWords{
    "start", "stop", "release", "tick", "timeout",         "farewell",  "lapse", "201",
    "202",   "2xx",  "409",     "4xx",  "404 with budget", "4xx final", "5xx"};

struct ActionWord {
  Actions action;
  std::string_view word;
};
constexpr std::array kActionWords{
    ActionWord{A::drop_request, "drop"},
    ActionWord{A::linger, "linger"},
    ActionWord{A::clear_timer, "-t"},
    ActionWord{A::clear_timeout, "-T"},
    ActionWord{A::clear_farewell, "-F"},
    ActionWord{A::clear_lapse, "-L"},
    ActionWord{A::reset_backoff, "b0"},
    ActionWord{A::keep_url, "url"},
    ActionWord{A::remember_error, "error"},
    ActionWord{A::start_activate_timer, "tA"},
    ActionWord{A::start_renew_timer, "tN"},
    ActionWord{A::start_retry_timer, "tR"},
    ActionWord{A::set_timeout, "+T"},
    ActionWord{A::set_farewell, "+F"},
    ActionWord{A::set_lapse, "+L"},
    ActionWord{A::post, "POST"},
    ActionWord{A::patch_active, "P(active)"},
    ActionWord{A::patch_ttl, "P(ttl)"},
    ActionWord{A::patch_released, "P(released)"},
    ActionWord{A::patch_withdrawn, "P(withdrawn)"},
    ActionWord{A::patch_aborted, "P(aborted)"},
    ActionWord{A::tell_acquired, "!acquired"},
    ActionWord{A::tell_released, "!released"},
    ActionWord{A::tell_release_refused, "!release-refused"},
    ActionWord{A::tell_release_unknown, "!release-unknown"},
    ActionWord{A::tell_withdrawn, "!withdrawn"},
    ActionWord{A::tell_timeout, "!timeout"},
    ActionWord{A::tell_refused, "!refused"},
    ActionWord{A::tell_stopped, "!stopped"},
    ActionWord{A::tell_lost, "!lost"},
};

void put_padded(std::string& out, std::string_view text, std::size_t width) {
  out += text;
  out.append(width > text.size() ? width - text.size() : 0, ' ');
}

}  // namespace

std::span<const Transition> transitions() {
  return kTransitions;
}

Step step(State state, Event event) {
  return step(kTransitions, state, event);
}

std::string_view word(State state) {
  return kStateWords.at(static_cast<std::size_t>(state));
}

std::string_view word(Event event) {
  return kEventWords.at(static_cast<std::size_t>(event));
}

std::string words(Actions actions) {
  std::string out;
  for (const auto& [action, text] : kActionWords) {
    if (!has(actions, action)) continue;
    if (!out.empty()) out += ' ';
    out += text;
  }
  return out;
}

std::string to_text(std::span<const Transition> table) {
  constexpr std::size_t kWidth = 17;  // of the longest word
  std::string out;
  for (const Transition& row : table) {
    put_padded(out, word(row.from), kWidth);
    out += " | ";
    put_padded(out, word(row.on), kWidth);
    out += " | ";
    put_padded(out, word(row.to), kWidth);
    out += " | " + words(row.then) + '\n';
  }
  return out;
}

}  // namespace holdfast::client
