#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "event/loop.h"
#include "http/exchange.h"
#include "http/message.h"

namespace holdfast::http {

/// What a peer may cost us.
struct Limits {
  std::size_t max_body = 2097152;
  std::size_t max_header = 65536;  ///< request line and fields together
  std::chrono::nanoseconds header_timeout{std::chrono::seconds(10)};  ///< from the first byte
  std::chrono::nanoseconds body_timeout{std::chrono::seconds(30)};    ///< from the end of the head
  std::chrono::nanoseconds idle_timeout{std::chrono::seconds(75)};    ///< between two requests
  std::chrono::nanoseconds write_timeout{std::chrono::seconds(30)};   ///< for 64 KiB, or all
  std::size_t max_connections = 10000;
  std::size_t max_backlog = 1048576;  ///< bytes of a Stream that its reader has not taken
  double rate = 0;                    ///< requests per second and peer; 0: any number
};

/// Told about every reply, and asked for the words of those that the transport gives itself.
///
/// Threads:  called on the loop's thread.
class Observer {
 public:
  virtual ~Observer() = default;

  /// When the reply is on its way to the kernel, or given up. `bytes` counts the body; `took` runs
  /// from the first byte of the request. Of a request that was refused half-read, what was read.
  virtual void finished(const Request& request, int status, std::size_t bytes,
                        std::chrono::nanoseconds took);

  /// 400, 408, 413, 417, 429, 431, 500 (nobody answered), 503 (too many connections). The status
  /// is kept whatever the Response says.
  virtual Response fault(int status, std::string_view why);
};

/// HTTP/1.0 and 1.1 on any number of listeners. Hands whole requests to one handler and knows
/// nothing of what they mean.
///
/// Owns:     its sockets, and the file of a unix socket, which is removed at the end. An Exchange
///           that outlives the Server is answered into the void.
/// Threads:  the loop's thread, or any while the loop does not run.
/// Killed:   a unix socket's file stays; the next listen() replaces it, since nobody answers there.
/// Never:    blocks, answers a peer's fault with 5xx, or lets one peer hold up another.
class Server {
 public:
  /// `observer` outlives the Server.
  Server(event::Loop& loop, Handler handler, Observer& observer, const Limits& limits = {});
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  ~Server();

  /// An address of address.h. https needs load_tls() before.
  std::error_code listen(std::string_view address, Scheme scheme = Scheme::http);

  /// For connections from now on; those that are open go on. If it fails (`why` tells), what was
  /// loaded before stays.
  bool load_tls(const std::string& certificate_file, const std::string& key_file, std::string& why);

  /// As a client writes them: "http://127.0.0.1:43211", "https://[::1]:443", "unix:/run/socket".
  std::vector<std::string> addresses() const;

  void set_limits(const Limits& limits);  ///< for requests from now on

  /// Accepts nobody any more, closes idle connections and streams, lets running requests end, but
  /// no longer than `limit`; then calls `done`, once, from the loop.
  void drain(std::chrono::nanoseconds limit, std::function<void()> done);

  std::size_t connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace holdfast::http
