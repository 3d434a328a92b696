// ssh_errand [OPTION VALUE]... COMMAND HOST... - has each host run COMMAND, through src/ssh alone.
//
//   --keys remember|strict|insecure    --engine automatic|command    --connect MS    --total MS
//   --longest BYTES                    --log info    --at-once N
//
// For each host: its name, "answered STATUS" or "silent", and fields: why, engine, login, host_key,
// known_by, size, output. Status 9 if a
// child is left.
#include <sys/wait.h>

#include <cerrno>
#include <iostream>
#include <map>
#include <string>

#include "ssh/survey.h"

using holdfast::Log;
namespace ssh = holdfast::ssh;

namespace {

void print(const std::string& host, const ssh::Reply& reply) {
  std::cout << host << " "
            << (reply.is_answered ? "answered " + std::to_string(reply.status) : "silent") << "\n";
  const std::pair<const char*, std::string> fields[] = {
      {"why", reply.why},
      {"engine", reply.route.engine},
      {"login", reply.route.login},
      {"host_key", reply.route.host_key},
      {"known_by", reply.route.known_by},
      {"size", std::to_string(reply.output.size())}};
  for (const auto& [name, value] : fields) std::cout << "  " << name << "=" << value << "\n";
  std::cout << "  output\n" << reply.output.substr(0, 1000) << "\n  end\n";
}

}  // namespace

int main(int argc, char** argv) {
  std::map<std::string, std::string> options;
  int at = 1;
  for (; at + 1 < argc && std::string(argv[at]).starts_with("--"); at += 2) {
    options[argv[at] + 2] = argv[at + 1];
  }
  ssh::Settings settings;
  if (options["keys"] == "strict") settings.host_keys = ssh::HostKeys::strict;
  if (options["keys"] == "insecure") settings.host_keys = ssh::HostKeys::insecure;
  if (options["engine"] == "command") settings.engine = ssh::Engine::command;
  using std::chrono::milliseconds;
  if (options.contains("connect")) settings.connect = milliseconds(std::stoi(options["connect"]));
  if (options.contains("total")) settings.total = milliseconds(std::stoi(options["total"]));
  if (options.contains("longest")) settings.longest_answer = std::stoul(options["longest"]);
  if (options.contains("at-once")) settings.at_once = std::stoul(options["at-once"]);
  const Log log(options["log"] == "info" ? Log::Level::info : Log::Level::quiet);
  const std::string command = argv[at++];
  std::vector<ssh::Errand> errands;
  for (; at < argc; ++at) errands.push_back({argv[at], command});
  const std::vector<ssh::Reply> replies = ssh::run(errands, settings, log);
  for (std::size_t i = 0; i < errands.size(); ++i) print(errands[i].host, replies[i]);
  // none may be left, running or dead
  return waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD ? 0 : 9;
}
