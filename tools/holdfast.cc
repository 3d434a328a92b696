/// The multi-call program: runs as the tool whose name it is called by, or that its first word
/// names.

#include <sys/auxv.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/exit_code.h"
#include "cli/tool.h"
#include "cli/version.h"
#include "disk/disk.h"
#include "tools.h"

namespace {

using namespace holdfast;

struct Entry {
  std::string_view name;
  int (*run)(int, char**);
  const char* summary;
};

constexpr Entry kTools[] = {
    {"lock_local", tools::lock_local,
     "a lock held by a process of this host, recovered when it dies"},
    {"lock_ssh", tools::lock_ssh,
     "a lock held by a process of any host of a cluster, recovered when it dies"},
    {"semaphore", tools::semaphore, "lets in a number of processes of this host at once"},
    {"semaphore_ssh", tools::semaphore_ssh, "the same for processes of any host of a cluster"},
    {"rw_lock", tools::rw_lock, "a lock that several share or one holds alone"},
    {"fair_lock", tools::fair_lock, "a lock that those who wait get in the order they came"},
    {"fair_semaphore", tools::fair_semaphore,
     "a semaphore whose permits go to those who came first"},
    {"multi_lock", tools::multi_lock, "several locks at once: all, or none"},
    {"local_id", tools::local_id, "names a process for good, and tells whether it lives"},
    {"ssh_id", tools::ssh_id, "the same for a process of any host of a cluster, over ssh"},
    {"check_lock", tools::check_lock,
     "a lock by any id, with a checker that tells the dead from the living"},
    {"hostpid_lock", tools::hostpid_lock,
     "a lock held by a process of any host, with an id helper of your choice"},
    {"grace_lock", tools::grace_lock,
     "a lock by any id, with a checker that is too dear to be asked each time"},
    {"fast_lock", tools::fast_lock, "the directory lock under all of them"},
};

const Entry* find_tool(std::string_view name) {
  name.remove_prefix(name.rfind('/') + 1);
  if (name.ends_with(".sh")) name.remove_suffix(3);
  const auto is_same = [](char a, char b) { return a == b || (a == '-' && b == '_'); };
  for (const Entry& entry : kTools) {
    if (std::equal(name.begin(), name.end(), entry.name.begin(), entry.name.end(), is_same)) {
      return &entry;
    }
  }
  return nullptr;
}

void print_no_such_tool(const std::string& word) {
  std::vector<std::string_view> names;
  for (const Entry& entry : kTools) names.push_back(entry.name);
  const std::string meant(cli::nearest(word, names));
  std::fprintf(stderr,
               "Error - no such tool: %s%s%s%s\n"
               "usage: holdfast TOOL [WORD]...\n"
               "'holdfast --help' lists all tools\n",
               word.c_str(), meant.empty() ? "" : "; did you mean '", meant.c_str(),
               meant.empty() ? "" : "'?");
}

/// A link of another name may lead to a link of a tool's name, which `name` is then.
const Entry* follow_links(std::string& name) {
  for (int hops = 0; hops < 8; ++hops) {
    if (const Entry* entry = find_tool(name)) return entry;
    std::string target;
    if (disk::posix().read_link(disk::Path(name), target)) break;
    name = (disk::Path(name).parent_path() / target).native();
  }
  return nullptr;
}

void print_help(std::FILE* to) {
  std::fputs(
      "holdfast: locks for people who share a filesystem\n\n"
      "usage: holdfast TOOL [WORD]...\n       holdfast --help | --version\n\n",
      to);
  for (const Entry& entry : kTools) {
    std::fprintf(to, "  %-14s %s\n", std::string(entry.name).c_str(), entry.summary);
  }
  std::fputs(
      "\nEach tool is also a command of its own name; 'TOOL --help' tells its actions, 'man TOOL' "
      "the\n"
      "rest. To try it:\n\n"
      "  lock_local lock /tmp/demo.lock $$ && lock_local owner_pid /tmp/demo.lock\n"
      "  lock_local unlock /tmp/demo.lock $$\n",
      to);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 1) return static_cast<int>(LockExit::usage);
  // found through PATH, the name alone leads nowhere: the kernel knows the path that it started
  const bool is_path = std::string_view(argv[0]).find('/') != std::string_view::npos;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): that is how the kernel hands it over
  const char* const started = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
  if (const Entry* tool = find_tool(argv[0])) return tool->run(argc, argv);
  std::string name = is_path ? argv[0] : started;
  if (const Entry* tool = follow_links(name)) {
    argv[0] = name.data();  // which tells the tool whether it stands in for a shell script
    return tool->run(argc, argv);
  }
  const std::string_view word = argc > 1 ? argv[1] : "";
  if (const Entry* tool = find_tool(word)) return tool->run(argc - 1, argv + 1);
  if (word == "--version") {
    std::printf("holdfast %s\n", cli::kVersion);
    return static_cast<int>(LockExit::ok);
  }
  if (word == "--help" || word == "-h" || word == "help") {
    print_help(stdout);
    return static_cast<int>(LockExit::ok);
  }
  if (word.empty()) {
    print_help(stderr);
  } else {
    print_no_such_tool(argv[1]);
  }
  return static_cast<int>(LockExit::usage);
}
