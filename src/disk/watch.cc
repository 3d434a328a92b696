#include "disk/watch.h"

#include <linux/magic.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace holdfast::disk {
namespace {

// of filesystems whose numbers the kernel's header does not have
constexpr unsigned long kBtrfs = 0x9123683E;
constexpr unsigned long kZfs = 0x2FC12FC1;
constexpr unsigned long kBcachefs = 0xCA451A4E;

constexpr std::array<unsigned long, 10> kLocal{
    EXT4_SUPER_MAGIC, XFS_SUPER_MAGIC,   TMPFS_MAGIC, RAMFS_MAGIC, OVERLAYFS_SUPER_MAGIC,
    F2FS_SUPER_MAGIC, MSDOS_SUPER_MAGIC, kBtrfs,      kZfs,        kBcachefs};

/// Whether all changes there are made by this host's kernel, which can tell of them. What is not
/// known is not.
bool is_local(const Path& path) {
  struct statfs fs {};
  if (statfs(path.c_str(), &fs) != 0) return false;
  const auto type = static_cast<unsigned long>(fs.f_type) & 0xFFFFFFFFUL;
  return std::find(kLocal.begin(), kLocal.end(), type) != kLocal.end();
}

/// One for all watches of a thread: to close it takes longer than all else on the way to a lock. A
/// forked child does not share it.
class Inotify {
 public:
  bool is_open() const { return handle_.is_open() && process_ == getpid(); }
  int fd() const { return is_open() ? handle_.fd() : -1; }
  void open() {
    if (is_open()) return;
    handle_ = Handle(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    process_ = getpid();
  }
  Handle take() { return is_open() ? std::exchange(handle_, Handle()) : Handle(); }

 private:
  Handle handle_;
  pid_t process_ = -1;
};

thread_local Inotify inotify;

/// How many processes are watched: a semaphore can have thousands of holders. Most descriptors stay
/// free for the files that whoever waits has to open.
std::size_t most_processes() {
  constexpr std::size_t kMost = 32;
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 1;
  return std::clamp<std::size_t>(files.rlim_cur / 4, 1, kMost);
}

}  // namespace

void Watch::clear() {
  for (const int watch : watched_) (void)inotify_rm_watch(inotify.fd(), watch);
  watched_.clear();
  processes_.clear();
  is_blind_ = false;
  drain();
}

void Watch::on_departure(const Path& folder) {
  const bool is_armed = add(
      folder, IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
  // of the same filesystem; more than this one event would tell of attempts in vain, ours too
  if (is_armed && !arm(folder.parent_path() / ".", IN_MOVED_TO | IN_ONLYDIR | IN_MASK_ADD)) {
    is_blind_ = true;
  }
}

void Watch::on_arrival(const Path& folder) {
  add(folder / ".", IN_CREATE | IN_MOVED_TO | IN_ONLYDIR);
}

void Watch::on_removal(const Path& file) {
  // a file that somebody has open is told of by its count of names
  add(file, IN_DELETE_SELF | IN_MOVE_SELF | IN_ATTRIB);
}

bool Watch::add(const Path& path, std::uint32_t events) {
  const bool can_see = is_local(path);
  if (can_see) inotify.open();
  const bool is_armed = can_see && arm(path, events);
  if (!is_armed) is_blind_ = true;
  return is_armed;
}

bool Watch::arm(const Path& path, std::uint32_t events) {
  const int watch = inotify.is_open()
                        ? inotify_add_watch(inotify.fd(), path.c_str(), events | IN_DONT_FOLLOW)
                        : -1;
  if (watch >= 0) watched_.push_back(watch);
  return watch >= 0;
}

void Watch::on_exit(pid_t pid) {
  const auto is_it = [&](const auto& process) { return process.first == pid; };
  if (std::any_of(processes_.begin(), processes_.end(), is_it)) return;
  const bool was_told = std::find(ended_.begin(), ended_.end(), pid) != ended_.end();
  const bool is_too_much = processes_.size() >= most_processes();
  const long fd = was_told || is_too_much ? -1 : syscall(SYS_pidfd_open, pid, 0);
  if (fd >= 0) {
    processes_.emplace_back(pid, Handle(static_cast<int>(fd)));
  } else {
    is_blind_ = true;
  }
}

void Watch::drain() {
  std::array<char, 4096> events;
  while (inotify.is_open() && read(inotify.fd(), events.data(), events.size()) > 0) {
  }
}

Watch::Woken Watch::wait(std::chrono::nanoseconds longest, int stop) {
  std::vector<pollfd> fds;
  fds.push_back({stop, POLLIN, 0});
  fds.push_back({watched_.empty() ? -1 : inotify.fd(), POLLIN, 0});
  const std::size_t first = fds.size();
  for (const auto& [pid, process] : processes_) fds.push_back({process.fd(), POLLIN, 0});
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(longest);
  const timespec time{seconds.count(), (longest - seconds).count()};
  const int ready = ppoll(fds.data(), fds.size(), &time, nullptr);
  if (ready <= 0) return Woken::late;
  if (fds[0].revents != 0) return Woken::stopped;
  for (std::size_t i = 0; i < processes_.size(); ++i) {
    if (fds[first + i].revents != 0) ended_.push_back(processes_[i].first);
  }
  const bool is_one = ready == 1 && fds[1].revents != 0;
  return is_one ? Woken::changed : Woken::ended;
}

void Watch::close_behind() {
  Handle inotify_file = inotify.take();
  if (!inotify_file.is_open()) return;
  std::array<int, 2> pair{};
  if (socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair.data()) != 0) return;
  Handle sender(pair[0]);
  Handle receiver(pair[1]);
  const std::array<int, 2> sent{inotify_file.fd(), receiver.fd()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof sent)> space{};
  char byte = 0;
  iovec text{&byte, sizeof byte};
  msghdr message{};
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  message.msg_control = space.data();
  message.msg_controllen = space.size();
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof sent);
  std::memcpy(CMSG_DATA(header), sent.data(), sizeof sent);
  (void)sendmsg(sender.fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);  // without it we wait
  // The end of the sender makes the kernel look for what nobody can reach, so it comes last.
  receiver = Handle();
  inotify_file = Handle();
}

}  // namespace holdfast::disk
