/// The hosts of the machine that the script "vm" makes. Each has an NFS client, caches, processes
/// and a name of its own; all are one kernel, so that memory can be shared between them and a test
/// sees the truth beside the NFS.
#pragma once

#include <sys/mman.h>

#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/process.h"

namespace holdfast::testing {

class Host {
 public:
  explicit Host(int number);

  const std::string& name() const { return name_; }

  /// A child of this process that does `work` there; its exit code is what that returns.
  pid_t start(const std::function<int()>& work) const;

  /// The same to the end, for the text that it finds out.
  std::string ask(const std::function<std::string()>& look) const;

  /// Runs a program there to its end, as testing::run does here.
  Result run(const std::vector<std::string>& words) const;

 private:
  void enter() const;

  std::string name_;
  std::string proc_;  ///< of its first process
};

const std::vector<Host>& hosts();

std::string on_server(const std::string& name);  ///< a path below the exported folder
std::string on_hosts(const std::string& name);   ///< the same as hosts see it

/// Something that lives on a host until it is killed.
class Resident {
 public:
  explicit Resident(const Host& host);
  Resident(const Resident&) = delete;
  Resident& operator=(const Resident&) = delete;
  ~Resident();

  const std::string& pid_there() const { return pid_there_; }
  void kill_and_wait();

 private:
  pid_t pid_ = -1;
  std::string pid_there_;
};

/// One T in memory that children on all hosts share.
template <class T>
class Shared {
 public:
  Shared()
      : at_(mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) {
    if (at_ == MAP_FAILED) throw std::runtime_error("mmap");
    new (at_) T();
  }
  Shared(const Shared&) = delete;
  Shared& operator=(const Shared&) = delete;
  ~Shared() { munmap(at_, sizeof(T)); }

  T* operator->() const { return static_cast<T*>(at_); }
  T& operator*() const { return *static_cast<T*>(at_); }

 private:
  void* at_;
};

}  // namespace holdfast::testing
