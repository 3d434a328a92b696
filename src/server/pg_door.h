#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "server/pg_connection.h"

namespace holdfast::server {

/// Whether the database can be reached, as all connections of a store know it. While it cannot,
/// attempts are spaced, and in between everybody is told so at once.
///
/// Threads:  any.
class PgGate {
 public:
  /// `tell` hears when it goes and comes; from any thread.
  explicit PgGate(std::function<void(const std::string&)> tell) : tell_(std::move(tell)) {}

  /// Why not to try it now.
  std::optional<std::string> why_shut() const;
  std::optional<std::string> trouble() const;

  void opened();                         ///< it works
  void failed(const std::string& why);   ///< it was tried in vain
  void refused(const std::string& why);  ///< it is there, but does not take changes

 private:
  using Time = std::chrono::steady_clock::time_point;

  std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;
  std::optional<std::string> trouble_;
  Time shut_until_{};
  std::chrono::milliseconds pause_{0};
};

/// One thread's connection, made when it is needed and made anew when it broke.
class PgDoor {
 public:
  PgDoor(std::string conninfo, PgGate& gate) : conninfo_(std::move(conninfo)), gate_(gate) {}

  PgTold<PgConnection*> connection();

  /// The same object for the door's whole life; not is_usable() while there is none.
  PgConnection& opened() { return connection_; }

  /// Does `work` with a connection. One that broke since it was last used is replaced, and the work
  /// begun again: so it must be such that half of it leaves nothing behind.
  template <class T, class Work>
  PgTold<T> with(Work work) {
    for (bool was_open = connection_.is_usable();; was_open = false) {
      auto connected = connection();
      if (auto* error = std::get_if<PgError>(&connected)) return *error;
      PgTold<T> told = work(*std::get<0>(connected));
      const auto* error = std::get_if<PgError>(&told);
      if (error == nullptr || !error->is_lost) return told;
      connection_ = {};
      if (!was_open) return told;
    }
  }

 private:
  std::string conninfo_;
  PgGate& gate_;
  PgConnection connection_;
};

}  // namespace holdfast::server
