#pragma once

#include <memory>
#include <string>
#include <vector>

#include "composite/guard.h"
#include "disk/disk.h"
#include "lock/fast_lock.h"

namespace holdfast::composite {

/// One hold of a FastLock, by its nonce if it has one. Its mark in in_use/ goes with it.
class HeldLock final : public Held {
 public:
  HeldLock(lock::FastLock lock, Uid id, std::string nonce)
      : lock_(std::move(lock)), id_(std::move(id)), nonce_(std::move(nonce)) {}

  lock::Answer unlock();
  lock::Outcome release() override { return unlock().outcome; }
  bool is_held() const override;

 private:
  lock::FastLock lock_;
  Uid id_;
  std::string nonce_;
};

/// Several holds as one: given back the last one first, and past one that fails.
class HeldAll final : public Held {
 public:
  explicit HeldAll(std::vector<std::unique_ptr<Held>> holds) : holds_(std::move(holds)) {}

  lock::Outcome release() override;
  bool is_held() const override;  ///< all of them

 private:
  std::vector<std::unique_ptr<Held>> holds_;  ///< those that are given back are null
};

/// A hold in a folder that goes with the last one in it.
class HeldIn final : public Held {
 public:
  HeldIn(std::unique_ptr<Held> hold, disk::Disk& disk, disk::SafePath folder)
      : hold_(std::move(hold)), disk_(disk), folder_(std::move(folder)) {}

  lock::Outcome release() override;
  bool is_held() const override { return hold_->is_held(); }

 private:
  std::unique_ptr<Held> hold_;
  disk::Disk& disk_;
  disk::SafePath folder_;
};

}  // namespace holdfast::composite
