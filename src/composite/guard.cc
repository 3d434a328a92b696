#include "composite/guard.h"

#include <unistd.h>

#include <utility>

namespace holdfast::composite {

Guard::Guard(std::unique_ptr<Held> held) : held_(std::move(held)), process_(getpid()) {}

Guard& Guard::operator=(Guard&& other) noexcept {
  if (this != &other) {
    release();
    held_ = std::move(other.held_);
    process_ = other.process_;
  }
  return *this;
}

Guard::~Guard() {
  release();
}

bool Guard::release() {
  if (!is_ours()) return false;
  const lock::Outcome outcome = held_->release();
  if (outcome != lock::Outcome::failed) held_.reset();
  return outcome == lock::Outcome::released;
}

bool Guard::is_held() const {
  return is_ours() && held_->is_held();
}

bool Guard::is_ours() const {
  return held_ && process_ == getpid();
}

}  // namespace holdfast::composite
