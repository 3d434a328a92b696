#include "disk/disk.h"

namespace holdfast::disk {

SafePath SafePath::operator/(const std::string& name) const {
  SafePath longer(whole_ / name);
  longer.below_ = below_ > 0 ? below_ : longer.native().size() - name.size();
  return longer;
}

SafePath SafePath::parent() const {
  SafePath shorter(whole_.parent_path());
  if (below_ < shorter.native().size()) shorter.below_ = below_;
  return shorter;
}

std::error_code make_dirs(Disk& disk, const SafePath& path) {
  const std::error_code ec = disk.make_dir(path);
  if (ec != std::errc::no_such_file_or_directory) return ec;
  std::vector<SafePath> missing;
  for (auto parent = path.parent(); !parent.native().empty(); parent = parent.parent()) {
    const std::error_code made = disk.make_dir(parent);
    if (made == std::errc::no_such_file_or_directory) {
      missing.push_back(parent);
    } else if (made && made != std::errc::file_exists) {
      return made;
    } else {
      break;
    }
  }
  for (auto parent = missing.rbegin(); parent != missing.rend(); ++parent) {
    (void)disk.make_dir(*parent);  // the next one tells
  }
  return disk.make_dir(path);
}

std::vector<Content> read_files(Disk& disk, std::initializer_list<Path> paths) {
  std::vector<Content> contents;
  std::vector<Handle> handles;
  for (const Path& path : paths) {
    Content content;
    Handle file;
    content.error = disk.open_file(path, file);
    if (!content.error) content.error = disk.read(file, content.text, kSmallFile);
    contents.push_back(std::move(content));
    handles.push_back(std::move(file));
  }
  close_together(std::move(handles));
  return contents;
}

}  // namespace holdfast::disk
