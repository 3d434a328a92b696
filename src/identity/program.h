#pragma once

#include <string>
#include <vector>

namespace holdfast::identity {

/// Where the standard output of a program goes. Its input and its errors are ours.
enum class Output {
  ours,
  to_stderr,
  captured,
  captured_quietly,  ///< and what it says on its standard error is dropped
};

struct Ran {
  int status;            ///< as a shell has it: 127 if there is no such program, 128 + signal
  std::string output{};  ///< if it was captured: without the newlines at its end
};

/// Runs a program to its end. No shell is involved: a word is one word, whatever is in it.
Ran run_program(const std::vector<std::string>& words, Output output = Output::ours);

}  // namespace holdfast::identity
