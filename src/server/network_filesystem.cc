#include <sys/vfs.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "server/sqlite_rows.h"

namespace holdfast::server {
namespace {

struct Kind {
  unsigned long magic;
  std::string_view name;
};

/// Where a lock or a sync on one host may mean nothing on another.
constexpr std::array kNetworkKinds{
    Kind{0x6969, "NFS"},       Kind{0x517b, "SMB"},        Kind{0xff534d42, "CIFS"},
    Kind{0xfe534d42, "SMB 2"}, Kind{0x00c36400, "Ceph"},   Kind{0x5346414f, "AFS"},
    Kind{0x6b414653, "AFS"},   Kind{0x0bd00bd0, "Lustre"}, Kind{0x47504653, "GPFS"},
    Kind{0x01021997, "9P"},    Kind{0x7461636f, "OCFS2"},  Kind{0x01161970, "GFS2"},
    Kind{0x73757245, "Coda"},  Kind{0x564c, "NCP"},        Kind{0x19830326, "BeeGFS"},
};
constexpr unsigned long kFuse = 0x65735546;

/// The type of the mount that holds `path`, as mountinfo words it: "fuse.sshfs".
std::string mount_type(const std::filesystem::path& path) {
  std::ifstream mounts("/proc/self/mountinfo");
  std::string best_point;
  std::string best_type;
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream words(line);
    std::string word;
    std::string point;
    for (int i = 0; i < 5 && words >> word; ++i) point = word;
    while (words >> word && word != "-") continue;
    std::string type;
    words >> type;
    const std::string prefix = point == "/" ? point : point + "/";
    const std::string text = path.string() + "/";
    if (text.compare(0, prefix.size(), prefix) == 0 && point.size() >= best_point.size()) {
      best_point = point;
      best_type = type;
    }
  }
  return best_type;
}

/// FUSE carries local filesystems too.
bool is_local_fuse(std::string_view type) {
  return type == "fuseblk" || type == "fuse.fuse-overlayfs" || type == "fuse.portal";
}

}  // namespace

std::string network_filesystem(const std::string& path) {
  std::error_code ignored;
  std::filesystem::path place = std::filesystem::weakly_canonical(path, ignored);
  while (!place.empty() && !std::filesystem::exists(place, ignored) && place.has_relative_path()) {
    place = place.parent_path();
  }
  struct statfs about {};
  if (statfs(place.empty() ? "." : place.c_str(), &about) != 0) return {};
  const auto magic = static_cast<unsigned long>(about.f_type) & 0xffffffffUL;
  for (const Kind& kind : kNetworkKinds) {
    if (kind.magic == magic) return std::string(kind.name);
  }
  if (magic != kFuse) return {};
  const std::string type = mount_type(place);
  return is_local_fuse(type) ? std::string() : type.empty() ? "FUSE" : type;
}

}  // namespace holdfast::server
