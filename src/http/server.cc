#include "http/server.h"

#include <utility>

#include "base/json.h"
#include "http/address.h"
#include "http/hub.h"
#include "http/listener.h"
#include "http/tls.h"

namespace holdfast::http {

void Observer::finished(const Request&, int, std::size_t, std::chrono::nanoseconds) {}

Response Observer::fault(int status, std::string_view why) {
  Response response;
  response.status = status;
  response.body = "{\"message\": ";
  put_json_string(response.body, why);
  response.body += "}";
  return response;
}

class Server::Impl {
 public:
  Impl(event::Loop& loop, Handler handler, Observer& observer, const Limits& limits)
      : loop_(loop), hub_(std::make_shared<Hub>(loop, std::move(handler), observer, limits)) {}

  Hub& hub() { return *hub_; }
  const Hub& hub() const { return *hub_; }

  std::error_code listen(std::string_view text, Scheme scheme) {
    const std::optional<Address> address = parse_address(text);
    if (!address || (scheme == Scheme::https && !tls_)) {
      return make_error_code(std::errc::invalid_argument);
    }
    std::error_code ec;
    auto listener = Listener::open(
        loop_, *address,
        [this, scheme](int fd, Peer peer) {
          auto channel = std::make_unique<Channel>(fd, scheme == Scheme::https ? tls_ : nullptr);
          hub_->add(std::move(channel), std::move(peer), scheme);
        },
        ec);
    if (listener) listeners_.push_back({std::move(listener), scheme});
    return ec;
  }

  bool load_tls(const std::string& certificate_file, const std::string& key_file,
                std::string& why) {
    std::shared_ptr<const Tls> tls = Tls::load(certificate_file, key_file, why);
    if (!tls) return false;
    tls_ = std::move(tls);
    return true;
  }

  std::vector<std::string> addresses() const {
    std::vector<std::string> all;
    all.reserve(listeners_.size());
    for (const Door& door : listeners_) all.push_back(url(door));
    return all;
  }

  void drain(std::chrono::nanoseconds limit, std::function<void()> done) {
    for (const Door& door : listeners_) door.listener->accept_pending();
    listeners_.clear();
    hub_->drain(limit, std::move(done));
  }

 private:
  struct Door {
    std::unique_ptr<Listener> listener;
    Scheme scheme;
  };

  static std::string url(const Door& door) {
    const Address& at = door.listener->address();
    if (at.is_unix) return "unix:" + at.path;
    const bool is_v6 = at.host.find(':') != std::string::npos;
    return (door.scheme == Scheme::https ? "https://" : "http://") +
           (is_v6 ? "[" + at.host + "]" : at.host) + ":" + std::to_string(at.port);
  }

  event::Loop& loop_;
  std::shared_ptr<const Tls> tls_;
  std::shared_ptr<Hub> hub_;
  std::vector<Door> listeners_;
};

Server::Server(event::Loop& loop, Handler handler, Observer& observer, const Limits& limits)
    : impl_(std::make_unique<Impl>(loop, std::move(handler), observer, limits)) {}

Server::~Server() = default;

std::error_code Server::listen(std::string_view address, Scheme scheme) {
  return impl_->listen(address, scheme);
}

bool Server::load_tls(const std::string& certificate_file, const std::string& key_file,
                      std::string& why) {
  return impl_->load_tls(certificate_file, key_file, why);
}

std::vector<std::string> Server::addresses() const {
  return impl_->addresses();
}

void Server::set_limits(const Limits& limits) {
  impl_->hub().set_limits(limits);
}

void Server::drain(std::chrono::nanoseconds limit, std::function<void()> done) {
  impl_->drain(limit, std::move(done));
}

std::size_t Server::connections() const {
  return impl_->hub().connections();
}

}  // namespace holdfast::http
