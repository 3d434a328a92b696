/// Real hosts for a test: a cluster of its own, made by tests/system/cluster/cluster.
#pragma once

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

/// First line of a case that makes a Bed.
#define NEEDS_BED()                                                     \
  do {                                                                  \
    const std::string lacking = ::holdfast::testing::Bed::lacking();    \
    if (!lacking.empty()) SKIP_TEST("needs " + lacking + " for hosts"); \
  } while (false)

namespace holdfast::testing {

using Words = std::vector<std::string>;

inline Words operator+(Words left, const Words& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

inline Words lines_of(const std::string& text) {
  std::istringstream from(text);
  Words lines;
  for (std::string line; std::getline(from, line);) lines.push_back(line);
  return lines;
}

/// A process on a host. Killed at the end of the scope if it still runs.
class Guest {
 public:
  explicit Guest(std::unique_ptr<Process> door);  ///< an `nsenter`, which waits for it
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;
  ~Guest();

  const std::string& pid() const { return pid_; }  ///< as its host counts
  void signal(int number) const;
  void kill();  ///< returns when it is gone
  int wait();   ///< until it ends: exit status, or 128 + signal

 private:
  std::unique_ptr<Process> door_;
  pid_t outside_ = -1;  // as this machine counts
  std::string pid_;
};

/// Up when made, gone with all that ran on it at the end of the scope, and also if the test is
/// killed. Hosts go by their first name where that is enough: "host2".
class Bed {
 public:
  explicit Bed(int hosts);  ///< host1.bed.test and so on
  explicit Bed(const Words& full_names);
  Bed(const Bed&) = delete;
  Bed& operator=(const Bed&) = delete;
  ~Bed();

  static std::string lacking();      ///< what this machine has not, or nothing
  static Words numbered(int hosts);  ///< host1.bed.test and so on

  /// A path in the folder that all hosts see, and in which commands run.
  std::string shared(const std::string& name = "") const;
  /// A path in what one host has for itself: its etc/ssh, etc/hosts, home.
  std::string own(const std::string& full_name, const std::string& name) const;

  /// Runs to the end, as root. The built tools are first in PATH.
  Result run(const std::string& host, const Words& words, RunOptions options = {}) const;
  Result script(const std::string& host, const std::string& text, RunOptions options = {}) const;
  std::unique_ptr<Guest> start(const std::string& host, const Words& words,
                               RunOptions options = {}) const;
  std::unique_ptr<Guest> sleeper(const std::string& host) const { return start(host, kSleeper); }

  void cut(const std::string& host) const { must("cut", host); }
  void heal(const std::string& host) const { must("heal", host); }
  void pause(const std::string& host) const { must("pause", host); }
  void resume(const std::string& host) const { must("resume", host); }
  void rekey(const std::string& host) const { must("rekey", host); }
  /// Further lines of its sshd_config; none: as at first.
  void sshd(const std::string& host, const Words& lines) const;
  void power_off(const std::string& host) const { must("kill", host); }
  void power_on(const std::string& host) const { must("start", host); }

 private:
  void must(const std::string& command, const std::string& host, const Words& more = {}) const;
  Words words(const std::string& command, const Words& more) const;

  TempDir dir_;
};

}  // namespace holdfast::testing
