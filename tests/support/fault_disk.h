#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "disk/disk.h"

namespace holdfast::testing {

/// Thrown in place of a system call that a killed process would not have made.
struct Crash {};

/// The real disk with a fault in it. One fault at a time; calls are counted from 0.
///
///   stop_after(n)       n changing calls go through, the next one throws Crash, and from then on
///   nothing reaches the disk,
///                       so that destructors cannot tidy up what a real kill would have left
///   lose_reply(n, e)    call n is done, then reported as failed with e
///   fail(n, e)          call n is not done and reported as failed with e
///   before(n, f)        f runs just before call n: the world changes between two calls
///   refuse(what, e)     each call whose name, as in last_hit(), has `what` in it fails with e
///
/// lose_reply, fail and before count all calls, looking ones too.
class FaultDisk final : public disk::Disk {
 public:
  explicit FaultDisk(disk::Disk& real = disk::posix()) : real_(real) {}

  void stop_after(int changes) { survive_ = changes; }
  void lose_reply(int call, int error) { set(call, static_cast<std::errc>(error), Fault::lost); }
  void fail(int call, int error) { set(call, static_cast<std::errc>(error), Fault::failed); }
  void refuse(std::string what, int error) {
    refused_ = std::move(what);
    set(-1, static_cast<std::errc>(error), Fault::failed);
  }
  void before(int call, std::function<void()> hook) {
    hook_at_ = call;
    hook_ = std::move(hook);
  }

  int calls() const { return calls_; }      ///< made so far
  int changes() const { return changes_; }  ///< of them, changing ones
  bool was_hit() const { return was_hit_; }
  const std::string& last_hit() const { return hit_; }  ///< for messages: "rename owner"

  std::error_code make_dir(const disk::At& at) override;
  std::error_code remove_dir(const disk::At& at) override;
  std::error_code unlink(const disk::At& at) override;
  std::error_code rename(const disk::At& from, const disk::At& to) override;
  std::error_code create(const disk::At& at, disk::Handle& file) override;
  std::error_code symlink(const std::string& target, const disk::At& at) override;
  std::error_code write(disk::Handle& file, std::string_view text) override;
  std::error_code close(disk::Handle& file) override;
  std::error_code touch(const disk::At& at) override;
  std::error_code open_dir(const disk::At& at, disk::Handle& dir) override;
  std::error_code open_file(const disk::At& at, disk::Handle& file) override;
  std::error_code read(disk::Handle& file, std::string& text, std::size_t limit) override;
  std::error_code list(const disk::At& at, std::vector<std::string>& names) override;
  std::error_code list_kinds(const disk::At& at, std::vector<disk::Entry>& entries) override;
  std::error_code status(const disk::At& at, disk::Status& status) override;
  std::error_code read_link(const disk::At& at, std::string& target) override;
  std::error_code flock(const disk::Handle& dir, Share share) override;

 private:
  enum class Fault { none, lost, failed };
  void set(int call, std::errc error, Fault fault);

  template <class Do>
  std::error_code change(const char* what, const std::string& name, Do&& action);
  template <class Do, class Undo>
  std::error_code call(const char* what, const std::string& name, Do&& action, Undo&& undo);
  template <class Do>
  std::error_code call(const char* what, const std::string& name, Do&& action) {
    return call(what, name, std::forward<Do>(action), [] {});
  }

  disk::Disk& real_;
  int survive_ = -1;  // changes still let through; -1: all
  bool is_dead_ = false;
  std::atomic<int> calls_{0};  // tests look at it while another thread sleeps
  int changes_ = 0;
  int at_ = -1;
  std::string refused_;
  Fault fault_ = Fault::none;
  std::error_code error_;
  int hook_at_ = -1;
  std::function<void()> hook_;
  bool was_hit_ = false;
  std::string hit_;
};

}  // namespace holdfast::testing
