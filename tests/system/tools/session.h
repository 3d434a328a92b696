#pragma once

#include <catch2/catch.hpp>
#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

using Env = std::map<std::string, std::string>;
using Tree = std::vector<std::string>;

inline bool operator==(const Result& a, const Result& b) {
  return a.code == b.code && a.out == b.out && a.err == b.err;
}
inline std::ostream& operator<<(std::ostream& to, const Result& r) {
  return to << "exit " << r.code << "\nstdout: " << r.out << "\nstderr: " << r.err;
}

inline const Result kSilentYes{0, "", ""};
inline const Result kSilentNo{1, "", ""};

/// A scratch folder and a user who sits in it: commands run there, so paths can be short.
class Session {
 public:
  Result run(const std::vector<std::string>& words, const Env& env = {}) const {
    return testing::run(words, options(env));
  }
  Result shell(const std::string& script, const Env& env = {}) const {
    return testing::shell(script, options(env));
  }
  /// For preparations: what they print shows up only if they fail.
  void must(const std::string& script) const {
    const Result result = shell("set -e; " + script);
    INFO(script << "\n" << result);
    REQUIRE(result.code == 0);
  }
  Tree tree(const std::string& name = "") const {
    return testing::tree(name.empty() ? dir_.path() : dir_ / name);
  }
  std::string path(const std::string& name) const { return dir_ / name; }

 private:
  RunOptions options(const Env& env) const {
    RunOptions made;
    made.cwd = dir_.path();
    made.env = env;
    return made;
  }

  TempDir dir_;
};

/// The cause, one line of usage and where to find more; nothing on stdout.
inline void check_usage(const Result& result, const std::string& cause_part = "") {
  INFO(result);
  CHECK(result.code == 10);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::Matches("Error - [^\n]+\nusage: [^\n]+\n'[^\n]+ --help' [^\n]+\n"));
  CHECK_THAT(result.err.substr(0, result.err.find('\n')), Catch::Contains(cause_part));
}

/// One ` ERROR - ` line that names the reason.
inline void check_failed(const Result& result, int code, const std::string& reason) {
  INFO(result);
  CHECK(result.code == code);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::Matches(" ERROR - [^\n]+\n"));
  CHECK_THAT(result.err, Catch::Contains(reason));
}

/// What `date` prints in the C locale.
inline const std::string kDate =
    "[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\\d \\d\\d:\\d\\d:\\d\\d [-+A-Z0-9]+ \\d{4}";

/// A pid that nothing has: above the largest that the kernel gives.
inline const std::string kNoPid = "4194999";

inline std::string uid_of(const std::string& pid) {
  const Result made = run({"local_id", "uid", pid});
  REQUIRE(made.code == 0);
  return made.out.substr(0, made.out.size() - 1);
}

/// The uid of a process that has come and gone.
inline std::string dead_uid() {
  Process brief(kSleeper);
  return uid_of(brief.pid_text());
}

}  // namespace holdfast::testing
