/// Filesystems of other kinds, made for one test.
#pragma once

#include <string>

#include "support/temp_dir.h"

namespace holdfast::testing {

/// A filesystem mounted where only this process and its children see it, gone at the end of the
/// scope. Needs root.
class Mounted {
 public:
  /// kind: overlay, or one with a mkfs.<kind>. Where it cannot be had, `why` says the
  /// reason.
  explicit Mounted(const std::string& kind);
  Mounted(const Mounted&) = delete;
  Mounted& operator=(const Mounted&) = delete;
  ~Mounted();

  const std::string& why() const { return why_; }  ///< empty: it is there
  const std::string& path() const { return path_; }

 private:
  bool mount(const std::string& kind);

  TempDir dir_;
  std::string path_;
  std::string why_;
  bool is_mounted_ = false;
};

}  // namespace holdfast::testing
