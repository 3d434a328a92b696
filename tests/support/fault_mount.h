#pragma once

#include <memory>
#include <string>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

/// One call that goes wrong: see fault_fs.
struct Fault {
  std::string call;
  std::string kind;
  int number = 0;  ///< errno or milliseconds
};

/// A folder seen through fault_fs, by this process and its children only. Two of them on one folder
/// are two hosts: each has its own memory of names. Needs root and /dev/fuse.
class FaultMount {
 public:
  /// `memory`: for how many seconds a name is believed without asking. `subtype`: the mount calls
  /// itself fuse.SUBTYPE.
  explicit FaultMount(std::string folder, int memory = 0, const std::string& subtype = "fault_fs");
  FaultMount(const FaultMount&) = delete;
  FaultMount& operator=(const FaultMount&) = delete;
  ~FaultMount();

  const std::string& why() const { return why_; }  ///< empty: it is there
  const std::string& path() const { return path_; }
  const std::string& folder() const { return folder_; }

  void set(const Fault& fault, int nth) const;
  bool was_hit() const;
  void clear() const;

 private:
  TempDir dir_;
  std::string folder_;
  std::string path_ = dir_ / "mnt";
  std::string control_ = dir_ / "control";
  std::string why_;
  std::unique_ptr<Process> server_;
};

}  // namespace holdfast::testing
