#include "http/render.h"

#include <algorithm>
#include <array>
#include <random>

#include "base/text.h"

namespace holdfast::http {
namespace {

/// A field that could begin a line of its own is left out: better no field than a forged one.
void put_field(std::string& out, std::string_view name, std::string_view value) {
  const auto ends_line = [](char c) { return c == '\r' || c == '\n' || c == '\0'; };
  if (std::any_of(value.begin(), value.end(), ends_line)) return;
  out += name;
  out += ": ";
  out += value;
  out += "\r\n";
}

bool has_no_body(int status) {
  return status == 204 || status == 304 || status < 200;
}

std::string_view connection_field(Renderer::After after) {
  switch (after) {
    case Renderer::After::keep_alive:
      return "";
    case Renderer::After::keep_alive_10:
      return "Connection: keep-alive\r\n";
    case Renderer::After::close:
      break;
  }
  return "Connection: close\r\n";
}

}  // namespace

Renderer::Renderer() {
  std::random_device random;
  put_number(prefix_, random(), 16);
  prefix_ += '-';
}

void Renderer::put(std::string& out, const Request& request, const Response& response, Body body,
                   After after) {
  out += "HTTP/1.1 ";
  put_number(out, static_cast<std::uint64_t>(response.status));
  out += ' ';
  out += reason(response.status);
  out += "\r\nServer: holdfastd\r\nDate: ";
  out += date();
  out += "\r\nX-Request-Id: ";
  out += request.id();
  out += "\r\n";
  const bool is_bare = has_no_body(response.status);
  if (!is_bare && !response.content_type.empty()) {
    put_field(out, "Content-Type", response.content_type);
  }
  for (const Header& header : response.headers) put_field(out, header.name, header.value);
  if (!is_bare && body == Body::whole) {
    out += "Content-Length: ";
    put_number(out, response.body.size());
    out += "\r\n";
  }
  if (body == Body::chunked) out += "Transfer-Encoding: chunked\r\n";
  out += connection_field(after);
  out += "\r\n";
  if (!is_bare && body == Body::whole && request.method() != "HEAD") out += response.body;
}

std::string Renderer::next_id() {
  std::string id = prefix_;
  put_number(id, ++count_, 16);
  return id;
}

std::string_view Renderer::date() {
  const std::time_t now = std::time(nullptr);
  if (now == second_) return date_;
  std::array<char, 40> text{};
  std::tm parts{};
  (void)::gmtime_r(&now, &parts);
  const std::size_t size =
      std::strftime(text.data(), text.size(), "%a, %d %b %Y %H:%M:%S GMT", &parts);
  date_.assign(text.data(), size);
  second_ = now;
  return date_;
}

bool is_harmless_id(std::string_view text) {
  const auto is_harmless = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == ':' || c == '-';
  };
  return !text.empty() && text.size() <= 64 && std::all_of(text.begin(), text.end(), is_harmless);
}

void put_chunk(std::string& out, std::string_view text) {
  if (text.empty()) return;  // would be the last one
  put_number(out, text.size(), 16);
  out += "\r\n";
  out += text;
  out += "\r\n";
}

}  // namespace holdfast::http
