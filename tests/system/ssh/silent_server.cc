// silent_server tcp|udp|unix ADDRESS PORT [GREETING] - takes every connection, says GREETING, and
// nothing more.
//
// With unix, ADDRESS is the path of the socket. Lives until it is killed.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

int listen_unix(const char* path) {
  sockaddr_un at{};
  at.sun_family = AF_UNIX;
  std::strncpy(at.sun_path, path, sizeof at.sun_path - 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  return bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 ? fd : -1;
}

int listen_inet(const char* address, const char* port, int type) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  inet_pton(AF_INET, address, &at.sin_addr);
  const int fd = socket(AF_INET, type, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  return bind(fd, reinterpret_cast<sockaddr*>(&at), sizeof at) == 0 ? fd : -1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string kind = argv[1];
  const int fd = kind == "unix"  ? listen_unix(argv[2])
                 : kind == "udp" ? listen_inet(argv[2], argv[3], SOCK_DGRAM)
                                 : listen_inet(argv[2], argv[3], SOCK_STREAM);
  if (fd < 0) {
    std::perror("silent_server");
    return 1;
  }
  if (kind == "udp") pause();
  listen(fd, 64);
  for (;;) {
    const int client = accept(fd, nullptr, nullptr);
    if (argc > 4 && write(client, argv[4], std::strlen(argv[4])) < 0) close(client);
  }
}
