/// The entry of every test program: Catch's, and a line about each case for scripts/test.
#define CATCH_CONFIG_RUNNER
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "support/process.h"
#include "support/sanitizer.h"

namespace holdfast::testing {
namespace {

int skipped_cases = 0;
int other_cases = 0;

/// "server_api" or, with claims kept elsewhere, "server_api on postgres": the test's name.
std::string program_name;

void name_program(const std::string& path) {
  program_name = path.substr(path.rfind('/') + 1);
  const std::string ending = "_test";
  if (program_name.ends_with(ending)) program_name.resize(program_name.size() - ending.size());
  if (const char* store = std::getenv("HOLDFAST_TEST_STORE")) {
    program_name += std::string(" on ") + store;
  }
}

/// Appends a line for each case to the file $HOLDFAST_CASES: outcome, seconds, name, and for a skip
/// its reason, with tabs between them. Several programs write to that file at once, each line with
/// one write.
class CaseReport : public Catch::TestEventListenerBase {
 public:
  using TestEventListenerBase::TestEventListenerBase;

  void testCaseStarting(const Catch::TestCaseInfo& info) override {
    TestEventListenerBase::testCaseStarting(info);
    (void)take_skip_reason();
    timer_.start();
  }

  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    TestEventListenerBase::testCaseEnded(stats);
    const std::string reason = take_skip_reason();
    ++(reason.empty() ? other_cases : skipped_cases);
    const char* path = std::getenv("HOLDFAST_CASES");
    if (!path) return;
    const bool is_failed = !stats.totals.assertions.allOk();
    char seconds[32];
    std::snprintf(seconds, sizeof seconds, "%.3f", timer_.getElapsedSeconds());
    const std::string outcome = is_failed ? "failed" : reason.empty() ? "passed" : "skipped";
    const std::string line = outcome + "\t" + seconds + "\t" + program_name + "/" +
                             stats.testInfo.name + "\t" + reason + "\n";
    const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
      std::perror(path);
      std::_Exit(1);  // a case that nobody counts would be a case that cannot fail
    }
    close(file);
  }

 private:
  Catch::Timer timer_;
};
CATCH_REGISTER_LISTENER(CaseReport)

}  // namespace
}  // namespace holdfast::testing

/// 77 tells ctest that nothing was run but skipped cases.
int main(int argc, char** argv) {
  using namespace holdfast::testing;
  constexpr int kSkipped = 77;
  name_program(argv[0]);
  show_calls_to_sanitizer();
  const int failures = Catch::Session().run(argc, argv);
  return failures == 0 && skipped_cases > 0 && other_cases == 0 ? kSkipped : failures;
}
