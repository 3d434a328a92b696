#include "disk/handle.h"

#include <unistd.h>

#include <algorithm>

namespace holdfast::disk {

Handle& Handle::operator=(Handle&& other) noexcept {
  if (this != &other) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

Handle::~Handle() {
  if (fd_ >= 0) ::close(fd_);
}

namespace {

void close_runs(std::vector<int> fds) {
  std::sort(fds.begin(), fds.end());
  for (auto run = fds.begin(); run != fds.end();) {
    auto end = run + 1;
    while (end != fds.end() && *end == end[-1] + 1) ++end;
    const bool closed = end - run > 1 && ::close_range(static_cast<unsigned>(*run),
                                                       static_cast<unsigned>(end[-1]), 0) == 0;
    for (; run != end; ++run) {
      if (!closed) ::close(*run);
    }
  }
}

}  // namespace

void close_together(std::initializer_list<Handle*> handles) {
  std::vector<int> fds;
  for (Handle* handle : handles) {
    if (handle->is_open()) fds.push_back(handle->release());
  }
  close_runs(std::move(fds));
}

void close_together(std::vector<Handle> handles) {
  std::vector<int> fds;
  for (Handle& handle : handles) {
    if (handle.is_open()) fds.push_back(handle.release());
  }
  close_runs(std::move(fds));
}

}  // namespace holdfast::disk
