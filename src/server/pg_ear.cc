#include "server/pg_ear.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <random>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;

constexpr auto kPoll = 250ms;       // of watched claims, without notices
constexpr auto kSlowPoll = 2000ms;  // with them
constexpr auto kPing = 3000ms;
constexpr auto kIdsInNotice = 300;  // 8000 bytes are the limit
constexpr std::size_t kMostUnsent = 100000;

std::string random_name() {
  std::random_device source;
  return std::to_string((static_cast<std::uint64_t>(source()) << 32U) | source());
}

}  // namespace

PgEar::PgEar(std::string conninfo, PgGate& gate, PgReads::Settle settle, Tell tell)
    : door_(std::move(conninfo), gate),
      settle_(std::move(settle)),
      tell_(std::move(tell)),
      self_(random_name()),
      event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (event_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
}

PgEar::~PgEar() {
  close(event_);
}

void PgEar::wake() const {
  const std::uint64_t one = 1;
  (void)!write(event_, &one, sizeof one);  // full: it is awake anyway
}

void PgEar::stop() {
  const std::scoped_lock lock(mutex_);
  is_stopped_ = true;
  wake();
}

void PgEar::watch(ClaimId id) {
  const std::scoped_lock lock(mutex_);
  Watched& watched = watched_[id];
  ++watched.count;
  watched.told = Status::waiting;
  fresh_.insert(id);
  wake();
}

void PgEar::unwatch(ClaimId id) {
  const std::scoped_lock lock(mutex_);
  const auto found = watched_.find(id);
  if (found != watched_.end() && --found->second.count == 0) watched_.erase(found);
}

void PgEar::changed(const std::vector<ClaimId>& ids, const std::vector<ClaimId>& untold) {
  const std::scoped_lock lock(mutex_);
  if (to_send_.size() < kMostUnsent) to_send_.insert(to_send_.end(), ids.begin(), ids.end());
  to_read_.insert(untold.begin(), untold.end());
  wake();
}

bool PgEar::is_hearing() const {
  return listening_ != nullptr && heard_ >= pinged_;
}

PgEar::Work PgEar::take_work(bool is_time_to_poll) {
  Work work;
  const std::scoped_lock lock(mutex_);
  work.to_send = std::exchange(to_send_, {});
  work.to_read = std::exchange(to_read_, {});
  work.to_poll = std::exchange(fresh_, {});
  if (is_time_to_poll) {
    for (const auto& [id, watched] : watched_) work.to_poll.insert(id);
  }
  work.pings = !watched_.empty();
  return work;
}

void PgEar::run() {
  while (true) {
    const Time now = std::chrono::steady_clock::now();
    const bool is_time_to_poll = now - polled_ >= (is_hearing() ? kSlowPoll : kPoll);
    if (is_time_to_poll) polled_ = now;
    Work work = take_work(is_time_to_poll);
    step(work);
    {
      const std::scoped_lock lock(mutex_);
      if (is_stopped_) return;
    }
    wait(kPoll);
  }
}

void PgEar::step(Work& work) {
  auto connected = door_.connection();
  std::optional<PgError> error;
  if (auto* fault = std::get_if<PgError>(&connected)) {
    error = *fault;
  } else {
    PgConnection& connection = *std::get<0>(connected);
    error = listen(connection);
    if (!error) error = send(connection, work);
    if (!error) hear(connection, work);
  }
  if (!error) {
    read(work);
    return;
  }
  listening_ = nullptr;
  const std::scoped_lock lock(mutex_);  // to be done when the database is back
  to_send_.insert(to_send_.end(), work.to_send.begin(), work.to_send.end());
  to_read_.insert(work.to_read.begin(), work.to_read.end());
  fresh_.insert(work.to_poll.begin(), work.to_poll.end());
}

std::optional<PgError> PgEar::listen(PgConnection& connection) {
  if (listening_ == &connection && listening_socket_ == connection.socket()) return std::nullopt;
  auto told = connection.run({{"LISTEN holdfast"}});
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  listening_ = &connection;
  listening_socket_ = connection.socket();
  pinged_ = {};
  heard_ = Time::min();
  return std::nullopt;
}

std::optional<PgError> PgEar::send(PgConnection& connection, const Work& work) {
  std::vector<PgStatement> statements;
  std::string payload;
  int count = 0;
  const auto put = [&] {
    statements.push_back({"SELECT pg_notify('holdfast', $1::text)", {self_ + ":" + payload}});
    payload.clear();
    count = 0;
  };
  for (const ClaimId id : work.to_send) {
    payload += std::to_string(id) + ',';
    if (++count == kIdsInNotice) put();
  }
  const Time now = std::chrono::steady_clock::now();
  const bool pings = work.pings && now - pinged_ >= kPing;
  if (pings) pinged_ = now;
  if (!payload.empty() || pings) put();
  if (statements.empty()) return std::nullopt;
  auto told = connection.run(statements);
  if (auto* error = std::get_if<PgError>(&told)) return *error;
  return std::nullopt;
}

void PgEar::hear(PgConnection& connection, Work& work) {
  for (const std::string& payload : connection.take_notices()) {
    const auto parts = split(payload, ":,", true);
    if (parts.empty()) continue;
    if (parts.front() == self_) {
      heard_ = std::chrono::steady_clock::now();
      continue;
    }
    for (std::size_t i = 1; i < parts.size(); ++i) {
      if (const auto id = to_number(parts[i])) work.to_read.insert(*id);
    }
  }
}

void PgEar::read(const Work& work) {
  std::set<ClaimId> ids = work.to_read;
  ids.insert(work.to_poll.begin(), work.to_poll.end());
  if (ids.empty()) return;
  const std::vector<ClaimId> wanted(ids.begin(), ids.end());
  auto told = door_.with<PgLooked<std::vector<View>>>(
      [&](PgConnection& connection) { return PgReads(connection, settle_).claims(wanted); });
  const auto* looked = std::get_if<0>(&told);
  std::vector<View> news;
  {
    const std::scoped_lock lock(mutex_);
    if (looked == nullptr) {
      to_read_.insert(work.to_read.begin(), work.to_read.end());
      fresh_.insert(work.to_poll.begin(), work.to_poll.end());
      return;
    }
    for (const View& view : looked->value) {
      const auto watched = watched_.find(view.claim.id);
      const bool is_news = watched != watched_.end() && watched->second.told != view.claim.status;
      if (!is_news && work.to_read.count(view.claim.id) == 0) continue;
      if (watched != watched_.end()) watched->second.told = view.claim.status;
      news.push_back(view);
    }
  }
  if (!news.empty()) tell_(std::move(news), looked->now);
}

void PgEar::wait(std::chrono::milliseconds most) {
  PgConnection& connection = door_.opened();
  const int socket = listening_ != nullptr && connection.is_usable() ? connection.socket() : -1;
  std::array<pollfd, 2> both{pollfd{event_, POLLIN, 0}, pollfd{socket, POLLIN, 0}};
  (void)poll(both.data(), both.size(), static_cast<int>(most.count()));
  std::uint64_t count = 0;
  (void)!::read(event_, &count, sizeof count);  // empty: it was the socket, or the time
}

}  // namespace holdfast::server
