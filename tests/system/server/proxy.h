#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "support/temp_dir.h"

namespace holdfast::testing {

/// Between a store and its PostgreSQL: carries bytes, and cuts a connection where it hurts.
class Proxy {
 public:
  /// When somebody commits a change of claims.
  enum class Fault {
    none,
    before,   ///< COMMIT never reaches the database
    at_once,  ///< it does, and nobody waits for what becomes of it
    after,    ///< it is done, and the answer is lost
  };

  explicit Proxy(std::string target_folder);
  Proxy(const Proxy&) = delete;
  Proxy& operator=(const Proxy&) = delete;
  ~Proxy();

  const std::string& folder() const { return dir_.path(); }  ///< the host to connect to

  /// Once. With `shuts`, nobody gets in afterwards until open().
  void arm(Fault fault, bool shuts = false);
  bool was_hit() const { return armed_ == Fault::none; }

  void shut();     ///< cuts all connections, and those that come
  void silence();  ///< takes what comes and answers nothing
  void open();

 private:
  void accept_all();
  void carry(int client);
  Fault fault_in(const std::string& sent);

  TempDir dir_;
  std::string target_;
  int listener_ = -1;
  std::atomic<Fault> armed_{Fault::none};
  std::atomic<bool> shuts_{false}, is_shut_{false}, is_silent_{false}, is_over_{false};
  std::atomic<int> generation_{0};
  std::mutex mutex_;
  std::vector<std::jthread> threads_;
};

}  // namespace holdfast::testing
