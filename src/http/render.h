#pragma once

#include <cstdint>
#include <ctime>
#include <string>
#include <string_view>

#include "http/message.h"

namespace holdfast::http {

/// Writes replies as text. Keeps the Date of the present second and the numbers of requests.
///
/// Threads:  one.
class Renderer {
 public:
  Renderer();

  /// What follows the head.
  enum class Body {
    whole,    ///< the response's body, with its length
    chunked,  ///< unknown length, in chunks
    to_end,   ///< unknown length, until the connection is closed
  };
  enum class After { keep_alive, keep_alive_10, close };

  /// Appends the head and, for a `whole` body, the body where there is one to be sent.
  void put(std::string& out, const Request& request, const Response& response, Body body,
           After after);

  /// A name for a request that brought none: unlike those of any other server or start.
  std::string next_id();

 private:
  std::string_view date();

  std::time_t second_ = 0;
  std::string date_;
  std::string prefix_;
  std::uint64_t count_ = 0;
};

/// As a request may name itself: 1 to 64 characters that are safe in a log and in a header.
bool is_harmless_id(std::string_view text);

/// One chunk of a chunked body.
void put_chunk(std::string& out, std::string_view text);

}  // namespace holdfast::http
