#include "proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <stdexcept>

namespace holdfast::testing {
namespace {

sockaddr_un address_of(const std::string& folder) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder + "/.s.PGSQL.5432";
  if (path.size() >= sizeof address.sun_path) throw std::runtime_error("too long: " + path);
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  return address;
}

int new_socket() {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) throw std::runtime_error("socket");
  return fd;
}

/// One end's bytes as they come; empty at the end.
std::string receive(int fd) {
  std::array<char, 65536> buffer{};
  const ssize_t got = recv(fd, buffer.data(), buffer.size(), 0);
  return got > 0 ? std::string(buffer.data(), static_cast<std::size_t>(got)) : std::string();
}

bool send_all(int fd, const std::string& bytes) {
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t now = send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (now <= 0) return false;
    sent += static_cast<std::size_t>(now);
  }
  return true;
}

bool is_readable(int fd, int milliseconds) {
  pollfd one{fd, POLLIN, 0};
  return poll(&one, 1, milliseconds) > 0;
}

/// Until the database has said that it is done, or has gone.
void await_commit(int server) {
  std::string told;
  while (told.find("COMMIT") == std::string::npos && is_readable(server, 5000)) {
    const std::string bytes = receive(server);
    if (bytes.empty()) return;
    told += bytes;
  }
}

}  // namespace

Proxy::Proxy(std::string target_folder) : target_(std::move(target_folder)) {
  listener_ = new_socket();
  const sockaddr_un address = address_of(dir_.path());
  if (bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener_, 64) != 0) {
    throw std::runtime_error("listen in " + dir_.path());
  }
  threads_.emplace_back([this] { accept_all(); });
}

Proxy::~Proxy() {
  is_over_ = true;
  std::vector<std::jthread> threads;
  {
    const std::scoped_lock lock(mutex_);
    threads.swap(threads_);
  }
  threads.clear();
  close(listener_);
}

void Proxy::arm(Fault fault, bool shuts) {
  shuts_ = shuts;
  armed_ = fault;
}

void Proxy::shut() {
  is_shut_ = true;
  ++generation_;
}

void Proxy::silence() {
  is_silent_ = true;
}

void Proxy::open() {
  is_shut_ = false;
  is_silent_ = false;
}

void Proxy::accept_all() {
  while (!is_over_) {
    if (!is_readable(listener_, 20)) continue;
    const int client = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (client < 0) continue;
    const std::scoped_lock lock(mutex_);
    if (is_over_) {
      close(client);
    } else {
      threads_.emplace_back([this, client] { carry(client); });
    }
  }
}

Proxy::Fault Proxy::fault_in(const std::string& sent) {
  const bool is_change = sent.find("INSERT INTO holdfast.claims") != std::string::npos ||
                         sent.find("UPDATE holdfast.claims AS c") != std::string::npos;
  if (!is_change || sent.find("COMMIT") == std::string::npos) return Fault::none;
  const Fault fault = armed_.exchange(Fault::none);
  if (fault != Fault::none && shuts_) is_shut_ = true;
  return fault;
}

void Proxy::carry(int client) {
  const int born = generation_;
  const int server = new_socket();
  const sockaddr_un address = address_of(target_);
  bool is_open = !is_shut_ &&
                 connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  std::string sent;
  while (is_open && !is_over_ && born == generation_) {
    std::array<pollfd, 2> both{pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    if (is_silent_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      continue;
    }
    if (poll(both.data(), both.size(), 20) <= 0) continue;
    if (both[0].revents != 0) {
      const std::string bytes = receive(client);
      sent += bytes;
      const Fault fault = fault_in(sent);
      if (fault == Fault::before || bytes.empty()) break;
      is_open = send_all(server, bytes);
      if (fault == Fault::after) await_commit(server);
      if (fault != Fault::none) break;
    }
    if (both[1].revents != 0) {
      const std::string bytes = receive(server);
      sent.clear();
      is_open = !bytes.empty() && send_all(client, bytes);
    }
  }
  close(server);
  close(client);
}

}  // namespace holdfast::testing
