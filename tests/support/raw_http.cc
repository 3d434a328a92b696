#include "support/raw_http.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace holdfast::testing {
namespace {

std::string small(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

int open_socket(int family, int receive_buffer) {
  const int fd = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) fail("socket");
  if (receive_buffer > 0) {
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
  }
  return fd;
}

template <class T>
int connect_to(const T& address, int family, int receive_buffer) {
  const int fd = open_socket(family, receive_buffer);
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  const int reason = errno;
  (void)::close(fd);
  errno = reason;
  fail("connect");
}

int connect_unix(const std::string& path, int receive_buffer) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  return connect_to(name, AF_UNIX, receive_buffer);
}

int connect_tcp(std::string host, int receive_buffer) {
  host = host.substr(0, host.find('/'));
  const std::size_t colon = host.rfind(':');
  const int port = std::stoi(host.substr(colon + 1));
  host.resize(colon);
  if (host.starts_with('[')) {
    sockaddr_in6 v6{};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(static_cast<std::uint16_t>(port));
    (void)::inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6.sin6_addr);
    return connect_to(v6, AF_INET6, receive_buffer);
  }
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_port = htons(static_cast<std::uint16_t>(port));
  (void)::inet_pton(AF_INET, host.c_str(), &v4.sin_addr);
  return connect_to(v4, AF_INET, receive_buffer);
}

int connect_any(const std::string& address, int receive_buffer) {
  if (address.starts_with("unix:")) return connect_unix(address.substr(5), receive_buffer);
  const int fd = connect_tcp(address.substr(address.find("://") + 3), receive_buffer);
  const int on = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

void put_field(RawReply& reply, const std::string& line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string::npos) return;
  const std::size_t value = line.find_first_not_of(' ', colon + 1);
  reply.headers.emplace(small(line.substr(0, colon)),
                        value == std::string::npos ? "" : line.substr(value));
}

}  // namespace

std::string RawReply::header(const std::string& name) const {
  const auto at = headers.find(name);
  return at != headers.end() ? at->second : "";
}

RawClient::RawClient(const std::string& address, int receive_buffer)
    : fd_(connect_any(address, receive_buffer)) {}

RawClient::RawClient(RawClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      unread_(std::move(other.unread_)),
      has_ended_(other.has_ended_) {}

RawClient::~RawClient() {
  close();
}

void RawClient::close() {
  if (fd_ >= 0) (void)::close(std::exchange(fd_, -1));
}

void RawClient::reset() {
  const linger now{1, 0};
  (void)::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  close();
}

void RawClient::end_sending() {
  (void)::shutdown(fd_, SHUT_WR);
}

long RawClient::read_some(char* into, std::size_t size) {
  return ::recv(fd_, into, size, MSG_DONTWAIT);
}

long RawClient::write_some(const char* from, std::size_t size) {
  return ::send(fd_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

bool RawClient::wait(short events, Time until) const {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd one{fd_, events, 0};
    const int ready = ::poll(&one, 1, static_cast<int>(std::max<long>(0, left.count())));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool RawClient::send(const std::string& bytes, Limit limit) {
  const Time until = std::chrono::steady_clock::now() + limit;
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const long taken = write_some(bytes.data() + sent, bytes.size() - sent);
    if (taken > 0) {
      sent += static_cast<std::size_t>(taken);
    } else if (errno != EAGAIN || !wait(POLLOUT, until)) {
      return false;
    }
  }
  return true;
}

bool RawClient::read_more(Time until) {
  while (!has_ended_) {
    char bytes[65536];
    const long got = read_some(bytes, sizeof bytes);
    if (got > 0) {
      unread_.append(bytes, static_cast<std::size_t>(got));
      return true;
    }
    if (got == 0 || errno != EAGAIN) {
      has_ended_ = true;
    } else if (!wait(POLLIN, until)) {
      return false;
    }
  }
  return false;
}

bool RawClient::read_until_size(std::size_t size, Time until) {
  while (unread_.size() < size) {
    if (!read_more(until)) return false;
  }
  return true;
}

bool RawClient::read_line(std::string& line, Time until) {
  std::size_t end = 0;
  while ((end = unread_.find("\r\n")) == std::string::npos) {
    if (!read_more(until)) return false;
  }
  line = unread_.substr(0, end);
  unread_.erase(0, end + 2);
  return true;
}

bool RawClient::read_chunks(std::string& body, Time until) {
  while (true) {
    std::string line;
    if (!read_line(line, until)) return false;
    const std::size_t size = std::stoul(line, nullptr, 16);
    if (!read_until_size(size + 2, until)) return false;
    body += unread_.substr(0, size);
    unread_.erase(0, size + 2);
    if (size == 0) return true;
  }
}

std::optional<RawReply> RawClient::read_reply(bool is_to_head, Limit limit) {
  const Time until = std::chrono::steady_clock::now() + limit;
  RawReply reply;
  std::string line;
  if (!read_line(line, until) || line.size() < 12) return std::nullopt;
  reply.status = std::stoi(line.substr(9, 3));
  while (!line.empty()) {
    reply.head += line + "\r\n";
    if (!read_line(line, until)) return std::nullopt;
    put_field(reply, line);
  }
  if (is_to_head || reply.status < 200 || reply.status == 204 || reply.status == 304) return reply;
  if (reply.header("transfer-encoding") == "chunked") {
    if (!read_chunks(reply.body, until)) return std::nullopt;
    return reply;
  }
  if (!reply.has("content-length")) {
    const std::optional<std::string> rest = read_to_end(limit);
    if (!rest) return std::nullopt;
    reply.body = *rest;
    return reply;
  }
  const std::size_t size = std::stoul(reply.header("content-length"));
  if (!read_until_size(size, until)) return std::nullopt;
  reply.body = unread_.substr(0, size);
  unread_.erase(0, size);
  return reply;
}

std::optional<RawReply> RawClient::ask(const std::string& bytes, Limit limit) {
  if (!send(bytes, limit)) return std::nullopt;
  return read_reply(bytes.starts_with("HEAD "), limit);
}

std::optional<std::string> RawClient::read_to_end(Limit limit) {
  const Time until = std::chrono::steady_clock::now() + limit;
  while (read_more(until)) {
  }
  if (!has_ended_) return std::nullopt;
  return std::exchange(unread_, {});
}

std::string RawClient::read_bytes(std::size_t count, Limit limit) {
  (void)read_until_size(count, std::chrono::steady_clock::now() + limit);
  std::string bytes = unread_.substr(0, count);
  unread_.erase(0, bytes.size());
  return bytes;
}

bool RawClient::is_silent(Limit time) {
  return unread_.empty() && !has_ended_ && !wait(POLLIN, std::chrono::steady_clock::now() + time);
}

std::string raw_request(const std::string& method, const std::string& target,
                        const std::string& body, const std::string& more_fields) {
  std::string text = method + " " + target + " HTTP/1.1\r\nHost: test\r\n" + more_fields;
  if (!body.empty()) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace holdfast::testing
