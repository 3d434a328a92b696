#include "common/siblings.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace holdfast::tools {
namespace {

/// The file that execvp would take. Programs are looked up here, not locks: this need not go
/// through the Disk.
std::string find_program(const std::string& command) {
  if (command.find('/') != std::string::npos) return command;
  const char* variable = std::getenv("PATH");
  const std::string path = variable ? variable : "/bin:/usr/bin";
  for (std::size_t from = 0; from <= path.size();) {
    const std::size_t to = std::min(path.find(':', from), path.size());
    const std::string folder = to > from ? path.substr(from, to - from) : ".";
    std::string candidate = folder + "/" + command;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    from = to + 1;
  }
  return {};
}

}  // namespace

bool is_own_tool(const std::string& command, std::string_view tool) {
  std::string_view name = command;
  name.remove_prefix(std::min(name.rfind('/') + 1, name.size()));
  if (name.ends_with(".sh")) name.remove_suffix(3);
  struct stat theirs {
  }, ours{};
  return name == tool && stat(find_program(command).c_str(), &theirs) == 0 &&
         stat("/proc/self/exe", &ours) == 0 && theirs.st_dev == ours.st_dev &&
         theirs.st_ino == ours.st_ino;
}

}  // namespace holdfast::tools
