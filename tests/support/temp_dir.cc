#include "support/temp_dir.h"

#include <algorithm>
#include <boost/filesystem.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace holdfast::testing {

namespace bfs = boost::filesystem;

TempDir::TempDir() {
  const char* below = std::getenv("HOLDFAST_TEST_DIR");
  std::string name = std::string(below ? below : "/tmp") + "/holdfast-test.XXXXXX";
  if (!mkdtemp(name.data())) throw std::runtime_error("mkdtemp " + name);
  path_ = name;
}

TempDir::~TempDir() {
  boost::system::error_code ec;
  bfs::remove_all(path_, ec);
}

std::vector<std::string> tree(const std::string& path) {
  std::vector<std::string> names;
  boost::system::error_code ec;
  for (bfs::recursive_directory_iterator it(path, ec), end; !ec && it != end; it.increment(ec)) {
    const auto kind = it->symlink_status().type();
    const std::string mark = kind == bfs::directory_file ? "/"
                             : kind == bfs::symlink_file ? "@"
                                                         : "";
    names.push_back(it->path().native().substr(path.size() + 1) + mark);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

}  // namespace holdfast::testing
