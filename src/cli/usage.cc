#include <algorithm>

#include "cli/tool.h"

namespace holdfast::cli {
namespace {

/// "lock_local lock <lock_path> <pid>"
std::string line_of(const Tool& tool, std::string_view name, const Action& action) {
  std::string line(name);
  if (action.checker == CheckerWords::needed) line += " <stale_checker>";
  if (action.checker == CheckerWords::optional) line += " [stale_checker]";
  if (tool.takes_locker) line += " <locker>";
  return line.append(" ").append(action.name).append(" ").append(action.words);
}

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

}  // namespace

std::string usage(const Tool& tool, std::string_view name) {
  std::string text = "\n";
  std::string_view lead = "    usage: ";
  for (const Action& action : tool.actions) {
    text.append(lead).append(line_of(tool, name, action)).append("\n");
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
