#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "http/tls.h"

struct ssl_st;

namespace holdfast::http {

/// A connected socket, plain or TLS. No call waits.
///
/// Owns:     the descriptor, and closes it.
class Channel {
 public:
  enum class State {
    ok,
    want_read,   ///< nothing now: try again when the descriptor is readable
    want_write,  ///< nothing now: try again when it is writable
    end,         ///< the peer will send no more
    failed,      ///< the connection is of no use any more
  };
  struct Result {
    State state = State::ok;
    std::size_t size = 0;
  };

  /// With `tls`, handshake() comes first.
  Channel(int fd, const std::shared_ptr<const Tls>& tls);
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;
  ~Channel();

  int fd() const { return fd_; }
  State handshake();
  Result read(std::span<char> into);
  Result write(std::string_view text);

  bool has_decrypted() const;               ///< bytes are here of which the descriptor says nothing
  bool has_unread() const;                  ///< the peer sent more than was read
  void end_writing();                       ///< tells the peer that nothing follows
  Result discard(std::span<char> scratch);  ///< reads as if there were no TLS

 private:
  Result tls_result(int returned);

  struct SslFree {
    void operator()(ssl_st* ssl) const;
  };

  int fd_;
  std::shared_ptr<const Tls> tls_;
  std::unique_ptr<ssl_st, SslFree> ssl_;
};

}  // namespace holdfast::http
