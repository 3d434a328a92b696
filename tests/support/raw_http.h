/// A client that sends exactly the bytes it is told to: for what no decent client would send.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace holdfast::testing {

struct RawReply {
  int status = 0;
  std::string head;                                 ///< status line and fields as they came
  std::multimap<std::string, std::string> headers;  ///< names in small letters
  std::string body;

  bool has(const std::string& name) const { return headers.count(name) > 0; }
  std::string header(const std::string& name) const;  ///< the first one; empty if there is none
};

/// Owns:     the socket, and closes it at the end.
/// Threads:  one.
/// Never:    waits longer than its limit.
class RawClient {
 public:
  using Limit = std::chrono::milliseconds;
  static constexpr Limit kLimit{20000};

  /// "http://127.0.0.1:8420", "http://[::1]:80" or "unix:/path". With a `receive_buffer` the kernel
  /// keeps no more than about so many unread bytes. Throws if nobody listens.
  explicit RawClient(const std::string& address, int receive_buffer = 0);
  RawClient(RawClient&& other) noexcept;
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;
  virtual ~RawClient();

  int fd() const { return fd_; }

  /// False if the peer does not take it.
  bool send(const std::string& bytes, Limit limit = kLimit);

  /// One whole reply with its body; interim ones (1xx) count as replies. Nothing if the connection
  /// ends before, or time is up. The reply to a HEAD has no body whatever its fields say.
  std::optional<RawReply> read_reply(bool is_to_head = false, Limit limit = kLimit);

  /// send() and read_reply().
  std::optional<RawReply> ask(const std::string& bytes, Limit limit = kLimit);

  /// All that comes until the peer closes. Nothing if it does not in time.
  std::optional<std::string> read_to_end(Limit limit = kLimit);

  /// So many bytes, fewer if the peer closes or time is up.
  std::string read_bytes(std::size_t count, Limit limit = kLimit);

  bool is_silent(Limit time);  ///< nothing comes, not even the end

  void end_sending();
  void reset();  ///< closes so that the peer sees an error
  void close();

 protected:
  /// As read(2) and write(2), after poll(2) said that there is something.
  virtual long read_some(char* into, std::size_t size);
  virtual long write_some(const char* from, std::size_t size);

 private:
  using Time = std::chrono::steady_clock::time_point;
  bool wait(short events, Time until) const;
  bool read_more(Time until);  ///< false at the end, after an error, or too late
  bool read_until_size(std::size_t size, Time until);
  bool read_line(std::string& line, Time until);
  bool read_chunks(std::string& body, Time until);

  int fd_ = -1;
  std::string unread_;
  bool has_ended_ = false;
};

/// A request with a length, for tests to whom the bytes do not matter.
std::string raw_request(const std::string& method, const std::string& target,
                        const std::string& body = "", const std::string& more_fields = "");

}  // namespace holdfast::testing
