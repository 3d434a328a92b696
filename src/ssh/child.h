#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::ssh {

struct ChildEnd {
  bool is_started = false;
  bool is_too_long = false;  ///< killed because it printed more than it may
  int status = -1;           ///< as a shell has it
  std::string errors;        ///< the beginning of its stderr
};

/// Runs a program found in PATH to its end, with empty stdin, in our process group. What it prints
/// goes to `on_output` as it comes, up to `longest` bytes. `is_seen` is asked again and again while
/// it runs, until it says yes.
ChildEnd run_child(
    const std::vector<std::string>& words, std::size_t longest,
    const std::function<void(std::string_view)>& on_output,
    const std::function<bool()>& is_seen = [] { return true; });

}  // namespace holdfast::ssh
