#include <map>
#include <string>
#include <utility>
#include <vector>

#include "client/machine.h"

namespace holdfast::client {
namespace {

/// The events that lead from one state to another are one arrow.
struct Arrow {
  State from;
  State to;
  std::vector<Event> events;
};

std::vector<Arrow> arrows_of(std::span<const Transition> table) {
  std::vector<Arrow> arrows;
  std::map<std::pair<State, State>, std::size_t> known;
  for (const Transition& row : table) {
    const auto [at, is_new] = known.try_emplace({row.from, row.to}, arrows.size());
    if (is_new) arrows.push_back({row.from, row.to, {}});
    arrows[at->second].events.push_back(row.on);
  }
  return arrows;
}

std::string_view style_of(State state) {
  if (is_terminal(state)) return "shape=box, peripheries=2, fillcolor=\"#eeeeee\"";
  if (is_acting(state)) return "shape=ellipse, fillcolor=\"#dbe9f9\"";
  if (state == State::active) return "shape=box, fillcolor=\"#cdeccd\"";
  if (state == State::waiting) return "shape=box, fillcolor=\"#fdf1c4\"";
  if (state == State::unstarted) return "shape=circle, fillcolor=white";
  return "shape=ellipse, style=\"filled,dashed\", fillcolor=\"#fbe3d6\"";
}

/// Green: the server agreed. Red: it refused, or the lease is over. Blue: somebody asked for the
/// end. Orange: no answer, or the pause after one. Grey: a deadline of ours.
std::string_view colour_of(const Arrow& arrow) {
  switch (arrow.events.front()) {
    case Event::start:
    case Event::created:
    case Event::accepted:
    case Event::ok:
      return "#2a7d2a";
    case Event::conflict:
      return arrow.to == State::waiting ? "#a57c00" : "#b02a2a";
    case Event::refused:
    case Event::refused_as_final:
    case Event::lapse:
      return "#b02a2a";
    case Event::stop:
    case Event::release:
      return "#2a4fb0";
    case Event::unavailable:
    case Event::not_found_with_budget:
      return "#c4661f";
    case Event::tick:
      return is_acting(arrow.to) && arrow.from > State::active ? "#c4661f" : "#333333";
    case Event::timeout:
    case Event::farewell:
      return "#777777";
  }
  return "#333333";
}

/// A name that needs no quotes.
std::string node(State state) {
  std::string name(word(state));
  for (char& letter : name) {
    if (letter == ' ') letter = '_';
  }
  return name == "new" ? "unstarted" : name;
}

/// "a\nb": each word on a line of its own.
std::string lines(std::string_view text) {
  std::string out;
  for (const char letter : text) {
    if (letter == ' ') {
      out += "\\n";
    } else {
      out += letter;
    }
  }
  return out;
}

std::string label_of(const Arrow& arrow) {
  std::string label;
  for (const Event event : arrow.events) {
    if (!label.empty()) label += "\\n";
    label += word(event);
  }
  return label;
}

}  // namespace

std::string to_dot(std::span<const Transition> table) {
  std::string out =
      "// The life of a claim in a keychain. Written by scripts/draw-machine: do not edit.\n"
      "digraph claim {\n"
      "  rankdir=TB; nodesep=0.45; ranksep=0.6; bgcolor=white;\n"
      "  node [fontname=\"Helvetica\", fontsize=12, style=filled, margin=\"0.1,0.06\"];\n"
      "  edge [fontname=\"Helvetica\", fontsize=10, arrowsize=0.7];\n";
  for (std::size_t number = 0; number < kStateCount; ++number) {
    const auto state = static_cast<State>(number);
    out += "  " + node(state) + " [label=\"" + lines(word(state)) + "\", ";
    out += style_of(state);
    out += "];\n";
  }
  for (const Arrow& arrow : arrows_of(table)) {
    out += "  " + node(arrow.from) + " -> " + node(arrow.to) + " [label=\"" + label_of(arrow) +
           "\", color=\"";
    out += colour_of(arrow);
    out += "\", fontcolor=\"";
    out += colour_of(arrow);
    out += "\"];\n";
  }
  return out + "}\n";
}

}  // namespace holdfast::client
