#include "http/channel.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>

namespace holdfast::http {
namespace {

int clamp(std::size_t size) {
  return static_cast<int>(std::min<std::size_t>(size, INT_MAX));
}

bool is_try_again() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

void Channel::SslFree::operator()(ssl_st* ssl) const {
  ::SSL_free(ssl);
}

Channel::Channel(int fd, const std::shared_ptr<const Tls>& tls) : fd_(fd), tls_(tls) {
  if (!tls) return;
  ssl_.reset(::SSL_new(tls->context()));
  if (ssl_) (void)::SSL_set_fd(ssl_.get(), fd);
}

Channel::~Channel() {
  ssl_.reset();
  (void)::close(fd_);
}

Channel::State Channel::handshake() {
  if (!tls_) return State::ok;
  if (!ssl_) return State::failed;
  ::ERR_clear_error();
  const Result result = tls_result(::SSL_accept(ssl_.get()));
  return result.state == State::end ? State::failed : result.state;
}

Channel::Result Channel::read(std::span<char> into) {
  if (!ssl_) return discard(into);
  ::ERR_clear_error();
  return tls_result(::SSL_read(ssl_.get(), into.data(), clamp(into.size())));
}

Channel::Result Channel::write(std::string_view text) {
  if (ssl_) {
    ::ERR_clear_error();
    return tls_result(::SSL_write(ssl_.get(), text.data(), clamp(text.size())));
  }
  const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent >= 0) return {State::ok, static_cast<std::size_t>(sent)};
  return {is_try_again() ? State::want_write : State::failed, 0};
}

Channel::Result Channel::tls_result(int returned) {
  if (returned > 0) return {State::ok, static_cast<std::size_t>(returned)};
  switch (::SSL_get_error(ssl_.get(), returned)) {
    case SSL_ERROR_WANT_READ:
      return {State::want_read, 0};
    case SSL_ERROR_WANT_WRITE:
      return {State::want_write, 0};
    case SSL_ERROR_ZERO_RETURN:
      return {State::end, 0};
    default:
      return {State::failed, 0};
  }
}

bool Channel::has_decrypted() const {
  return ssl_ && ::SSL_pending(ssl_.get()) > 0;
}

bool Channel::has_unread() const {
  char byte = 0;
  return has_decrypted() || ::recv(fd_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void Channel::end_writing() {
  if (ssl_ && ::SSL_is_init_finished(ssl_.get()) == 1) {
    ::ERR_clear_error();
    (void)::SSL_shutdown(ssl_.get());  // a peer that does not hear it sees the end all the same
  }
  (void)::shutdown(fd_, SHUT_WR);
}

Channel::Result Channel::discard(std::span<char> scratch) {
  const ssize_t got = ::recv(fd_, scratch.data(), scratch.size(), MSG_DONTWAIT);
  if (got > 0) return {State::ok, static_cast<std::size_t>(got)};
  if (got == 0) return {State::end, 0};
  return {is_try_again() ? State::want_read : State::failed, 0};
}

}  // namespace holdfast::http
