#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "event/loop.h"
#include "http/exchange.h"
#include "server/store.h"

namespace holdfast::routes {

/// Those who listen to what happens to claims, as server-sent events.
///
/// Promises: told is only what is durable. One who does not keep up is cut off by its stream and
/// has to
///           come again; nobody else waits for it.
/// Threads:  the loop's.
class Events {
 public:
  explicit Events(event::Loop& loop) : loop_(loop) {}

  /// `resource`: of that one only. `url_base`: for the claims' urls.
  /// `may_listen` is asked again at every beat, and by check().
  void add(std::shared_ptr<http::Stream> stream, std::optional<std::string> resource,
           std::string url_base, std::function<bool()> may_listen);

  void tell(const server::View& view, server::Stamp now);
  void check();  ///< ends the streams of those who may listen no more
  void drain();  ///< ends all, and every new one at once

  std::size_t size() const { return listeners_.size(); }

 private:
  struct Listener {
    std::shared_ptr<http::Stream> stream;
    std::optional<std::string> resource;
    std::string url_base;
    std::function<bool()> may_listen;
  };

  void beat();

  event::Loop& loop_;
  std::list<Listener> listeners_;
  std::uint64_t last_id_ = 0;
  event::Timer beat_;
  bool is_draining_ = false;
};

}  // namespace holdfast::routes
