#include "ssh/worker.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>

namespace holdfast::ssh {
namespace {

void end_group(int) {
  kill(0, SIGKILL);
}

void become_worker(pid_t parent) {
  setsid();  // no terminal: nobody can be asked
  struct sigaction act {};
  act.sa_handler = end_group;
  sigaction(SIGTERM, &act, nullptr);
  act.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &act, nullptr);
  act.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &act, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) end_group(0);  // it died before the line above
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {0, 1, 2}) dup2(null, stream);
  unsetenv("SSH_ASKPASS");
  unsetenv("DISPLAY");
  setenv("SSH_ASKPASS_REQUIRE", "never", 1);
}

/// What the known hosts files say, or nothing after the refusal was reported.
bool look_up_host(Task& task) {
  if (task.host_keys == HostKeys::insecure) return true;
  std::vector<std::string> files = task.config.user_known_hosts;
  files.insert(files.end(), task.config.global_known_hosts.begin(),
               task.config.global_known_hosts.end());
  files.push_back(known_hosts_file(task.settings));
  std::string why;
  std::optional<Known> known = look_up(task.config.key_name(), files, why);
  if (!known) {
    task.fail(why);
    return false;
  }
  task.known = std::move(*known);
  if (task.host_keys == HostKeys::strict && task.known.is_empty() &&
      task.config.other_host_keys.empty()) {
    task.fail(unknown_message(task.config.key_name()));
    return false;
  }
  return true;
}

/// Why libssh is not to be tried. Empty: it is.
std::string reason_for_program(const Task& task) {
  if (task.settings.engine == Engine::command) return "HOLDFAST_SSH=command";
  if (!task.config.beyond_libssh.empty()) return task.config.beyond_libssh;
  if (task.host_keys == HostKeys::insecure) return {};
  if (!task.config.other_host_keys.empty()) return task.config.other_host_keys;
  if (task.known.has_authority) return "a known hosts file names a certificate authority for it";
  return {};
}

void run_errand(const Errand& errand, const Settings& settings, const Report& report) {
  report.stage("reading the ssh config");
  std::string why;
  std::optional<HostConfig> config = read_config(errand.host, why);
  if (!config) return report.failed(why);
  Task task{errand, settings, report, std::move(*config), settings.host_keys, {}, {}};
  if (task.config.is_strict && task.host_keys == HostKeys::remember) {
    task.host_keys = HostKeys::strict;
  }
  if (!look_up_host(task)) return;
  std::string reason = reason_for_program(task);
  if (reason.empty()) {
    task.route.engine = "libssh";
    report.route(task.route);
    reason = run_library(task);
    if (reason.empty()) return;
  }
  if (!task.config.has_program) {
    return task.fail("the ssh program is not installed, and is needed: " + reason);
  }
  if (settings.engine == Engine::automatic) report.note("using the ssh program: " + reason);
  task.route = Route{"ssh program: " + reason, {}, {}, {}};
  report.route(task.route);
  run_program(task);
}

}  // namespace

void work(const Errand& errand, const Settings& settings, int report_fd, pid_t parent) {
  // out of the way of the standard streams, which the parent may have closed
  const Report report(fcntl(report_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1));
  become_worker(parent);
  try {
    run_errand(errand, settings, report);
  } catch (const std::exception& error) {
    report.failed(error.what());
  }
  _exit(0);
}

}  // namespace holdfast::ssh
