#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <system_error>

#include "event/loop.h"
#include "event/watch.h"
#include "http/address.h"
#include "http/message.h"

namespace holdfast::http {

/// A listening socket that hands on whoever connects.
///
/// Owns:     the socket; for unix also its file, which is removed at the end if it is still ours.
/// Never:    takes over a unix socket on which somebody listens, or spins when descriptors are used
///           up: it tries again after a pause.
class Listener {
 public:
  /// The descriptor is the callee's; it does not block and is closed on exec.
  using Accepted = std::function<void(int fd, Peer peer)>;

  /// Null with the reason in `ec` if nobody can listen there.
  static std::unique_ptr<Listener> open(event::Loop& loop, const Address& address,
                                        Accepted accepted, std::error_code& ec);

  Listener(event::Loop& loop, int fd, Address address, Accepted accepted);
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener();

  /// With the port that was really taken.
  const Address& address() const { return address_; }

  /// Those who have connected by now.
  void accept_pending();

 private:
  void accept_and_wait();
  bool accept_one();

  event::Loop& loop_;
  int fd_;
  Address address_;
  Accepted accepted_;
  ino_t inode_ = 0;  ///< of the unix socket's file
  bool is_short_of_descriptors_ = false;
  event::Timer pause_;
  event::Watch watch_;
};

}  // namespace holdfast::http
