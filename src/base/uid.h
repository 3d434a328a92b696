#pragma once

#include <compare>
#include <optional>
#include <string>

namespace holdfast {

/// The name of one holder: the text that stands as a file name in owner/ and build/.
///
/// Contract of every lock here: an id belongs to one process and is never used again after
/// that process died. That is why removing a dead id's entry is safe for anybody, at any time.
class Uid {
 public:
  /// An id that a caller gave. Refused, with the reason in `why`: what cannot be one file name
  /// (empty, `.`, `..`, a slash, a newline, more than 255 bytes) and the names that the layout
  /// keeps for itself (`.gone.*`) or NFS does (`.nfs*`).
  static std::optional<Uid> parse(std::string text, std::string& why);

  /// An id read back from a lock directory: whatever stands there is a holder.
  static Uid found(std::string name) { return Uid(std::move(name)); }

  const std::string& str() const { return text_; }
  auto operator<=>(const Uid&) const = default;

 private:
  explicit Uid(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

}  // namespace holdfast
