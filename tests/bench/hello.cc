/// hello - the plainest asynchronous Beast server, on one thread: what a lease server is measured
/// by.
///
///   hello       prints "hello: listening on http://127.0.0.1:PORT" and answers until it is killed

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <iostream>
#include <memory>

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using asio::ip::tcp;
using beast::error_code;

class Session : public std::enable_shared_from_this<Session> {
 public:
  explicit Session(tcp::socket socket) : stream_(std::move(socket)) {
    stream_.socket().set_option(tcp::no_delay(true));
  }

  void read() {
    request_ = {};
    http::async_read(stream_, buffer_, request_,
                     [self = shared_from_this()](error_code ec, std::size_t) {
                       if (!ec) self->write();
                     });
  }

 private:
  void write() {
    response_ = http::response<http::string_body>(http::status::ok, request_.version());
    response_.set(http::field::server, "hello");
    response_.set(http::field::content_type, "text/plain");
    response_.keep_alive(request_.keep_alive());
    response_.body() = "hello";
    response_.prepare_payload();
    http::async_write(stream_, response_, [self = shared_from_this()](error_code ec, std::size_t) {
      if (!ec && !self->response_.need_eof()) self->read();
    });
  }

  beast::tcp_stream stream_;
  beast::flat_buffer buffer_;
  http::request<http::string_body> request_;
  http::response<http::string_body> response_;
};

void accept(tcp::acceptor& acceptor) {
  acceptor.async_accept([&acceptor](error_code ec, tcp::socket socket) {
    if (!ec) std::make_shared<Session>(std::move(socket))->read();
    accept(acceptor);
  });
}

}  // namespace

int main() {
  asio::io_context io{1};
  tcp::acceptor acceptor(io, {asio::ip::address_v4::loopback(), 0});
  accept(acceptor);
  std::cout << "hello: listening on http://127.0.0.1:" << acceptor.local_endpoint().port()
            << std::endl;
  io.run();
}
