/// Requests and replies of the claims API.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/raw_http.h"

namespace holdfast::testing {

using Json = nlohmann::json;
using Headers = std::vector<std::pair<std::string, std::string>>;

/// Status 0: there was none.
struct Reply : RawReply {
  Json json() const;  ///< discarded if the body is no JSON
};

struct Request {
  std::string method = "GET";
  std::string target = "/";
  std::string body;
  Headers headers;
  std::string version = "HTTP/1.1";

  std::string bytes() const;  ///< with Host, and Content-Length where there is a body
};

/// One connection to 127.0.0.1. Threads: one at a time.
class Connection {
 public:
  using Limit = RawClient::Limit;
  static constexpr Limit kLimit = RawClient::kLimit;

  explicit Connection(int port);

  bool send(const std::string& bytes);  ///< false: the other side is gone, or was never there
  void finish_sending();

  /// The next reply in full. Status 0 if the connection ends or the time is over before that.
  Reply read(const std::string& method = "GET", Limit limit = kLimit);

  /// The head of the next reply; its body is left to read_some().
  Reply read_head(Limit limit = kLimit);

  /// The next chunk of a stream; nothing if the time is over or the stream has ended.
  std::string read_some(Limit limit);

  bool is_closed_within(Limit limit);  ///< by the other side; drops what comes

 private:
  std::string read_through(const std::string& mark, Limit limit);

  std::optional<RawClient> raw_;
  std::string partial_;
};

/// A connection of its own for one request.
Reply exchange(int port, const Request& request, Connection::Limit limit = Connection::kLimit);

std::string percent(const std::string& text);  ///< every byte but letters and digits as %XX

}  // namespace holdfast::testing
