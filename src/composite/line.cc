#include "composite/line.h"

#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "base/text.h"
#include "identity/local_id.h"

namespace holdfast::composite {

using identity::Life;
using lock::Answer;
using lock::Mode;
using lock::Outcome;
using lock::Ticket;
using namespace std::chrono_literals;

namespace {

/// With everything watched, a look in vain from time to time costs less than a call a second.
constexpr std::chrono::nanoseconds kBackstop = 30s;
constexpr std::chrono::nanoseconds kFirstPause = 10ms;
constexpr std::chrono::nanoseconds kLongestPause = 2s;

std::minstd_rand& random() {
  static thread_local std::minstd_rand numbers{std::random_device{}()};
  return numbers;
}

/// What a ticket says: the record of who is to hold, then id and record of who waits.
struct Says {
  std::optional<Record> holder;
  std::optional<Uid> waiter_id;
  std::optional<Record> waiter;
};

Says parse(const std::string& text) {
  Says says;
  const auto lines = split(text, "\n", false);
  if (!lines.empty()) says.holder = parse_record(lines[0]);
  if (lines.size() > 2 && !lines[1].empty()) {
    says.waiter_id = Uid::found(std::string(lines[1]));
    says.waiter = parse_record(lines[2]);
  }
  return says;
}

}  // namespace

void watch_holders(const lock::FastLock& lock, const Holder& who_waits, disk::Watch& watch) {
  lock.watch(watch);
  std::error_code ec;  // the attempt tells
  for (const lock::Leaf& leaf : lock.owner(ec)) {
    if (leaf.id == who_waits.self.uid) continue;
    if (who_waits.can_see(leaf.record)) {
      watch.on_exit(static_cast<pid_t>(leaf.record->pid));
    } else {
      watch.on_unseen();
    }
  }
}

Line::Line(disk::Disk& disk, const disk::SafePath& lock, const Holder& holder, Order order)
    : holder_(holder), order_(order), tickets_(disk, lock::Layout(lock)) {}

/// One who tries. It leaves without what the goal had so far, unless that is all, and then the
/// line; also if an exception comes out.
class Line::Place {
 public:
  Place(lock::Tickets& tickets, Goal& goal) : tickets_(tickets), goal_(goal) {}
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  ~Place() {
    if (!has_left_) leave(false);
  }

  void leave(bool with_all) {
    has_left_ = true;
    if (!with_all) goal_.yield();  // before the next one has its turn
    if (own) tickets_.remove(*own);
  }

  std::optional<Ticket> own;

