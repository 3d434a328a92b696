#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::http {

/// Who sent a request, as the kernel tells it.
struct Peer {
  std::string address;          ///< "192.0.2.7", "::1"; "unix" for a unix socket
  bool is_loopback = false;     ///< 127.0.0.0/8, ::1 or a unix socket
  std::optional<unsigned> uid;  ///< of the process that connected; unix sockets only
};

enum class Scheme { http, https };

struct Header {
  std::string_view name;  ///< of a literal
  std::string value;
};

/// A whole request, body included, as it was sent: nothing is decoded.
///
/// Owns:     its bytes; views are good as long as the Request is neither changed nor moved.
/// Threads:  const calls from anywhere.
class Request {
 public:
  std::string_view method() const { return text(method_); }
  std::string_view target() const { return text(target_); }  ///< path and query
  std::string_view path() const;                             ///< before '?', undecoded
  std::string_view query() const;                            ///< after '?', undecoded
  int version() const { return version_; }                   ///< 10 or 11

  /// The first field of that name, in any case; empty if there is none.
  std::string_view header(std::string_view name) const;
  bool has_header(std::string_view name) const;

  const std::string& body() const { return body_; }
  Scheme scheme() const { return scheme_; }
  std::string_view scheme_name() const { return scheme_ == Scheme::https ? "https" : "http"; }
  const Peer& peer() const { return peer_; }

  /// X-Request-Id as it was sent, if that is 1 to 64 of [A-Za-z0-9._:-]; otherwise made here.
  const std::string& id() const { return id_; }

  /// For the parser, and for tests that bring a request of their own.
  void start(std::string_view method, std::string_view target, int version);
  void add_header(std::string_view name, std::string_view value);
  void set_peer(Peer peer, Scheme scheme);
  void set_id(std::string id) { id_ = std::move(id); }
  std::string& mutable_body() { return body_; }
  bool is_bulky() const;  ///< holds more memory than an ordinary request needs

 private:
  struct Part {
    std::size_t at = 0;
    std::size_t size = 0;
  };
  struct Field {
    Part name;
    Part value;
  };

  std::string_view text(Part part) const {
    return std::string_view(head_).substr(part.at, part.size);
  }
  Part keep(std::string_view text);
  const Field* find(std::string_view name) const;

  std::string head_;  ///< method, target and fields, one after the other
  Part method_;
  Part target_;
  std::vector<Field> fields_;
  std::string body_;
  std::string id_;
  Peer peer_;
  Scheme scheme_ = Scheme::http;
  int version_ = 11;
};

/// An answer. The transport adds Date, Server, X-Request-Id, Content-Length and Connection, so none
/// of them belongs into `headers`. A body of 204 and 304 is not sent, that of a HEAD only counted.
struct Response {
  int status = 200;
  std::string_view content_type = "application/json";  ///< a literal; empty: no such field
  std::vector<Header> headers = {};
  std::string body = {};
  bool is_last = false;  ///< the connection is closed after it
};

std::string_view reason(int status);

}  // namespace holdfast::http
