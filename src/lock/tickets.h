#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/uid.h"
#include "disk/disk.h"
#include "lock/fast_lock.h"
#include "lock/layout.h"

namespace holdfast::lock {

/// A place in the line for a lock: .queue/<number>.<r|w>.<id>.
struct Ticket {
  std::uint64_t number;
  Mode mode;
  Uid id;

  std::string name() const;
  bool operator==(const Ticket&) const = default;
};

/// A file in .queue/ and the id that it belongs to.
struct QueueFile {
  Uid id;
  disk::SafePath path;
};

/// Of equal numbers the smaller id goes first: who arrives at the same time may come in any order,
/// but all must see the same one.
bool is_before(const Ticket& a, const Ticket& b);

/// Those who wait for a lock, in the order in which they came.
///
/// Decides:  nothing about exclusion. A ticket that is lost, doubled or wrong costs order only.
/// Number:   one more than the highest that is seen; the look follows a change of the folder by us,
///           so that a network filesystem shows it as it is.
/// Killed:   leaves new.<id> or a ticket. Both are judged by what they say.
class Tickets {
 public:
  Tickets(disk::Disk& disk, Layout at) : disk_(disk), at_(std::move(at)) {}

  /// In their order. What is no ticket is left out: other names, folders and links. `newcomers`
  /// gets the files of those that are about to take a ticket, or were killed on the way.
  std::vector<Ticket> list(std::error_code& ec, std::vector<QueueFile>* newcomers = nullptr) const;

  /// The last place in line. `text` is what others learn of who waits.
  std::optional<Ticket> take(const Uid& id, Mode mode, const std::string& text,
                             std::error_code& ec);

  /// Behind `other`, there or not, and all who are there, by one rename: who watches it is woken.
  /// Nothing if that cannot be done.
  std::optional<Ticket> move_back(const Ticket& ticket, const Ticket& other);

  /// Who cannot tell says yes.
  bool is_there(const Ticket& ticket) const;
  disk::SafePath folder() const { return at_.queue(); }
  disk::SafePath path(const Ticket& ticket) const { return at_.queue() / ticket.name(); }
  QueueFile file(const Ticket& ticket) const { return {ticket.id, path(ticket)}; }
  std::optional<std::string> text(const QueueFile& file, std::error_code& ec) const;

  /// When its waiter made or last renewed it, by the clock of the filesystem.
  std::optional<std::chrono::system_clock::time_point> time(const QueueFile& file) const;
  /// Only the waiter itself renews its ticket: that is how others see that it still waits.
  void renew(const Ticket& ticket);

  /// When somebody last had the waiter of that id checked, by the same clock. Nothing if nobody
  /// did.
  std::optional<std::chrono::system_clock::time_point> asked(const Uid& id) const;
  void mark_asked(const QueueFile& file);

  /// That clock, read by dating the folder, whose time means nothing. Nothing if that cannot be
  /// done.
  std::optional<std::chrono::system_clock::time_point> now();

  /// Removes a ticket, or what a newcomer left, and the mark of the last check of that id. Returns
  /// whether the file is gone.
  bool remove(const Ticket& ticket) { return remove(file(ticket)); }
  bool remove(const QueueFile& file);

  /// Removes newcomers that nobody touched since `limit`, marks of checks whose ticket is gone, and
  /// the folder if nobody is in line.
  void sweep(std::chrono::system_clock::time_point limit);

 private:
  bool is_there(const disk::SafePath& path) const;
  bool tidy();  ///< whether the folder is gone

  disk::Disk& disk_;
  Layout at_;
};

}  // namespace holdfast::lock