 private:
  lock::Tickets& tickets_;
  Goal& goal_;
  bool has_left_ = false;
};

Answer Line::stand(Mode mode, const Patience& patience, Goal& goal) {
  was_stopped_ = false;
  Place place(tickets_, goal);
  Answer answer = stand(mode, patience, goal, place.own);
  place.leave(answer.outcome == Outcome::held);
  return answer;
}

Answer Line::stand(Mode mode, const Patience& patience, Goal& goal, std::optional<Ticket>& own) {
  std::error_code unseen;
  const bool may_try = order_ == Order::barge || !has_line(unseen);
  Answer answer{Outcome::contended, "others wait in line"};
  if (unseen && patience.is_none()) {
    answer = {Outcome::failed,
              "cannot look into " + tickets_.folder().native() + ": " + unseen.message()};
  }
  if (may_try) answer = goal.try_once();
  // with patience, the wait sees it
  was_stopped_ =
      answer.outcome == Outcome::contended && patience.is_none() && patience.is_stopped();
  if (answer.outcome == Outcome::contended) {
    if (auto no = goal.objection()) answer = std::move(*no);
  }
  if (answer.outcome != Outcome::contended || patience.is_none()) return answer;
  return wait_for_turn(mode, patience, goal, own);
}

/// Whether anybody waits whose ticket counts.
bool Line::has_line(std::error_code& ec) {
  std::vector<lock::QueueFile> newcomers;
  const std::vector<Ticket> tickets = tickets_.list(ec, &newcomers);
  sweep(newcomers);
  for (const Ticket& ticket : tickets) {
    const lock::QueueFile file = tickets_.file(ticket);
    if (!is_due(file) || !is_lost(file, holder_.ticket_times.limit)) return true;
    tickets_.remove(file);
  }
  return static_cast<bool>(ec);
}

void Line::sweep() {
  std::error_code ec;  // what cannot be seen stays
  std::vector<lock::QueueFile> newcomers;
  (void)tickets_.list(ec, &newcomers);
  sweep(newcomers);
}

/// Most newcomers are alive and will be gone soon, and many may arrive at once. So each caller
/// judges two of them, any two. A living one whose file is removed makes another.
void Line::sweep(const std::vector<lock::QueueFile>& newcomers) {
  constexpr std::size_t kMostChecks = 2;
  std::vector<lock::QueueFile> some;
  std::sample(newcomers.begin(), newcomers.end(), std::back_inserter(some), kMostChecks, random());
  for (const lock::QueueFile& file : some) {
    if (is_due(file) && is_lost(file, holder_.ticket_times.limit)) tickets_.remove(file);
  }
}

Answer Line::wait_for_turn(Mode mode, const Patience& patience, Goal& goal,
                           std::optional<Ticket>& own) {
  const Deadline told(real_clock(), 1s);
  Answer answer{Outcome::contended, {}};
  std::optional<Ticket> missed;  // listed, and not there
  std::optional<Deadline> renewal;
  for (int looks = 0;; ++looks) {
    if (own && renewal->passed()) {
      tickets_.renew(*own);
      renewal.emplace(real_clock(), holder_.ticket_times.renewal);
    }
    std::error_code ec;
    bool is_outdated = false;
    bool is_in_line = own.has_value();
    std::vector<Ticket> before;
    if (own) before = blockers(*own, is_in_line);
    if (!is_in_line && order_ != Order::barge) {
      if (own) leave_lost_place(goal, *own);
      own = tickets_.take(holder_.self.uid, mode, text(), ec);
      if (!own) {
        return {Outcome::failed,
                "cannot get in line in " + tickets_.folder().native() + ": " + ec.message()};
      }
      renewal.emplace(real_clock(), holder_.ticket_times.renewal);
      before = blockers(*own, is_in_line);
    }
    watch_.clear();
    if (is_holder_dead()) {
      answer = {Outcome::failed, "process " + holder_.self.uid.str() + " is not running any more"};
      break;
    }
    if (!before.empty()) {
      goal.yield();
      let_pass(before, *own);
      is_outdated = !watch_line(before, missed);
    } else {
      goal.watch(watch_);
      answer = goal.try_once();
      if (answer.outcome != Outcome::contended) break;
      if (own && goal.has_part()) {
        is_outdated = !blockers(*own, is_in_line).empty() || !is_in_line;
      }
    }
    if (!is_outdated && patience.is_over()) break;
    if (tell_ && told.passed()) std::exchange(tell_, nullptr)();
    auto longest = is_outdated ? 0ns : std::min(patience.left(), pause(looks));
    if (tell_) longest = std::min(longest, told.left());
    if (own) longest = std::min(longest, renewal->left());
    const auto woken = watch_.wait(longest, patience.stop());
    if (woken == disk::Watch::Woken::stopped) {
      was_stopped_ = true;
      break;
    }
    if (woken == disk::Watch::Woken::late) continue;
    looks = 0;
    if (is_outdated) continue;
    if (woken == disk::Watch::Woken::changed && before.empty() && !gives_way(mode)) {
      answer = goal.try_once();
      if (answer.outcome != Outcome::contended) break;
    }
  }
  return answer;
}

/// The waiter gives back what it has before it queues again: two of them that each keep a part
/// could wait for each other.
void Line::leave_lost_place(Goal& goal, const Ticket& lost) {
  goal.yield();
  tickets_.remove(lost);  // a listing that missed it would let us wait for ourselves
  holder_.log.warn(
      "{}: the place of {} in the queue was given up, because nobody could tell that it "
      "still waits; it queues again at the end",
      tickets_.folder().parent().native(), lost.id.str());
}

/// Whether others may still come before one who had its turn.
bool Line::gives_way(Mode mode) const {
  return order_ == Order::prefer_writers && mode == Mode::shared;
}

/// Who waits for another process need not, once that one is dead. Its end wakes us.
bool Line::is_holder_dead() {
  const Record& self = holder_.self.record;
  const bool is_another = holder_.self.uid != holder_.waiter.uid;
  if (!is_another || !holder_.can_see(self)) return false;
  watch_.on_exit(static_cast<pid_t>(self.pid));
  return identity::LocalId(disk::posix()).check(holder_.self.uid, self).life == Life::dead;
}

/// Those we must let go first; the one next before us is the last. Later ones only if no other is
/// left.
std::vector<Ticket> Line::blockers(const Ticket& own, bool& is_in_line) const {
  std::error_code ec;
  std::vector<Ticket> before;
  is_in_line = false;
  for (Ticket& ticket : tickets_.list(ec)) {
    if (ticket == own) {
      is_in_line = true;
      if (!gives_way(own.mode) || !before.empty()) break;
      continue;
    }
    const bool is_writer = ticket.mode == Mode::exclusive;
    const bool counts = own.mode == Mode::shared          ? is_writer
                        : order_ == Order::prefer_writers ? is_writer
                                                          : true;
    if (counts) before.push_back(std::move(ticket));
  }
  if (ec) is_in_line = true;  // not to be seen is not gone
  return before;
}

/// A later one may wait for us, as it does not see what we prefer: it must not find us before it.
void Line::let_pass(const std::vector<Ticket>& before, Ticket& own) {
  if (lock::is_before(before.back(), own)) return;
  if (auto last = tickets_.move_back(own, before.back())) {
    own = std::move(*last);
  } else {
    watch_.on_unseen();
  }
}

/// Gets ready to sleep for the last of those before us. False if there is a reason to list anew
/// first: each can be met only so often.
bool Line::watch_line(std::vector<Ticket>& before, std::optional<Ticket>& missed) {
  watch_processes(before.back());
  if (remove_dead(before)) return false;
  watch_.on_removal(tickets_.path(before.back()).whole());
  if (tickets_.is_there(before.back())) return true;
  // a listing that shows it again is an old one, of a network filesystem
  return std::exchange(missed, before.back()) == before.back();
}

/// From the one next before us up to one that lives: one look at the line for all of them, or
/// thousands of dead would cost the square of their number. True if any went.
bool Line::remove_dead(std::vector<Ticket>& before) {
  const std::size_t count = before.size();
  const auto limit = holder_.ticket_times.limit;
  const auto is_gone = [&](const lock::QueueFile& file) {
    return is_due(file) && is_lost(file, limit);
  };
  while (!before.empty() && is_gone(tickets_.file(before.back()))) {
    if (!tickets_.remove(before.back())) {
      watch_.clear();  // its end would wake us again and again
      watch_.on_unseen();
      break;
    }
    before.pop_back();
  }
  return before.size() < count;
}

/// Cheap checks may be made at any time. A slow one waits until the waiter gave no sign for a grace
/// period and nobody had it checked for one. It is made once more when the ticket reaches the
/// limit, however long the grace is. A time in the future counts as old: a clock was set back. The
/// filesystem is only asked for its time if this host's clock says so too; that delays a check by a
/// grace period at most, however wrong the clock is.
bool Line::is_due(const lock::QueueFile& file) {
  if (!has_grace()) return true;
  const auto renewed = tickets_.time(file);
  if (!renewed) return false;
  const auto asked = tickets_.asked(file.id);
  const auto is_due_at = [&](std::chrono::system_clock::time_point now) {
    const auto is_old = [&](auto time, auto age) { return time > now || time <= now - age; };
    const auto limit = holder_.ticket_times.limit;
    if (*renewed <= now - limit && (!asked || *asked < *renewed + limit)) return true;
    return is_old(*renewed, *holder_.grace) && (!asked || is_old(*asked, *holder_.grace));
  };
  const auto here = real_clock().wall();
  return is_due_at(here) && is_due_at(tickets_.now().value_or(here));
}

/// Whether the ticket counts no longer.
bool Line::is_lost(const lock::QueueFile& file, std::chrono::seconds limit) {
  switch (judge(file)) {
    case Life::alive:
      return false;
    case Life::dead:
      holder_.log.info("{} is dead and leaves the queue", file.id.str());
      return true;
    case Life::unknown:
      break;
  }
  if (is_renewed(file, limit)) return false;
  holder_.log.info(
      "{} leaves the queue: nobody can tell whether it is alive, and it did not renew its "
      "ticket for {} s",
      file.id.str(), limit.count());
  return true;
}

/// Dead if either process is; else what is known of the process that waits, because that one renews
/// the ticket.
Life Line::judge(const lock::QueueFile& file) {
  std::error_code ec;
  const auto text = tickets_.text(file, ec);
  if (ec == std::errc::no_such_file_or_directory) return Life::alive;  // there is nothing to remove
  const Says says = parse(text.value_or(""));
  if (has_grace()) tickets_.mark_asked(file);
  std::optional<Life> waiter;
  if (says.waiter_id) {
    waiter = WaiterChecker(holder_).check(*says.waiter_id, says.waiter).life;
    if (waiter == Life::dead) return Life::dead;
  }
  const Life holder = holder_.checker->check(file.id, says.holder).life;
  return holder == Life::dead ? holder : waiter.value_or(holder);
}

/// Whether that was within `limit`. Both times are the filesystem's: clocks of hosts differ.
/// Returns true if that clock cannot be read. A time far in the future counts as old: the clock was
/// set back, and a living waiter would have renewed its ticket since.
bool Line::is_renewed(const lock::QueueFile& file, std::chrono::seconds limit) {
  const auto renewed = tickets_.time(file);
  const auto now = tickets_.now();
  return !renewed || !now || std::chrono::abs(*now - *renewed) < limit;
}

void Line::watch_processes(const Ticket& ticket) {
  std::error_code ec;
  const Says says = parse(tickets_.text(tickets_.file(ticket), ec).value_or(""));
  watch_process(says.waiter);
  watch_process(says.holder);
}

void Line::watch_process(const std::optional<Record>& record) {
  if (holder_.can_see(record)) {
    watch_.on_exit(static_cast<pid_t>(record->pid));
  } else {
    watch_.on_unseen();
  }
}

/// A jittered one that grows, where somebody has to be looked at.
std::chrono::nanoseconds Line::pause(int looks) const {
  if (!watch_.is_blind() && !holder_.grace) return kBackstop;
  const auto grown = std::min(kLongestPause, kFirstPause * (1 << std::min(looks, 10)));
  std::uniform_int_distribution<std::chrono::nanoseconds::rep> jitter(grown.count() / 2,
                                                                      grown.count());
  return std::chrono::nanoseconds(jitter(random()));
}

std::string Line::text() const {
  return to_line(holder_.self.record) + holder_.waiter.uid.str() + "\n" +
         to_line(holder_.waiter.record);
}

std::vector<Waiter> Line::waiters(disk::Disk& disk, const disk::SafePath& lock) {
  const lock::Tickets tickets(disk, lock::Layout(lock));
  std::error_code ec;
  std::vector<Waiter> waiters;
  for (Ticket& ticket : tickets.list(ec)) {
    std::error_code unread;
    const lock::QueueFile file = tickets.file(ticket);
    const auto time = tickets.time(file);
    const auto text = tickets.text(file, unread);
    if (!time || unread == std::errc::no_such_file_or_directory) continue;  // gone meanwhile
    const Says says = parse(text.value_or(""));
    const auto arrived = says.waiter ? parse_since(says.waiter->since) : std::nullopt;
    const auto age = real_clock().wall() - arrived.value_or(*time);
    waiters.push_back({std::move(ticket),
                       std::max(std::chrono::seconds::zero(),
                                std::chrono::duration_cast<std::chrono::seconds>(age)),
                       says.holder});
  }
  if (ec) throw std::system_error(ec, "cannot look at the line of " + lock.native());
  return waiters;
}

bool Line::clean(std::chrono::seconds age, std::optional<std::chrono::seconds> unknown) {
  std::error_code ec;
  const std::chrono::seconds limit = unknown.value_or(holder_.ticket_times.limit);
  for (const Ticket& ticket : tickets_.list(ec)) {
    if (is_lost(tickets_.file(ticket), limit)) tickets_.remove(ticket);
  }
  tickets_.sweep(real_clock().wall() - age);
  return !ec && tickets_.list(ec).empty() && !ec;
}

}  // namespace holdfast::composite
