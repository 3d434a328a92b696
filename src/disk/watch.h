#pragma once

#include <sys/types.h>

#include <chrono>
#include <utility>
#include <vector>

#include "disk/disk.h"
#include "disk/handle.h"

namespace holdfast::disk {

/// Sleeps until something that was pointed out to it changes.
///
/// Arm it, look, then wait: what changes between the look and the wait ends the wait at once. An
/// event is only a hint to look again; a wait may end without one.
///
/// Sees:     files and folders of local filesystems, by inotify; ends of processes of this host, by
///           pidfd, one for each process and at most 32 of them. Other filesystems, more processes,
///           and hosts whose inotify is used up make is_blind(): whoever waits has to look from
///           time to time.
class Watch {
 public:
  enum class Woken { changed, ended, late, stopped };

  Watch() = default;
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() { clear(); }

  /// Forgets all that it was to watch, but not whose ends it told.
  void clear();

  /// Names that leave the folder or are replaced in it, its own end, and another that takes its
  /// place: while somebody has a folder open, its end is not told.
  void on_departure(const Path& folder);

  /// Names that come into the folder, which may be a link to one.
  void on_arrival(const Path& folder);

  /// The end of this one name.
  void on_removal(const Path& file);

  /// The end of a process. One that cannot be watched makes it blind, and so does one whose end was
  /// told: as long as nobody reaps that process, it would end every wait.
  void on_exit(pid_t pid);

  /// Something of another host, or that nobody knows.
  void on_unseen() { is_blind_ = true; }

  /// Something was to be watched that cannot be.
  bool is_blind() const { return is_blind_; }

  /// ended: a process did. `stop`: a descriptor that ends the wait for good when it can be read, or
  /// -1.
  Woken wait(std::chrono::nanoseconds longest, int stop);

  /// For a program that is about to end: the kernel takes some 15 ms to close an inotify, and
  /// whoever waits for the end of the program waits for that too. This call lets the kernel close
  /// it later. It sends the inotify to a socket together with that socket itself, and closes both:
  /// no process can reach them any more, and a thread of the kernel (since Linux 6.9) finds and
  /// closes them. An older kernel closes them here, which takes the 15 ms. All watches must be
  /// cleared.
  static void close_behind();

 private:
  bool add(const Path& path, std::uint32_t events);
  bool arm(const Path& path, std::uint32_t events);
  void drain();

  std::vector<int> watched_;
  std::vector<std::pair<pid_t, Handle>> processes_;  ///< each once
  std::vector<pid_t> ended_;
  bool is_blind_ = false;
};

}  // namespace holdfast::disk
