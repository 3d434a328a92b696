#include "lock/marks.h"

namespace holdfast::lock {

using disk::Handle;
using Time = std::chrono::system_clock::time_point;

namespace {

/// Whoever unlocks or is refused removes in_use/ if it is empty, also between our two steps.
constexpr int kRetryLimit = 8;

}  // namespace

std::vector<Mark> Marks::list() const {
  std::vector<Mark> marks;
  std::vector<std::string> names;
  Handle in_use;
  if (disk_.open_dir(at_.in_use(), in_use) || disk_.list(at_.in_use(), names)) return marks;
  marks.reserve(names.size());
  for (std::string& name : names) {
    disk::Status status;
    Uid id = Uid::found(std::move(name));
    if (!disk_.status(Layout::mark(in_use, id), status))
      marks.push_back({std::move(id), status.modified});
  }
  return marks;
}

std::optional<Time> Marks::time(const Uid& id) const {
  Handle in_use;
  Handle mark;
  disk::Status status;
  if (disk_.open_dir(at_.in_use(), in_use)) return std::nullopt;
  // open, not stat: on NFS that asks the server about a name that is there
  if (disk_.open_file(Layout::mark(in_use, id), mark)) return std::nullopt;
  if (disk_.status({mark, "."}, status)) return std::nullopt;
  return status.modified;
}

std::optional<Time> Marks::now() {
  disk::Status status;
  if (disk_.touch(at_.in_use()) || disk_.status(at_.in_use(), status)) return std::nullopt;
  return status.modified;
}

bool Marks::make(const Uid& id) {
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    Handle in_use;
    const bool is_first = !disk_.make_dir(at_.in_use());
    if (disk_.open_dir(at_.in_use(), in_use)) continue;
    const std::error_code ec = disk_.make_dir(Layout::mark(in_use, id));
    if (!ec) return is_first;
    if (ec != std::errc::no_such_file_or_directory) return false;
  }
  return false;
}

std::error_code Marks::renew(const Uid& id) {
  Handle in_use;
  if (const auto ec = disk_.open_dir(at_.in_use(), in_use)) return ec;
  return disk_.touch(Layout::mark(in_use, id));
}

void Marks::remove(const Uid& id) {
  Handle in_use;
  if (disk_.open_dir(at_.in_use(), in_use)) return;
  if (disk_.remove_dir(Layout::mark(in_use, id))) return;
  (void)disk_.remove_dir(at_.in_use());  // others may be marked there
}

void Marks::tidy() {
  (void)disk_.remove_dir(at_.in_use());  // both stay while somebody uses them
  (void)disk_.remove_dir(at_.lock());
}

}  // namespace holdfast::lock
