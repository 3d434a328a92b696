#include "http/parser.h"

#include <algorithm>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/field.hpp>
#include <functional>
#include <optional>
#include <string>

namespace holdfast::http {
namespace {

namespace beast = boost::beast;
using beast::error_code;
using beast::http::field;

/// Until then memory is taken before the bytes that fill it have come.
constexpr std::size_t kReserved = 65536;

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

/// Where a client speaks to us as to a proxy, what follows the authority counts.
std::string_view origin_form(std::string_view target) {
  const std::size_t colon = target.find("://");
  if (target.starts_with('/') || colon == std::string_view::npos) return target;
  const std::size_t path = target.find_first_of("/?", colon + 3);
  return path == std::string_view::npos ? "/" : target.substr(path);
}

bool is_host(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < '\x7f' &&
           std::string_view("/?#@\\\"<>,^`{|}").find(c) == std::string_view::npos;
  });
}

bool is_decimal(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

/// Beast's parser, writing into our Request. What it lets pass and we do not: other codings than
/// chunked, a length that is told twice, fields that go on in the next line, several hosts or none,
/// and a head without an end that comes in small pieces.
class Parser::Machine final : public beast::http::basic_parser<true> {
 public:
  Machine(Request& into, std::size_t max_header, std::size_t max_body)
      : request_(into), max_header_(max_header) {
    constexpr std::size_t kMost = 1U << 30U;
    header_limit(static_cast<std::uint32_t>(std::min(max_header, kMost)));
    body_limit(max_body);
  }

  Step put_all(std::string_view& input) {
    while (!input.empty()) {
      const bool was_head_done = is_header_done();
      end_ = input.data() + input.size();
      error_code ec;
      const std::size_t taken = put({input.data(), input.size()}, ec);
      input.remove_prefix(taken);
      if (!was_head_done) head_size_ += taken;
      const bool is_waiting = ec == beast::http::error::need_more;
      if (ec && !is_waiting) return refuse(ec);
      if (is_too_long(input, is_waiting)) return refuse(431, "the header is too large");
      if (is_done()) return Step::whole;
      if (!was_head_done && is_header_done()) return Step::head;
      if (is_waiting) return Step::more;
    }
    return Step::more;
  }

  int status() const { return status_; }
  std::string_view why() const { return why_; }
  bool wants_continue() const { return wants_continue_; }

 private:
  /// The head so far, or the part of a chunked body that is neither size nor content.
  bool is_too_long(std::string_view left, bool is_waiting) const {
    const std::size_t unread = is_waiting ? left.size() : 0;
    return (is_header_done() ? unread : head_size_ + unread) > max_header_ ||
           head_size_ > max_header_;
  }

  /// Beast hands over what it put together, or what stands on the next line.
  bool is_folded(beast::string_view name, beast::string_view value) const {
    const char* const after = name.data() + name.size();
    const std::less<> before;  // also of pointers into different things
    if (before(value.data(), after) || before(end_, value.data())) return true;
    const auto between = static_cast<std::size_t>(value.data() - after);
    return std::string_view(after, between).find('\n') != std::string_view::npos;
  }

  Step refuse(error_code ec) {
    using beast::http::error;
    if (status_ != 0) return Step::fault;  // one of ours
    if (ec == error::header_limit) return refuse(431, "the header is too large");
    if (ec == error::body_limit) return refuse(413, "the body is too large");
    return refuse(400, "malformed request: " + ec.message());
  }

  Step refuse(int status, std::string why) {
    status_ = status;
    why_ = std::move(why);
    return Step::fault;
  }

  void fail(int status, std::string_view why, error_code& ec) {
    (void)refuse(status, std::string(why));
    ec = beast::http::error::bad_value;
  }

  void on_request_impl(beast::http::verb, beast::string_view method, beast::string_view target,
                       int version, error_code&) override {
    request_.start(view(method), origin_form(view(target)), version);
  }

  void on_field_impl(field name, beast::string_view text, beast::string_view value,
                     error_code& ec) override {
    if (is_header_done()) return;  // a trailer
    if (is_folded(text, value)) return fail(400, "a field goes on in the next line", ec);
    if (name == field::transfer_encoding) {
      if (!beast::iequals(value, "chunked")) return fail(400, "unknown Transfer-Encoding", ec);
      if (request_.version() < 11) return fail(400, "Transfer-Encoding needs HTTP/1.1", ec);
    }
    if (name == field::content_length) {
      if (has_length_) return fail(400, "more than one Content-Length", ec);
      if (!is_decimal(view(value))) return fail(400, "malformed Content-Length", ec);
      has_length_ = true;
    }
    if (name == field::host) {
      if (has_host_) return fail(400, "more than one Host", ec);
      if (!is_host(view(value))) return fail(400, "malformed Host", ec);
      has_host_ = true;
    }
    if (name == field::expect && request_.version() >= 11) {
      if (!beast::iequals(value, "100-continue")) return fail(417, "unknown Expect", ec);
      wants_continue_ = true;
    }
    request_.add_header(view(text), view(value));
  }

  void on_header_impl(error_code& ec) override {
    if (!has_host_ && request_.version() >= 11) fail(400, "no Host", ec);
  }

  void on_body_init_impl(boost::optional<std::uint64_t> const& length, error_code&) override {
    if (length) request_.mutable_body().reserve(std::min<std::size_t>(*length, kReserved));
  }

  std::size_t on_body_impl(beast::string_view text, error_code&) override {
    request_.mutable_body().append(text.data(), text.size());
    return text.size();
  }

  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override {}

  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view text, error_code&) override {
    request_.mutable_body().append(text.data(), text.size());
    return text.size();
  }

  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, beast::string_view, int, error_code&) override {}

  Request& request_;
  std::size_t max_header_;
  std::size_t head_size_ = 0;
  const char* end_ = nullptr;  ///< of the bytes that are looked at
  bool has_host_ = false;
  bool has_length_ = false;
  bool wants_continue_ = false;
  int status_ = 0;
  std::string why_;
};

struct Parser::State {
  std::optional<Machine> machine;  ///< made anew in place for every request
};

Parser::Parser() : state_(std::make_unique<State>()) {}
Parser::~Parser() = default;

void Parser::start(Request& into, std::size_t max_header, std::size_t max_body) {
  into.start("", "", 11);
  state_->machine.emplace(into, max_header, max_body);
}

Parser::Step Parser::put(std::string_view& input) {
  return state_->machine->put_all(input);
}

int Parser::status() const {
  return state_->machine->status();
}

std::string_view Parser::why() const {
  return state_->machine->why();
}

bool Parser::is_head_done() const {
  return state_->machine->is_header_done();
}

bool Parser::is_keep_alive() const {
  return state_->machine->keep_alive();
}

bool Parser::wants_continue() const {
  return state_->machine->wants_continue();
}

}  // namespace holdfast::http
