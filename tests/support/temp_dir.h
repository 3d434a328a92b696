#pragma once

#include <string>
#include <vector>

namespace holdfast::testing {

/// A folder that is gone, with all in it, at the end of the scope. Below $HOLDFAST_TEST_DIR if that
/// is set.
class TempDir {
 public:
  TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir();

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// All names below `path`, sorted, relative to it; folders end in '/', links in '@'. Nothing if it
/// does not exist.
std::vector<std::string> tree(const std::string& path);

void write_file(const std::string& path, const std::string& text);
std::string read_file(const std::string& path);

}  // namespace holdfast::testing
