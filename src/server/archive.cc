#include "server/archive.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "wire/claim_object.h"

namespace holdfast::server {
namespace {

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

std::optional<std::string> archive(const std::string& file, const std::vector<Claim>& claims) {
  if (file.empty() || claims.empty()) return std::nullopt;
  std::string lines;
  for (const Claim& claim : claims) {
    wire::put_claim(lines, {claim, 0}, claim.ended, {});
    lines += '\n';
  }
  const int fd = open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
  if (fd < 0) return file + ": " + std::generic_category().message(errno);
  std::optional<std::string> failure;
  if (!write_all(fd, lines) || fdatasync(fd) != 0) {
    failure = file + ": " + std::generic_category().message(errno);
  }
  close(fd);
  return failure;
}

}  // namespace holdfast::server
