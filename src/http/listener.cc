#include "http/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace holdfast::http {
namespace {

/// Then others get their turn.
constexpr int kAtOnce = 64;
constexpr std::chrono::milliseconds kPause{100};

struct Socket {
  sockaddr_storage bytes{};
  socklen_t size = sizeof(sockaddr_storage);

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&bytes); }
  template <class T>
  T as() const {
    T copy{};
    std::memcpy(&copy, &bytes, sizeof copy);
    return copy;
  }
  template <class T>
  void set(const T& value) {
    std::memcpy(&bytes, &value, sizeof value);
    size = sizeof value;
  }
};

std::error_code last_error() {
  return {errno, std::generic_category()};
}

std::optional<Socket> to_socket(const Address& address) {
  Socket socket;
  if (address.is_unix) {
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    if (address.path.size() >= sizeof name.sun_path) return std::nullopt;
    std::memcpy(&name.sun_path[0], address.path.data(), address.path.size());
    socket.set(name);
    return socket;
  }
  sockaddr_in v4{};
  if (::inet_pton(AF_INET, address.host.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = htons(address.port);
    socket.set(v4);
    return socket;
  }
  sockaddr_in6 v6{};
  if (::inet_pton(AF_INET6, address.host.c_str(), &v6.sin6_addr) != 1) return std::nullopt;
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(address.port);
  socket.set(v6);
  return socket;
}

void set_option(int fd, int level, int name, int value) {
  (void)::setsockopt(fd, level, name, &value, sizeof value);  // slower without, not wrong
}

/// Inherited by what is accepted. Keep-alive probes find the parked peer whose host has vanished.
void set_tcp_options(int fd) {
  set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1);
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
  set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, 15);
  set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 4);
}

/// A socket's file outlives its process: removed here if connecting shows that nobody listens.
bool remove_if_stale(const std::string& path, Socket& socket) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0 || !S_ISSOCK(found.st_mode)) return false;
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool is_stale = ::connect(fd, socket.get(), socket.size) != 0 && errno == ECONNREFUSED;
  (void)::close(fd);
  return is_stale && ::unlink(path.c_str()) == 0;
}

std::error_code bind_to(int fd, const Address& address, Socket& socket) {
  if (::bind(fd, socket.get(), socket.size) == 0) return {};
  const std::error_code ec = last_error();
  if (!address.is_unix || ec != std::errc::address_in_use) return ec;
  if (!remove_if_stale(address.path, socket)) return ec;
  return ::bind(fd, socket.get(), socket.size) == 0 ? std::error_code{} : last_error();
}

/// Who may do what is decided by the peer's uid, not by the mode of the file.
std::error_code open_to_all(const Address& address) {
  if (!address.is_unix || ::chmod(address.path.c_str(), 0666) == 0) return {};
  return last_error();
}

Peer tcp_peer(const Socket& socket) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  Peer peer;
  if (socket.bytes.ss_family == AF_INET) {
    const auto v4 = socket.as<sockaddr_in>();
    (void)::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    peer.address = text.data();
  } else {
    const auto v6 = socket.as<sockaddr_in6>();
    (void)::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    peer.address = text.data();
    constexpr std::string_view kMapped = "::ffff:";  // IPv4 on a socket for both
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) peer.address.erase(0, kMapped.size());
  }
  peer.is_loopback = peer.address == "::1" || peer.address.starts_with("127.");
  return peer;
}

Peer unix_peer(int fd) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  Peer peer{"unix", true, std::nullopt};
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0) {
    peer.uid = credentials.uid;
  }
  return peer;
}

std::uint16_t port_of(int fd) {
  Socket socket;
  if (::getsockname(fd, socket.get(), &socket.size) != 0) return 0;
  return ntohs(socket.bytes.ss_family == AF_INET ? socket.as<sockaddr_in>().sin_port
                                                 : socket.as<sockaddr_in6>().sin6_port);
}

}  // namespace

std::unique_ptr<Listener> Listener::open(event::Loop& loop, const Address& address,
                                         Accepted accepted, std::error_code& ec) {
  std::optional<Socket> socket = to_socket(address);
  if (!socket) {
    ec = make_error_code(address.is_unix ? std::errc::filename_too_long
                                         : std::errc::invalid_argument);
    return nullptr;
  }
  const int fd = ::socket(socket->bytes.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) {
    ec = last_error();
    return nullptr;
  }
  if (!address.is_unix) set_tcp_options(fd);
  ec = bind_to(fd, address, *socket);
  if (!ec) ec = open_to_all(address);
  if (!ec && ::listen(fd, SOMAXCONN) != 0) ec = last_error();
  if (ec) {
    (void)::close(fd);
    return nullptr;
  }
  return std::make_unique<Listener>(loop, fd, address, std::move(accepted));
}

Listener::Listener(event::Loop& loop, int fd, Address address, Accepted accepted)
    : loop_(loop),
      fd_(fd),
      address_(std::move(address)),
      accepted_(std::move(accepted)),
      watch_(
          loop, fd, [this] { accept_and_wait(); }, nullptr) {
  struct stat file {};
  if (address_.is_unix) {
    if (::lstat(address_.path.c_str(), &file) == 0) inode_ = file.st_ino;
  } else {
    address_.port = port_of(fd_);
  }
  watch_.await_readable();
}

Listener::~Listener() {
  struct stat file {};
  if (address_.is_unix && ::lstat(address_.path.c_str(), &file) == 0 && file.st_ino == inode_) {
    (void)::unlink(address_.path.c_str());  // stale, but replaced by the next listener
  }
  (void)::close(fd_);
}

void Listener::accept_and_wait() {
  accept_pending();
  if (!std::exchange(is_short_of_descriptors_, false)) return watch_.await_readable();
  pause_ = loop_.after(kPause, [this] { watch_.await_readable(); });
}

void Listener::accept_pending() {
  for (int i = 0; i < kAtOnce && accept_one(); ++i) {
  }
}

bool Listener::accept_one() {
  Socket socket;
  const int fd = ::accept4(fd_, socket.get(), &socket.size, SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (fd >= 0) {
    accepted_(fd, address_.is_unix ? unix_peer(fd) : tcp_peer(socket));
    return true;
  }
  is_short_of_descriptors_ =
      errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM;
  // The rest is trouble of that one connection, which is gone from the queue.
  return !is_short_of_descriptors_ && errno != EAGAIN && errno != EWOULDBLOCK;
}

}  // namespace holdfast::http
