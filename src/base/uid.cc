#include "base/uid.h"

namespace holdfast {

std::optional<Uid> Uid::parse(std::string text, std::string& why) {
  constexpr std::size_t kLongestName = 255;  // NAME_MAX of every filesystem we know
  if (text.empty()) {
    why = "an id must not be empty";
  } else if (text == "." || text == "..") {
    why = "'" + text + "' cannot be an id: it names a folder";
  } else if (text.find('/') != std::string::npos) {
    why = "an id must not contain '/': " + text;
  } else if (text.find('\n') != std::string::npos) {
    why = "an id must not contain a newline";
  } else if (text.size() > kLongestName) {
    why = "an id has at most 255 bytes, this one has " + std::to_string(text.size());
  } else if (text.starts_with(".gone.") || text.starts_with(".nfs")) {
    why = "ids that begin with '.gone.' or '.nfs' are reserved: " + text;
  } else {
    return Uid(std::move(text));
  }
  return std::nullopt;
}

}  // namespace holdfast
