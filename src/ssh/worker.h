#pragma once

#include <sys/types.h>

#include <string>

#include "ssh/config.h"
#include "ssh/known_hosts.h"
#include "ssh/report.h"
#include "ssh/survey.h"

namespace holdfast::ssh {

/// What an engine works on: one errand, what is known of its host, and whom to tell.
struct Task {
  const Errand& errand;
  const Settings& settings;
  const Report& report;
  HostConfig config;
  HostKeys host_keys;  ///< the settings', or stricter where the user's config is
  Known known;
  Route route;

  void fail(const std::string& why) const {
    report.route(route);
    report.failed(why);
  }
  void answer(int status) const {
    report.route(route);
    report.answered(status);
  }
};

/// The life of the process that runs one errand. It leads a session and a process group of its own,
/// has no terminal, and ends, with all that it started, when its parent does.
[[noreturn]] void work(const Errand& errand, const Settings& settings, int report, pid_t parent);

/// With libssh. Reports the end of the task, or gives the reason why the ssh program must do it.
std::string run_library(Task& task);

/// With the ssh program. Reports the end of the task.
void run_program(Task& task);

}  // namespace holdfast::ssh
