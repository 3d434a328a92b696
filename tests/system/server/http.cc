#include "http.h"

#include <algorithm>
#include <cctype>

namespace holdfast::testing {

Json Reply::json() const {
  return Json::parse(body, nullptr, false);
}

std::string Request::bytes() const {
  std::string text = method + " " + target + " " + version + "\r\n";
  const auto given = [this](const std::string& name) {
    return std::any_of(headers.begin(), headers.end(),
                       [&](const auto& header) { return header.first == name; });
  };
  if (!given("Host") && version == "HTTP/1.1") text += "Host: 127.0.0.1\r\n";
  if (!given("Transfer-Encoding") &&
      (!body.empty() || method == "POST" || method == "PATCH" || method == "PUT"))
    text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  return text + "\r\n" + body;
}

Connection::Connection(int port) {
  try {
    raw_.emplace("http://127.0.0.1:" + std::to_string(port));
  } catch (const std::runtime_error&) {  // nobody listens: told by the first send()
  }
}

bool Connection::send(const std::string& bytes) {
  return raw_ && raw_->send(bytes);
}

void Connection::finish_sending() {
  if (raw_) raw_->end_sending();
}

Reply Connection::read(const std::string& method, Limit limit) {
  if (!raw_) return {};
  return {raw_->read_reply(method == "HEAD", limit).value_or(RawReply{})};
}

/// All up to and with `mark`, or nothing; what came of it is kept for the next call.
std::string Connection::read_through(const std::string& mark, Limit limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (raw_ && !partial_.ends_with(mark)) {
    const auto left = std::chrono::duration_cast<Limit>(end - std::chrono::steady_clock::now());
    const std::string byte = raw_->read_bytes(1, std::max(left, Limit(0)));
    if (byte.empty()) return "";
    partial_ += byte;
  }
  return std::exchange(partial_, "");
}

Reply Connection::read_head(Limit limit) {
  Reply reply;
  reply.head = read_through("\r\n\r\n", limit);
  if (reply.head.size() > 12) reply.status = std::atoi(reply.head.c_str() + 9);
  return reply;
}

std::string Connection::read_some(Limit limit) {
  const std::string size = read_through("\r\n", limit);
  if (size.empty()) return "";
  std::string chunk = raw_->read_bytes(std::stoul(size, nullptr, 16) + 2, kLimit);
  chunk.resize(chunk.size() - std::min<std::size_t>(chunk.size(), 2));
  return chunk;
}

bool Connection::is_closed_within(Limit limit) {
  return !raw_ || raw_->read_to_end(limit);
}

Reply exchange(int port, const Request& request, Connection::Limit limit) {
  Connection to(port);
  to.send(request.bytes());  // refused in the middle: there may be a reply all the same
  return to.read(request.method, limit);
}

std::string percent(const std::string& text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c)) {
      out += static_cast<char>(c);
    } else {
      out += '%';
      out += kDigits[c >> 4U];
      out += kDigits[c & 15U];
    }
  }
  return out;
}

}  // namespace holdfast::testing
