#include "system/cluster/bed.h"

#include <boost/filesystem.hpp>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <sstream>
#include <stdexcept>

namespace holdfast::testing {
namespace {

Words words_of(const std::string& text) {
  std::istringstream from(text);
  return {std::istream_iterator<std::string>(from), {}};
}

/// The numbers of a process, as this machine counts and as each namespace inwards does.
Words pids_of(const std::string& pid) {
  std::istringstream lines(read_file("/proc/" + pid + "/status"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("NSpid:")) return words_of(line.substr(6));
  }
  return {};
}

/// Of the child of an `nsenter`, once there is one.
Words guest_pids(const std::string& door) {
  const std::string proc = "/proc/" + door;
  if (read_file(proc + "/comm") != "nsenter\n") return {};
  for (const std::string& child : words_of(read_file(proc + "/task/" + door + "/children"))) {
    Words pids = pids_of(child);
    if (pids.size() > 1) return pids;
  }
  return {};
}

RunOptions with_tools(RunOptions options) {
  const char* path = std::getenv("PATH");
  options.env.emplace("PATH",
                      build_dir() + "/bin:/usr/sbin:/sbin:" + (path ? path : "/usr/bin:/bin"));
  return options;
}

}  // namespace

Guest::Guest(std::unique_ptr<Process> door) : door_(std::move(door)) {
  Words pids;
  const bool is_there = eventually([&] {
    pids = guest_pids(door_->pid_text());
    return !pids.empty();
  });
  if (!is_there) throw std::runtime_error("a process on a host did not start");
  outside_ = std::stoi(pids.front());
  pid_ = pids.back();
}

Guest::~Guest() {
  kill();
}

void Guest::signal(int number) const {
  if (outside_ > 0) ::kill(outside_, number);
}

void Guest::kill() {
  signal(SIGKILL);
  door_->signal(SIGCONT);  // it stopped with what it waits for
  if (outside_ > 0) wait();
}

int Guest::wait() {
  outside_ = -1;
  return door_->wait();
}

Bed::Bed(int hosts) : Bed(numbered(hosts)) {}

Bed::Bed(const Words& full_names) {
  boost::filesystem::permissions(dir_.path(),
                                 boost::filesystem::owner_all | boost::filesystem::add_perms |
                                     boost::filesystem::group_exe | boost::filesystem::others_exe);
  const Result up = testing::run(words("up", full_names));
  if (up.code == 0) return;
  testing::run(words("down", {}));
  throw std::runtime_error("no bed: " + up.err);
}

Bed::~Bed() {
  testing::run(words("down", {}));
}

Words Bed::numbered(int hosts) {
  Words names;
  for (int number = 1; number <= hosts; ++number) {
    names.push_back("host" + std::to_string(number) + ".bed.test");
  }
  return names;
}

std::string Bed::lacking() {
  if (!is_root()) return "root";
  for (const char* program : {"/usr/sbin/sshd", "ssh-keygen", "ip", "nsenter", "setpriv"}) {
    if (!has_program(program)) return program;
  }
  if (read_file("/proc/mounts").find(" cgroup2 ") == std::string::npos) return "cgroup2";
  const Words bridge = {"ip", "link", "add", "bridge", "type", "bridge"};
  const Words within = {"unshare", "--net",  "--uts",  "--ipc",       "--mount",
                        "--pid",   "--time", "--fork", "--mount-proc"};
  return testing::run(within + bridge).code == 0 ? "" : "namespaces and bridges";
}

std::string Bed::shared(const std::string& name) const {
  return dir_ / "bed/shared/" + name;
}

std::string Bed::own(const std::string& full_name, const std::string& name) const {
  return dir_ / "bed/hosts/" + full_name + "/" + name;
}

Result Bed::run(const std::string& host, const Words& command, RunOptions options) const {
  return testing::run(words("exec", Words{host} + command), with_tools(std::move(options)));
}

Result Bed::script(const std::string& host, const std::string& text, RunOptions options) const {
  return run(host, {"/bin/bash", "-c", text}, std::move(options));
}

std::unique_ptr<Guest> Bed::start(const std::string& host, const Words& command,
                                  RunOptions options) const {
  auto door = std::make_unique<Process>(words("exec", Words{host} + command),
                                        with_tools(std::move(options)));
  return std::make_unique<Guest>(std::move(door));
}

void Bed::sshd(const std::string& host, const Words& lines) const {
  must("sshd", host, lines);
}

void Bed::must(const std::string& command, const std::string& host, const Words& more) const {
  const Result done = testing::run(words(command, Words{host} + more));
  if (done.code != 0) throw std::runtime_error(command + " " + host + ": " + done.err);
}

Words Bed::words(const std::string& command, const Words& more) const {
  return Words{source_dir() + "/tests/system/cluster/cluster", dir_ / "bed", command} + more;
}

}  // namespace holdfast::testing
