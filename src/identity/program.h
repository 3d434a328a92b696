#pragma once

#include <optional>
#include <string>
#include <vector>

namespace holdfast::identity {

/// Where the output of a program goes.
enum class Output {
  pass,       ///< where ours goes
  capture,    ///< into Ran::output
  to_stderr,  ///< where our errors go: stdout is for answers of our own
};

struct Ran {
  int status = 127;  ///< as a shell would have it; 127 if it could not be run
  std::string output{};
};

/// Runs a program to its end. No shell is involved: an id is one word, whatever is in it. With an
/// input the program reads that, else what we would.
Ran run_program(const std::vector<std::string>& words, Output output = Output::pass,
                const std::optional<std::string>& input = std::nullopt);

/// The path of a program that was installed together with this one.
std::string beside_us(const std::string& name);

}  // namespace holdfast::identity
