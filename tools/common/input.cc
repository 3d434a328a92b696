#include "common/input.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

#include "base/text.h"

namespace holdfast::tools {

std::vector<std::string> input_lines() {
  std::string text;
  std::array<char, 4096> part;
  for (;;) {
    const ssize_t n = read(STDIN_FILENO, part.data(), part.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw std::system_error(errno, std::generic_category(), "standard input");
    if (n == 0) break;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
  std::vector<std::string> lines;
  for (const std::string_view line : split(text, "\n", true)) lines.emplace_back(line);
  return lines;
}

}  // namespace holdfast::tools
