#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/pg_desk.h"
#include "server/pg_door.h"

namespace holdfast::server {

/// Work for the threads that talk to the database.
///
/// Promises: wishes about one resource are served in their order, by one thread at a time; those
///           that came while it was busy are one batch. Other tasks begin in their order.
/// Threads:  any.
class PgLines {
 public:
  using Task = std::function<void(PgDoor&)>;
  using Serve = std::function<void(PgDoor&, const std::string& name, std::vector<PgWish>&)>;

  explicit PgLines(Serve serve) : serve_(std::move(serve)) {}

  void add(Task task);
  void add(const std::string& name, PgWish wish);

  /// Until close() and all is done, or stop(). Says whether this was the last one who works.
  bool work(PgDoor& door);

  void close();  ///< what was added is still done
  void stop();   ///< what was not begun is dropped

 private:
  void serve(PgDoor& door, const std::string& name);
  void push(Task task);

  Serve serve_;
  std::mutex mutex_;
  std::condition_variable given_;
  std::deque<Task> tasks_;
  std::unordered_map<std::string, std::deque<PgWish>> lines_;
  std::size_t workers_ = 0, busy_ = 0;
  bool is_closing_ = false, is_stopped_ = false;
};

}  // namespace holdfast::server
