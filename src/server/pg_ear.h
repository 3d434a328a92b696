#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/pg_door.h"
#include "server/pg_reads.h"
#include "server/store.h"

namespace holdfast::server {

/// Tells other servers which claims were changed here, and hears the same of them.
///
/// Promises: the activation or the end of a watched claim is always told, whoever brought it about.
///           Notices (channel "holdfast") only make it faster: watched claims are looked at four
///           times a second until a notice of our own has come back, as it never does through a
///           pooler, and every other second from then on.
/// Notices:  are sent after the commit, in a transaction that writes nothing: one that is part of
///           the change would make all changes of a database wait for each other's fsync. So a
///           server that is killed in between leaves the unwatched claims of that change untold.
/// Threads:  run() in one of its own; the rest from any.
class PgEar {
 public:
  using Tell = std::function<void(std::vector<View>, Stamp now)>;

  PgEar(std::string conninfo, PgGate& gate, PgReads::Settle settle, Tell tell);
  PgEar(const PgEar&) = delete;
  PgEar& operator=(const PgEar&) = delete;
  ~PgEar();

  void run();
  void stop();

  void watch(ClaimId id);
  void unwatch(ClaimId id);

  /// These were changed here. Those in `untold` are read and told here too.
  void changed(const std::vector<ClaimId>& ids, const std::vector<ClaimId>& untold = {});

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Watched {
    std::size_t count = 0;
    Status told = Status::waiting;
  };
  struct Work {
    std::vector<ClaimId> to_send;
    std::set<ClaimId> to_read;  ///< changed for certain: told whatever they are
    std::set<ClaimId> to_poll;  ///< told if their status is a new one
    bool pings = false;
  };

  Work take_work(bool is_time_to_poll);
  void step(Work& work);
  std::optional<PgError> listen(PgConnection& connection);
  std::optional<PgError> send(PgConnection& connection, const Work& work);
  void hear(PgConnection& connection, Work& work);
  void read(const Work& work);
  void wait(std::chrono::milliseconds most);
  void wake() const;
  bool is_hearing() const;

  PgDoor door_;
  PgReads::Settle settle_;
  Tell tell_;
  std::string self_;
  int event_;
  PgConnection* listening_ = nullptr;  ///< the connection that has been told to
  int listening_socket_ = -1;
  Time heard_{};  ///< when a notice of our own came back
  Time pinged_{};
  Time polled_{};

  std::mutex mutex_;
  bool is_stopped_ = false;
  std::vector<ClaimId> to_send_;
  std::set<ClaimId> to_read_;
  std::set<ClaimId> fresh_;  ///< watched since the last look
  std::map<ClaimId, Watched> watched_;
};

}  // namespace holdfast::server
