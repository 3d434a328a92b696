#pragma once

#include "disk/handle.h"

namespace holdfast::tools {

/// Keeps SIGINT, SIGTERM and SIGHUP away while it lives, so that what was begun can be taken back
/// before this process dies of them.
class Interrupts {
 public:
  Interrupts();

  /// Can be read when one came.
  int fd() const { return fd_.fd(); }
  bool came() const;

  /// Dies of the one that came.
  [[noreturn]] void die() const;

 private:
  disk::Handle fd_;
};

}  // namespace holdfast::tools
