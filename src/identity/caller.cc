#include "identity/caller.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "base/text.h"

namespace holdfast::identity {
namespace {

/// Names without their versions. busybox runs other commands too, so its first word decides.
constexpr std::array<std::string_view, 28> kInterpreters{
    "ash",    "bash",   "csh",  "dash", "elvish", "es",    "fish", "guile", "julia", "ksh",
    "lua",    "luajit", "mksh", "node", "nodejs", "nu",    "oksh", "perl",  "php",   "pwsh",
    "python", "R",      "rc",   "ruby", "sh",     "tclsh", "tcsh", "zsh"};
constexpr std::string_view kManyCommands = "busybox";

bool is_named(std::string_view name) {
  return std::find(kInterpreters.begin(), kInterpreters.end(), name) != kInterpreters.end();
}

std::string_view base_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

/// Of a program that was replaced while it runs.
std::string_view without_deleted(std::string_view path) {
  constexpr std::string_view kDeleted = " (deleted)";
  if (path.ends_with(kDeleted)) path.remove_suffix(kDeleted.size());
  return path;
}

/// The command that busybox runs: its own name, or the first word after it.
std::string_view command_of_busybox(std::string_view words) {
  const auto parts = split(words, std::string_view("\0", 1), false);
  if (parts.empty()) return {};
  std::string_view first = base_name(parts[0]);
  if (first.starts_with('-')) first.remove_prefix(1);  // of a login
  return first == kManyCommands && parts.size() > 1 ? parts[1] : first;
}

}  // namespace

bool is_interpreter(std::string_view program) {
  const std::string_view name = base_name(without_deleted(program));
  const std::size_t end = name.find_last_not_of("0123456789.-");
  return is_named(name) || (end != std::string_view::npos && is_named(name.substr(0, end + 1)));
}

std::optional<Caller> Caller::find(disk::Disk& disk, std::string& why, const disk::Path& proc) {
  const pid_t parent = getppid();
  const std::string pid = std::to_string(parent);
  const auto no = [&](const std::string& reason) {
    why = "cannot tell for whom to lock: the calling process " + pid + reason +
          ". Name the process that is to hold the lock: --id PID";
    return std::nullopt;
  };
  if (parent == 0) return no(" is in another pid namespace");
  std::string program;
  if (const auto ec = disk.read_link(proc / pid / "exe", program)) {
    return no(" cannot be looked at (" + ec.message() + ")");
  }
  const std::string_view name = base_name(without_deleted(program));
  const bool runs_scripts = name == kManyCommands
                                ? is_interpreter(command_of_busybox(
                                      disk::read_files(disk, {proc / pid / "cmdline"})[0].text))
                                : is_interpreter(name);
  if (!runs_scripts) return no(" is " + std::string(name) + ", not a shell or an interpreter");
  if (getsid(parent) != getsid(0)) return no(" belongs to another session");
  const Caller caller(static_cast<std::uint64_t>(parent));
  if (!caller.is_still_there()) return no(" has ended");
  return caller;
}

bool Caller::is_still_there() const {
  return getppid() == static_cast<pid_t>(pid_);
}

}  // namespace holdfast::identity
