/// Running the built tools, and anything else, as a user would.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <map>
#include <string>
#include <vector>

/// Leaves the test case and has it counted as skipped, with the reason in the output.
#define SKIP_TEST(reason)                     \
  do {                                        \
    ::holdfast::testing::say_skipped(reason); \
    return;                                   \
  } while (false)

namespace holdfast::testing {

void say_skipped(const std::string& reason);
std::string take_skip_reason();  ///< why the present case was skipped; empty if it was not

struct Result {
  int code = -1;  ///< exit status, or 128 + signal
  std::string out;
  std::string err;
};

struct RunOptions {
  std::string cwd;
  std::map<std::string, std::string>
      env;  ///< added to ours; LANG=C, DEBUG, USER and LOGNAME are cleared before
  std::string input;
  std::chrono::seconds limit{60};  ///< killed after that, code 137
};

/// Runs to the end. The first word may be a tool's name: then it is the one that was built.
Result run(const std::vector<std::string>& words, const RunOptions& options = {});

/// `sh -c script` with the built tools first in PATH.
Result shell(const std::string& script, const RunOptions& options = {});

std::string build_dir();  ///< of the tree under test
std::string source_dir();
std::string tool(const std::string& name);    ///< path of a built tool
std::string helper(const std::string& name);  ///< path of a holdfast_helper program

/// A program in the background. Killed at the end of the scope if it still runs.
class Process {
 public:
  explicit Process(const std::vector<std::string>& words, const RunOptions& options = {});
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process();

  pid_t pid() const { return pid_; }
  std::string pid_text() const { return std::to_string(pid_); }
  void signal(int number) const;
  int wait();  ///< until it ends: exit status, or 128 + signal
  void kill_and_wait();

 private:
  pid_t pid_ = -1;
  bool is_running_ = true;
};

/// Something that lives until it is killed.
inline const std::vector<std::string> kSleeper = {"/bin/sleep", "1000"};

/// Polls until `is_so` or the time is over; says which.
bool eventually(const std::function<bool()>& is_so,
                std::chrono::seconds limit = std::chrono::seconds(20));

/// The tools carry a sanitizer, which opens files and makes calls of its own. The program of the
/// test need not: see tests/RINGS.
extern const bool kIsSanitized;

bool is_root();
bool has_program(const std::string& name);

}  // namespace holdfast::testing
