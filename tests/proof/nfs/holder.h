#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "host.h"
#include "support/locker_tools.h"

namespace holdfast::testing {

/// Somebody on a host who uses a lock through a tool.
class Holder {
 public:
  Holder(const Host& host, const LockerTool& locker, const std::string& lock)
      : host_(host), locker_(locker), lock_(on_hosts(lock)), process_(host) {
    leaf_ = host.ask([&] {
      return leaf_of(locker, host.name() + "." + process_.pid_there(), process_.pid_there());
    });
    word_ = word_of(locker, leaf_, process_.pid_there());
  }

  /// Exit code of `lock`, `unlock` or `is_mine`, for this holder.
  int does(const std::string& action) const {
    return run(locker_.words(action, lock_, word_)).code;
  }
  /// Of an action that is for nobody in particular.
  int says(const std::string& action) const { return run(locker_.words(action, lock_)).code; }
  /// Whom it sees in the lock.
  std::string owner() const {
    const std::string line = first_line(run(locker_.words("owner", lock_)));
    return line.starts_with(locker_.mark) ? line.substr(locker_.mark.size()) : line;
  }

  const Host& host() const { return host_; }
  const std::string& leaf() const { return leaf_; }  ///< its name in owner/
  void die() { process_.kill_and_wait(); }

 private:
  /// An NFS 3 client knows a change by the server's clock, which has ticks of 10 ms in here: no two
  /// steps of a test fall into one.
  Result run(const Words& words) const {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    return host_.run(words);
  }
  static std::string first_line(const Result& result) {
    return result.out.substr(0, result.out.find('\n'));
  }

  const Host& host_;
  const LockerTool locker_;
  const std::string lock_;
  Resident process_;
  std::string leaf_;
  std::string word_;
};

}  // namespace holdfast::testing
