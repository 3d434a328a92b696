#include "disk/disk.h"

namespace holdfast::disk {

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
