/// One lock, and scripts that use the built tools on it: here, in namespaces, as somebody else.
#pragma once

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

/// Root in a container may be without that right.
inline bool can_unshare() {
  static const bool can =
      run({"unshare", "--mount", "--pid", "--fork", "--mount-proc", "true"}).code == 0;
  return can;
}

using Words = std::vector<std::string>;

inline const Words kNewPidNamespace = {"unshare", "--pid", "--fork", "--kill-child",
                                       "--mount-proc"};
inline const Words kPidNamespaceWithoutProcfs = {"unshare", "--pid", "--fork", "--kill-child"};
inline const Words kNewMountNamespace = {"unshare", "--mount", "--propagation", "private"};

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// START of a live process, counted from the end of its name.
inline std::string true_start(const std::string& pid) {
  const std::string stat = read_file("/proc/" + pid + "/stat");
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return field;
}

inline char state_of(const std::string& pid) {
  const std::string stat = read_file("/proc/" + pid + "/stat");
  const std::size_t close = stat.rfind(')');
  return close == std::string::npos ? '-' : stat.at(close + 2);
}

/// The id that a shell would compute, by its own means.
inline std::string shell_uid(const std::string& pid) {
  return shell("printf '%s:%s:%s' " + pid + " \"$(awk '{print $22}' /proc/" + pid +
               "/stat)\" \"$(awk '/^btime/{print $2}' /proc/stat)\"")
      .out;
}

inline bool is_named(const Process& process, const std::string& name) {
  return read_file("/proc/" + process.pid_text() + "/comm") == name + "\n";
}

/// A folder that every user may enter, with the tools and the lock in it. Scripts find them as
/// $TOOLS (also first in PATH) and $LOCK, and the folder itself as $DIR; `say NAME WORDS` leaves a
/// note for Scene::said.
class Scene {
 public:
  Scene() {
    namespace bfs = boost::filesystem;
    bfs::permissions(dir_.path(), bfs::all_all);
    bfs::create_directory(tools());
    for (const char* name : {"lock_local", "local_id"})
      bfs::copy_file(tool(name), tools() + "/" + name);
  }

  std::string lock() const { return dir_ / "lock"; }
  std::string dir() const { return dir_.path(); }
  std::string tools() const { return dir_ / "tools"; }

  Result script(const std::string& text, const Words& within = {}) const {
    return run(within + Words{"/bin/bash", "-c", kSay + text}, options());
  }

  std::unique_ptr<Process> start(const std::string& text, const Words& within = {}) const {
    return std::make_unique<Process>(within + Words{"/bin/bash", "-c", kSay + text}, options());
  }

  Result lock_local(const Words& words) const { return run(Words{"lock_local"} + words); }
  int lock_as(const std::string& pid) const { return lock_local({"lock", lock(), pid}).code; }

  /// What a script says under that name, as soon as it does.
  std::string said(const std::string& name) const {
    if (!eventually([&] { return boost::filesystem::exists(dir_ / name); })) return "(silence)";
    const std::string text = read_file(dir_ / name);
    return text.substr(0, text.find('\n'));
  }

  std::vector<std::string> owners() const { return tree(lock() + "/owner"); }

  /// As the shell leaves it: an empty leaf, no record.
  void hold_without_record(const std::string& id) const {
    boost::filesystem::create_directories(lock() + "/owner");
    write_file(lock() + "/owner/" + id, "");
  }

  void forget_records() const {
    for (const std::string& id : owners()) write_file(lock() + "/owner/" + id, "");
  }

 private:
  RunOptions options() const {
    RunOptions options;
    options.cwd = dir_.path();
    options.env = {{"PATH", tools() + ":/usr/sbin:/usr/bin:/sbin:/bin"},
                   {"TOOLS", tools()},
                   {"LOCK", lock()},
                   {"DIR", dir_.path()}};
    return options;
  }

  inline static const std::string kSay =
      "say() { local name=$1; shift; echo \"$*\" > \"$name.new\"; mv \"$name.new\" \"$name\"; }; ";

  TempDir dir_;
};

}  // namespace holdfast::testing
