#include "lock/tickets.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "base/text.h"

namespace holdfast::lock {

using disk::Handle;

namespace {

constexpr int kRetryLimit = 32;
constexpr std::size_t kDigits = 10;
constexpr std::uint64_t kHighest = 9'999'999'999;
constexpr std::size_t kLongestText = 64 << 10;

std::optional<Ticket> parse_ticket(const std::string& name) {
  if (name.size() < kDigits + 4 || name[kDigits] != '.' || name[kDigits + 2] != '.') {
    return std::nullopt;
  }
  const auto number = to_number(std::string_view(name).substr(0, kDigits));
  const char mode = name[kDigits + 1];
  if (!number || (mode != 'r' && mode != 'w')) return std::nullopt;
  return Ticket{*number, mode == 'r' ? Mode::shared : Mode::exclusive,
                Uid::found(name.substr(kDigits + 3))};
}

bool is_passing(std::error_code ec) {
  return ec == std::errc::no_such_file_or_directory || ec == std::errc::file_exists ||
         ec == std::errc::interrupted || ec == std::error_code(ESTALE, std::generic_category());
}

}  // namespace

std::string Ticket::name() const {
  const std::string digits = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, digits.size()), '0') + digits +
         (mode == Mode::shared ? ".r." : ".w.") + id.str();
}

bool is_before(const Ticket& a, const Ticket& b) {
  return std::tie(a.number, a.id, a.mode) < std::tie(b.number, b.id, b.mode);
}

std::vector<Ticket> Tickets::list(std::error_code& ec, std::vector<QueueFile>* newcomers) const {
  std::vector<disk::Entry> entries;
  ec = disk_.list_kinds(at_.queue(), entries);
  if (ec == std::errc::no_such_file_or_directory) ec.clear();
  std::vector<Ticket> tickets;
  tickets.reserve(entries.size());
  for (const auto& [name, kind] : entries) {
    // in these nobody can read who waits, and not all can be taken out
    if (kind == disk::Kind::dir || kind == disk::Kind::symlink) continue;
    if (auto ticket = parse_ticket(name)) tickets.push_back(std::move(*ticket));
    auto newcomer = newcomers ? Layout::newcomer(name) : std::nullopt;
    if (newcomer) newcomers->push_back({std::move(*newcomer), at_.queue() / name});
  }
  std::sort(tickets.begin(), tickets.end(), is_before);
  return tickets;
}

std::optional<Ticket> Tickets::take(const Uid& id, Mode mode, const std::string& text,
                                    std::error_code& ec) {
  for (int tries = 0; tries < kRetryLimit; ++tries) {
    Handle queue;
    Handle file;
    const std::error_code made = disk::make_dirs(disk_, at_.queue());
    ec = disk_.open_dir(at_.queue(), queue);
    if (ec && made && made != std::errc::file_exists) ec = made;
    const disk::At newcomer = Layout::newcomer(queue, id);
    if (!ec) ec = disk_.create(newcomer, file);
    // of one that was killed, or ours, and the reply was lost
    if (ec && queue.is_open()) (void)disk_.unlink(newcomer);
    if (!ec) ec = disk_.write(file, text);
    if (file.is_open()) {
      const std::error_code closed = disk_.close(file);
      if (!ec) ec = closed;
      if (ec) (void)disk_.unlink(newcomer);
    }
    if (!ec) {
      const std::vector<Ticket> others = list(ec);
      const Ticket ticket{others.empty() ? 1 : others.back().number + 1, mode, id};
      if (ticket.number > kHighest) ec = std::make_error_code(std::errc::value_too_large);
      if (!ec) ec = disk_.rename(newcomer, {queue, ticket.name()});
      disk::Status status;
      if (!ec || !disk_.status(path(ticket), status)) {  // its reply may have been lost
        ec.clear();
        return ticket;
      }
      (void)disk_.unlink(newcomer);
    }
    if (!is_passing(ec)) break;
  }
  tidy();
  return std::nullopt;
}

std::optional<Ticket> Tickets::move_back(const Ticket& ticket, const Ticket& other) {
  std::error_code ec;
  const std::vector<Ticket> all = list(ec);
  Ticket last = ticket;
  last.number = std::max(other.number, all.empty() ? 0 : all.back().number) + 1;
  if (ec || last.number > kHighest) return std::nullopt;
  if (!disk_.rename(path(ticket), path(last)) || !is_there(ticket)) return last;
  return std::nullopt;
}

bool Tickets::is_there(const Ticket& ticket) const {
  return is_there(path(ticket));
}

bool Tickets::is_there(const disk::SafePath& path) const {
  disk::Status status;
  return disk_.status(path, status) != std::errc::no_such_file_or_directory;
}

std::optional<std::string> Tickets::text(const QueueFile& file, std::error_code& ec) const {
  Handle open;
  std::string text;
  ec = disk_.open_file(file.path, open);
  if (!ec) ec = disk_.read(open, text, kLongestText);
  if (ec) return std::nullopt;
  return text;
}

std::optional<std::chrono::system_clock::time_point> Tickets::time(const QueueFile& file) const {
  disk::Status status;
  if (disk_.status(file.path, status)) return std::nullopt;
  return status.modified;
}

void Tickets::renew(const Ticket& ticket) {
  (void)disk_.touch(path(ticket));  // if it is gone, the next listing shows that
}

std::optional<std::chrono::system_clock::time_point> Tickets::asked(const Uid& id) const {
  disk::Status status;
  if (disk_.status(at_.asked(id), status)) return std::nullopt;
  return status.modified;
}

void Tickets::mark_asked(const QueueFile& file) {
  const disk::SafePath mark = at_.asked(file.id);
  if (disk_.touch(mark) != std::errc::no_such_file_or_directory) return;
  Handle made;
  if (disk_.create(mark, made)) return;  // without it others ask too
  (void)disk_.close(made);
  if (!is_there(file.path)) (void)disk_.unlink(mark);  // its waiter left, and looked for no mark
}

std::optional<std::chrono::system_clock::time_point> Tickets::now() {
  disk::Status status;
  if (disk_.touch(at_.queue()) || disk_.status(at_.queue(), status)) return std::nullopt;
  return status.modified;
}

bool Tickets::remove(const QueueFile& file) {
  bool is_gone = false;
  for (int tries = 0; !is_gone && tries < kRetryLimit; ++tries) {
    const std::error_code ec = disk_.unlink(file.path);
    is_gone = !ec || !is_there(file.path);
  }
  if (!tidy() && !disk_.unlink(at_.asked(file.id))) tidy();
  return is_gone;
}

void Tickets::sweep(std::chrono::system_clock::time_point limit) {
  std::vector<std::string> names;
  Handle queue;
  if (disk_.list(at_.queue(), names) || disk_.open_dir(at_.queue(), queue)) return;
  std::set<Uid> waiting;
  for (const std::string& name : names) {
    if (auto ticket = parse_ticket(name)) waiting.insert(std::move(ticket->id));
  }
  for (const std::string& name : names) {
    disk::Status status;
    const auto id = Layout::asked_about(name);
    if (id && !waiting.contains(*id)) (void)disk_.unlink({queue, name});
    if (!Layout::newcomer(name) || disk_.status({queue, name}, status)) continue;
    if (status.modified <= limit) (void)disk_.unlink({queue, name});
  }
  tidy();
}

bool Tickets::tidy() {
  const std::error_code ec = disk_.remove_dir(at_.queue());
  if (!ec) (void)disk_.remove_dir(at_.lock());
  return !ec || ec == std::errc::no_such_file_or_directory;
}

}  // namespace holdfast::lock
