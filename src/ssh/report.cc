#include "ssh/report.h"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace holdfast::ssh {
namespace {

constexpr std::size_t kHead = 1 + sizeof(std::uint32_t);
constexpr char kBetween = '\x1f';  // fields of a route: no line of text has it

}  // namespace

void Report::send(char kind, std::string_view text) const {
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string bytes(kHead, kind);
  std::memcpy(bytes.data() + 1, &size, sizeof size);
  bytes += text;
  for (std::size_t sent = 0; sent < bytes.size();) {
    const ssize_t wrote = write(fd_, bytes.data() + sent, bytes.size() - sent);
    if (wrote < 0 && errno != EINTR) return;  // nobody listens any more: the parent is gone
    if (wrote > 0) sent += static_cast<std::size_t>(wrote);
  }
}

void Report::route(const Route& route) const {
  std::string text = one_line(route.engine);
  for (const std::string* field : {&route.login, &route.host_key, &route.known_by}) {
    text += kBetween + one_line(*field);
  }
  send('r', text);
}

void ReportReader::take(std::string_view bytes, const std::string& host, const Log& log) {
  pending_ += bytes;
  std::size_t at = 0;
  while (pending_.size() - at >= kHead) {
    std::uint32_t size = 0;
    std::memcpy(&size, pending_.data() + at + 1, sizeof size);
    if (pending_.size() - at - kHead < size) break;
    part(pending_[at], pending_.substr(at + kHead, size), host, log);
    at += kHead + size;
  }
  pending_.erase(0, at);
}

void ReportReader::part(char kind, std::string text, const std::string& host, const Log& log) {
  switch (kind) {
    case 'c':
      is_connected_ = true;
      [[fallthrough]];
    case 'g':
      stage_ = std::move(text);
      break;
    case 'n':
      log.info("{}: {}", host, text);
      break;
    case 'o':
      reply_.output += text;
      break;
    case 'r': {
      std::size_t from = 0;
      for (std::string* field : {&reply_.route.engine, &reply_.route.login, &reply_.route.host_key,
                                 &reply_.route.known_by}) {
        const std::size_t end = std::min(text.find(kBetween, from), text.size());
        *field = text.substr(from, end - from);
        from = std::min(end + 1, text.size());
      }
      break;
    }
    case 'a':
      reply_.is_answered = true;
      reply_.status = std::atoi(text.c_str());
      is_done_ = true;
      break;
    default:
      reply_.why = one_line(text);
      is_done_ = true;
  }
}

std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  }
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string::npos) return {};
  return line.substr(first, line.find_last_not_of(' ') - first + 1);
}

}  // namespace holdfast::ssh
