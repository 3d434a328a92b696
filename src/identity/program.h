#pragma once

#include <optional>
#include <string>
#include <vector>

namespace holdfast::identity {

/// Where the standard output of a program goes. Its errors go where ours go.
enum class Output {
  ours,
  to_stderr,
  captured,
  captured_quietly,  ///< and what it says on its standard error is dropped
};

struct Ran {
  int status = 127;      ///< as a shell has it: 127 if there is no such program, 128 + signal
  std::string output{};  ///< if it was captured: without the newlines at its end
};

/// Runs a program to its end. No shell is involved: a word is one word, whatever is in it. With an
/// input the program reads that, else what we would. No signal is blocked for it.
Ran run_program(const std::vector<std::string>& words, Output output = Output::ours,
                const std::optional<std::string>& input = std::nullopt);

/// The path of a program that was installed together with this one.
std::string beside_us(const std::string& name);

}  // namespace holdfast::identity
