#include "http/message.h"

#include <algorithm>
#include <utility>

#include "base/text.h"

namespace holdfast::http {
namespace {

constexpr std::size_t kOrdinary = 8192;

bool is_same_name(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](char x, char y) { return lower(x) == lower(y); });
}

}  // namespace

std::string_view Request::path() const {
  const std::string_view all = target();
  return all.substr(0, all.find('?'));
}

std::string_view Request::query() const {
  const std::string_view all = target();
  const std::size_t mark = all.find('?');
  return mark == std::string_view::npos ? std::string_view() : all.substr(mark + 1);
}

std::string_view Request::header(std::string_view name) const {
  const Field* field = find(name);
  return field != nullptr ? text(field->value) : std::string_view();
}

bool Request::has_header(std::string_view name) const {
  return find(name) != nullptr;
}

void Request::start(std::string_view method, std::string_view target, int version) {
  head_.clear();
  fields_.clear();
  body_.clear();
  id_.clear();
  method_ = keep(method);
  target_ = keep(target);
  version_ = version;
}

void Request::add_header(std::string_view name, std::string_view value) {
  fields_.push_back({keep(name), keep(value)});
}

void Request::set_peer(Peer peer, Scheme scheme) {
  peer_ = std::move(peer);
  scheme_ = scheme;
}

bool Request::is_bulky() const {
  return head_.capacity() + body_.capacity() > kOrdinary;
}

Request::Part Request::keep(std::string_view text) {
  const Part part{head_.size(), text.size()};
  head_ += text;
  return part;
}

const Request::Field* Request::find(std::string_view name) const {
  const auto at = std::find_if(fields_.begin(), fields_.end(), [&](const Field& field) {
    return field.name.size == name.size() && is_same_name(text(field.name), name);
  });
  return at != fields_.end() ? &*at : nullptr;
}

std::string_view reason(int status) {
  struct Row {
    int status;
    std::string_view text;
  };
  static constexpr Row kRows[] = {{200, "OK"},
                                  {201, "Created"},
                                  {202, "Accepted"},
                                  {204, "No Content"},
                                  {304, "Not Modified"},
                                  {308, "Permanent Redirect"},
                                  {400, "Bad Request"},
                                  {401, "Unauthorized"},
                                  {403, "Forbidden"},
                                  {404, "Not Found"},
                                  {405, "Method Not Allowed"},
                                  {406, "Not Acceptable"},
                                  {408, "Request Timeout"},
                                  {409, "Conflict"},
                                  {410, "Gone"},
                                  {411, "Length Required"},
                                  {412, "Precondition Failed"},
                                  {413, "Content Too Large"},
                                  {414, "URI Too Long"},
                                  {415, "Unsupported Media Type"},
                                  {417, "Expectation Failed"},
                                  {422, "Unprocessable Content"},
                                  {429, "Too Many Requests"},
                                  {431, "Request Header Fields Too Large"},
                                  {500, "Internal Server Error"},
                                  {501, "Not Implemented"},
                                  {503, "Service Unavailable"},
                                  {505, "HTTP Version Not Supported"}};
  for (const Row& row : kRows) {
    if (row.status == status) return row.text;
  }
  return "Unknown";
}

}  // namespace holdfast::http
