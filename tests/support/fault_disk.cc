#include "support/fault_disk.h"

namespace holdfast::testing {

using disk::At;
using disk::Handle;

void FaultDisk::set(int call, std::errc error, Fault fault) {
  at_ = call;
  error_ = std::error_code(static_cast<int>(error), std::generic_category());
  fault_ = fault;
}

/// `undo` takes back what the caller must not see of a reply that was lost: an open handle, a text.
template <class Do, class Undo>
std::error_code FaultDisk::call(const char* what, const std::string& name, Do&& action,
                                Undo&& undo) {
  if (is_dead_) return std::make_error_code(std::errc::io_error);
  if (calls_ == hook_at_) {
    was_hit_ = true;
    hit_ = std::string(what) + " " + name;
    hook_();
  }
  const bool is_refused =
      !refused_.empty() && (std::string(what) + " " + name).find(refused_) != std::string::npos;
  const bool is_hit = calls_++ == at_ || is_refused;
  if (is_hit) {
    was_hit_ = true;
    hit_ = std::string(what) + " " + name;
    if (fault_ == Fault::failed) return error_;
  }
  const std::error_code ec = action();
  if (!is_hit) return ec;
  undo();
  return error_;
}

template <class Do>
std::error_code FaultDisk::change(const char* what, const std::string& name, Do&& action) {
  if (is_dead_) return std::make_error_code(std::errc::io_error);
  if (survive_ == 0) {
    is_dead_ = true;
    was_hit_ = true;
    hit_ = std::string(what) + " " + name;
    throw Crash{};
  }
  if (survive_ > 0) --survive_;
  ++changes_;
  return call(what, name, std::forward<Do>(action));
}

std::error_code FaultDisk::make_dir(const At& at) {
  return change("make_dir", at.name, [&] { return real_.make_dir(at); });
}
std::error_code FaultDisk::remove_dir(const At& at) {
  return change("remove_dir", at.name, [&] { return real_.remove_dir(at); });
}
std::error_code FaultDisk::unlink(const At& at) {
  return change("unlink", at.name, [&] { return real_.unlink(at); });
}
std::error_code FaultDisk::rename(const At& from, const At& to) {
  return change("rename", from.name + " to " + to.name, [&] { return real_.rename(from, to); });
}
std::error_code FaultDisk::create(const At& at, Handle& file) {
  Handle made;
  const std::error_code ec = change("create", at.name, [&] { return real_.create(at, made); });
  if (!ec) file = std::move(made);
  return ec;
}
std::error_code FaultDisk::symlink(const std::string& target, const At& at) {
  return change("symlink", at.name, [&] { return real_.symlink(target, at); });
}
std::error_code FaultDisk::write(Handle& file, std::string_view text) {
  return change("write", "", [&] { return real_.write(file, text); });
}
std::error_code FaultDisk::close(Handle& file) {
  return change("close", "", [&] { return real_.close(file); });
}
std::error_code FaultDisk::touch(const At& at) {
  return change("touch", at.name, [&] { return real_.touch(at); });
}
std::error_code FaultDisk::open_dir(const At& at, Handle& dir) {
  return call(
      "open_dir", at.name, [&] { return real_.open_dir(at, dir); }, [&] { dir = Handle(); });
}
std::error_code FaultDisk::open_file(const At& at, Handle& file) {
  return call(
      "open_file", at.name, [&] { return real_.open_file(at, file); }, [&] { file = Handle(); });
}
std::error_code FaultDisk::read(Handle& file, std::string& text, std::size_t limit) {
  return call(
      "read", "", [&] { return real_.read(file, text, limit); }, [&] { text.clear(); });
}
std::error_code FaultDisk::list(const At& at, std::vector<std::string>& names) {
  return call(
      "list", at.name, [&] { return real_.list(at, names); }, [&] { names.clear(); });
}
std::error_code FaultDisk::list_kinds(const At& at, std::vector<disk::Entry>& entries) {
  return call(
      "list_kinds", at.name, [&] { return real_.list_kinds(at, entries); },
      [&] { entries.clear(); });
}
std::error_code FaultDisk::status(const At& at, disk::Status& status) {
  return call("status", at.name, [&] { return real_.status(at, status); });
}
std::error_code FaultDisk::read_link(const At& at, std::string& target) {
  return call(
      "read_link", at.name, [&] { return real_.read_link(at, target); }, [&] { target.clear(); });
}

std::error_code FaultDisk::flock(const Handle& dir, Share share) {
  return call("flock", "", [&] { return real_.flock(dir, share); });
}

}  // namespace holdfast::testing
