/// A server on loopback with a handler that does what the path says, on a thread of its own.
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "http/server.h"
#include "support/process.h"
#include "support/raw_http.h"

namespace holdfast::http::testing {

using holdfast::testing::eventually;
using holdfast::testing::raw_request;
using holdfast::testing::RawClient;
using holdfast::testing::RawReply;
using namespace std::chrono_literals;

/// What the observer was told, to be read from any thread.
class Record : public Observer {
 public:
  void finished(const Request& request, int status, std::size_t,
                std::chrono::nanoseconds) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::string(request.method()) + " " + std::string(request.path()) + " " +
                     std::to_string(status));
  }

  bool has(const std::string& line) const {
    const std::lock_guard lock(mutex_);
    return std::find(lines_.begin(), lines_.end(), line) != lines_.end();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// Paths: /echo gives the body back; /what tells the request; /empty 204; /big/N N bytes; /park
/// keeps the exchange; /drop forgets it; /stream begins a stream; /later answers by defer().
class Rig {
 public:
  explicit Rig(const Limits& limits = {}, const std::string& address = "127.0.0.1:0")
      : server_(std::make_unique<Server>(
            loop, [this](std::shared_ptr<Exchange> exchange) { handle(std::move(exchange)); },
            record, limits)) {
    listened = address.empty() ? std::error_code{} : server_->listen(address);
    thread_ = std::thread([this] {
      tid = ::syscall(SYS_gettid);
      loop.run();
    });
  }

  ~Rig() {
    loop.post([this] {
      parked.clear();
      streams.clear();
      server_.reset();
      loop.stop();
    });
    thread_.join();
  }

  /// On the loop's thread, and waits for it.
  template <class F>
  auto on_loop(F call) {
    auto task = std::make_shared<std::packaged_task<decltype(call())()>>(call);
    auto result = task->get_future();
    loop.post([task] { (*task)(); });
    return result.get();
  }

  std::string url() {
    return on_loop([this] { return server_->addresses().at(0); });
  }
  RawClient client(int receive_buffer = 0) { return RawClient(url(), receive_buffer); }
  std::size_t connections() {
    return on_loop([this] { return server_->connections(); });
  }
  bool becomes_empty() {
    return eventually([this] { return connections() == 0; });
  }
  std::size_t parked_count() {
    return on_loop([this] { return parked.size(); });
  }
  bool has_parked(std::size_t count) {
    return eventually([&] { return parked_count() == count; });
  }
  bool reply_to_parked(const std::string& body) {
    return on_loop([&] {
      for (const auto& exchange : parked) exchange->reply({.body = body});
      const bool any = !parked.empty();
      parked.clear();
      return any;
    });
  }

  Server& server() { return *server_; }

  event::Loop loop;
  Record record;
  std::error_code listened;
  std::vector<std::shared_ptr<Exchange>> parked;  ///< of the loop's thread
  std::vector<std::shared_ptr<Stream>> streams;   ///< of the loop's thread
  std::atomic<int> gone{0};                       ///< calls of on_gone
  std::atomic<int> handled{0};
  std::atomic<long> tid{0};

 private:
  void handle(std::shared_ptr<Exchange> exchange) {
    ++handled;
    const Request& request = exchange->request();
    const std::string path(request.path());
    if (path == "/park") {
      exchange->on_gone([this] { ++gone; });
      parked.push_back(std::move(exchange));
    } else if (path == "/drop") {
      exchange.reset();
    } else if (path == "/later") {
      loop.defer([exchange] { exchange->reply({.body = "later"}); });
    } else if (path == "/stream") {
      streams.push_back(exchange->stream({.content_type = "text/event-stream"}));
      streams.back()->on_gone([this] { ++gone; });
    } else {
      exchange->reply(answer(request, path));
    }
  }

  static Response answer(const Request& request, const std::string& path) {
    if (path == "/empty") return {.status = 204, .body = "never sent"};
    if (path.starts_with("/big/")) return {.body = std::string(std::stoul(path.substr(5)), 'x')};
    if (path == "/what") {
      return {.headers = {{"X-Peer", request.peer().address}},
              .body = std::string(request.method()) + "|" + std::string(request.path()) + "|" +
                      std::string(request.query()) + "|" + std::string(request.header("x-test")) +
                      "|" + std::string(request.scheme_name())};
    }
    return {.body = request.body()};
  }

  std::unique_ptr<Server> server_;
  std::thread thread_;
};

}  // namespace holdfast::http::testing
