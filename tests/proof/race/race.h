/// Many processes on one lock, some of them killed, and what became of it.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace holdfast::testing {

struct Plan {
  int library_contenders = 7;
  int tool_contenders = 2;
  long sections = 20'000;           ///< by all that use the library, together
  long tool_sections = 200;         ///< by all that use the tools, together
  bool has_remover = false;         ///< somebody removes empty folders all the time
  bool has_cleaner = false;         ///< somebody cleans without asking all the time
  std::chrono::seconds limit{480};  ///< only to notice a standstill
};

/// What one race showed.
struct Findings {
  std::string violations;                      ///< a line each; must be empty
  long completed = 0;                          ///< sections
  long killed = 0;                             ///< contenders
  long killed_holders = 0;                     ///< of them, such as held it when they died
  long failed_attempts = 0;                    ///< told "failed", not "held by another"
  std::chrono::milliseconds longest_pause{0};  ///< between two completed sections
  std::vector<std::string> left;               ///< of the lock after one clean
};

/// Runs it in `dir`: contenders that are killed are replaced until all sections are done. Nothing
/// that was started runs any more when this returns.
Findings race(const std::string& dir, const Plan& plan);

/// race(), and every promise checked.
void race_and_check(const std::string& name, const std::string& dir, const Plan& plan);

}  // namespace holdfast::testing
