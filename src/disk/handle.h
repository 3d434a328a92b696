#pragma once

#include <initializer_list>
#include <utility>
#include <vector>

namespace holdfast::disk {

/// An open directory or file. Closes itself; never 0, 1 or 2, so that a tool started with a closed
/// standard stream cannot write its messages into a lock.
class Handle {
 public:
  Handle() = default;
  explicit Handle(int fd) : fd_(fd) {}
  Handle(Handle&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Handle& operator=(Handle&& other) noexcept;
  ~Handle();

  bool is_open() const { return fd_ >= 0; }
  int fd() const { return fd_; }

  /// The descriptor, which the caller closes from now on.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Closes them with as few system calls as their numbers allow: one, where they follow each other.
void close_together(std::initializer_list<Handle*> handles);
void close_together(std::vector<Handle> handles);

}  // namespace holdfast::disk
