#include <algorithm>

#include "cli/tool.h"

namespace holdfast::cli {
namespace {

/// "  --older-than <seconds>    clean: attempts untouched for so long are removed (5)"
std::string line_of(const Option& row) {
  constexpr std::size_t kColumn = 26;
  std::string line(row.names);
  if (row.takes_value()) line.append(" ").append(row.value);
  line.append(std::max(line.size() + 2, kColumn) - line.size(), ' ');
  std::string actions(row.actions);
  for (std::size_t at = 0; (at = actions.find(' ', at)) != std::string::npos; at += 2) {
    actions.replace(at, 1, ", ");
  }
  if (!actions.empty()) line.append(actions).append(": ");
  return line.append(row.help);
}

/// How many letters must be changed, left out, added or swapped with the next one. A dash is as
/// good as an underscore.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto is_same = [](char x, char y) { return x == y || (x == '-' && y == '_'); };
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t k = 0; k <= b.size(); ++k) {
      if (i == 0 || k == 0) {
        steps[i][k] = i + k;
        continue;
      }
      const std::size_t change = is_same(a[i - 1], b[k - 1]) ? 0 : 1;
      steps[i][k] =
          std::min({steps[i - 1][k] + 1, steps[i][k - 1] + 1, steps[i - 1][k - 1] + change});
      const bool is_swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
      if (is_swapped) steps[i][k] = std::min(steps[i][k], steps[i - 2][k - 2] + 1);
    }
  }
  return steps[a.size()][b.size()];
}

/// The action or option that was meant.
std::string_view suggestion_for(const Tool& tool, std::string_view word) {
  std::vector<std::string_view> names;
  if (word.starts_with('-')) {
    for (const std::span<const Option> rows : {tool.options, common_options()}) {
      for (const Option& row : rows) names.push_back(row.long_name());
    }
  } else {
    for (const Action& action : tool.actions) names.push_back(action.name);
  }
  return nearest(word, names);
}

/// What stands before the action.
std::string lead_of(const Tool& tool, CheckerWords checker) {
  std::string lead;
  if (checker == CheckerWords::needed) lead += " <stale_checker>";
  if (checker == CheckerWords::optional) lead += " [stale_checker]";
  if (tool.takes_locker) lead += " <locker>";
  return lead + " ";
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> names) {
  constexpr std::size_t kLongest = 64;  // nobody means a word that is longer
  std::size_t least = word.size() < 4 ? 2 : 3;
  std::string_view found;
  for (const std::string_view name : names) {
    const std::size_t far = word.size() > kLongest ? least : distance(word, name);
    if (far < least) {
      least = far;
      found = name;
    }
  }
  return found;
}

bool needs_checker(const Tool& tool) {
  return tool.takes_checker &&
         std::any_of(tool.actions.begin(), tool.actions.end(),
                     [](const Action& action) { return action.checker == CheckerWords::needed; });
}

std::string brief_usage(const Tool& tool, const UsageError& error, const Action* action) {
  std::string text = "Error - " + std::string(error.what());
  if (const auto* unknown = dynamic_cast<const UnknownWord*>(&error)) {
    const std::string_view meant = suggestion_for(tool, unknown->word());
    if (!meant.empty()) text.append("; did you mean '").append(meant).append("'?");
    for (const Action& one : tool.actions) {
      if (one.name == meant) action = &one;
    }
  }
  const std::string name(tool.name);
  text += "\nusage: " + name + " [option]...";
  if (action) {
    text += lead_of(tool, action->checker);
    text.append(action->name).append(" ").append(action->words);
  } else {
    const CheckerWords checker = needs_checker(tool)  ? CheckerWords::needed
                                 : tool.takes_checker ? CheckerWords::optional
                                                      : CheckerWords::none;
    text += lead_of(tool, checker) + "<action> [word]...";
  }
  return text + "\n'" + name + " --help' lists all actions and options\n";
}

std::string usage(const Tool& tool, std::string_view name) {
  std::string text = "\n";
  std::string_view lead = "    usage: ";
  for (const Action& action : tool.actions) {
    text.append(lead).append(name).append(lead_of(tool, action.checker));
    text.append(action.name).append(" ").append(action.words).append("\n");
    lead = "           ";
  }
  if (tool.takes_locker) {
    text += "\n    <locker> is -l, or a command that locks the slots.\n";
  }
  text += "\n    options:\n";
  for (const std::span<const Option> rows : {tool.options, common_options()}) {
    for (const Option& row : rows) {
      if (!row.help.empty()) text.append("      ").append(line_of(row)).append("\n");
    }
  }
  return text.append("\n").append(tool.text).append("\n");
}

}  // namespace holdfast::cli
