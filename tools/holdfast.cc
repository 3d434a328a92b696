/// The multi-call program: runs as the tool whose name it is called by, or that its first word
/// names.

#include <sys/auxv.h>

#include <cstdio>
#include <string>
#include <string_view>

#include "base/exit_code.h"
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
  for (const Entry& entry : kTools) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
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
  const bool is_asked_for = word == "--help" || word == "-h" || word == "help";
  print_help(is_asked_for ? stdout : stderr);
  if (is_asked_for) return static_cast<int>(LockExit::ok);
  if (!word.empty()) std::fprintf(stderr, "\nholdfast: no such tool: %s\n", argv[1]);
  return static_cast<int>(LockExit::usage);
}
