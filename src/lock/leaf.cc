#include "lock/leaf.h"

#include <string_view>

#include "base/text.h"

namespace holdfast::lock {
namespace {

constexpr std::string_view kShared = "shared";

/// A record has a few hundred bytes. A longer file is not one.
constexpr std::size_t kLongestLeaf = 64 << 10;

/// What every record begins with, broken ones and those of later versions too.
constexpr std::string_view kRecordBegin = "{\"v\":";

bool name_processes(const Leaf& leaf, const Record& caller) {
  return leaf.record && leaf.record->names_process() && caller.names_process();
}

/// The shell makes empty leaves.
bool is_content_of_leaf(std::string_view text) {
  return text.empty() || text.starts_with(kRecordBegin);
}

}  // namespace

bool is_own(const Leaf& leaf, const Uid& id, const Record& caller) {
  return name_processes(leaf, caller) ? is_same_process(*leaf.record, caller) : leaf.id == id;
}

bool is_twin(const Leaf& leaf, const Uid& id, const Record& caller) {
  return leaf.id == id && !is_own(leaf, id, caller);
}

std::string describe_twin(const disk::SafePath& lock, const Leaf& leaf) {
  return lock.native() + " is held by another process with the same id " + leaf.id.str() + ": " +
         (leaf.record ? describe(*leaf.record) : std::string("it left no record")) +
         ". Containers that start at the same moment can have the same ids. Wait until the other "
         "process releases it, or start this one again, which gives it another id";
}

bool is_same_hold(const Leaf& a, const Leaf& b) {
  if (a.id != b.id || a.record.has_value() != b.record.has_value()) return false;
  if (a.record) return a.record->nonce == b.record->nonce;
  return a.object.is_same_object(b.object) && a.object.modified == b.object.modified;
}

std::string shared_target(const Record& record) {
  return std::string(kShared) + " " + without_newline(to_line(record));
}

std::error_code read_content(disk::Disk& disk, disk::Handle& file, Leaf& leaf) {
  std::string text;
  const std::error_code ec = disk.read(file, text, kLongestLeaf);
  if (!ec || ec == std::errc::file_too_large) leaf.is_foreign = !is_content_of_leaf(text);
  if (!ec) leaf.record = parse_record(text);
  return ec;
}

std::optional<Leaf> read_leaf(disk::Disk& disk, const disk::At& at, const std::string& name) {
  Leaf leaf{Uid::found(name), std::nullopt};
  disk::Handle file;
  std::string text;
  std::error_code ec = disk.open_file(at, file);
  if (ec == std::errc::too_many_symbolic_link_levels) {
    ec = disk.read_link(at, text);
    if (!ec) {
      leaf.mode = Mode::shared;
      leaf.is_foreign = !text.starts_with(kShared);
      if (!leaf.is_foreign)
        leaf.record = parse_record(std::string_view(text).substr(kShared.size()));
    } else if (ec == std::errc::invalid_argument) {  // it was upgraded just now
      ec = disk.open_file(at, file);
    }
  }
  if (ec == std::errc::no_such_file_or_directory) return std::nullopt;
  if (file.is_open()) ec = read_content(disk, file, leaf);
  leaf.is_readable = !ec || ec == std::errc::is_a_directory;
  if (!leaf.record) (void)disk.status(at, leaf.object);
  return leaf;
}

}  // namespace holdfast::lock
