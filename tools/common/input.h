#pragma once

#include <string>
#include <vector>

namespace holdfast::tools {

/// What stands on standard input, line by line; a last line without its end counts. Throws where it
/// cannot be read.
std::vector<std::string> input_lines();

}  // namespace holdfast::tools
