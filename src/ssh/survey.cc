#include "ssh/survey.h"

#include <fcntl.h>
#include <poll.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "base/clock.h"
#include "ssh/report.h"
#include "ssh/worker.h"

namespace holdfast::ssh {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// A host name or address and nothing else: no option of ssh, no user, no word of a shell.
bool is_host(const std::string& text) {
  constexpr std::string_view kBesides = ".-_:";
  return !text.empty() && text.front() != '-' && std::all_of(text.begin(), text.end(), [&](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           kBesides.find(c) != std::string_view::npos;
  });
}

std::string in_seconds(milliseconds time) {
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(time);
  if (whole == time) return std::to_string(whole.count()) + " s";
  return std::to_string(time.count()) + " ms";
}

Reply refusal(std::string why) {
  Reply reply;
  reply.why = std::move(why);
  return reply;
}

/// A worker process and what it has told so far. Ended with its whole process group, and reaped.
class Connection {
 public:
  Connection(const Errand& errand, const Settings& settings, const Log& log, std::size_t place);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { end(); }

  std::size_t place() const { return place_; }
  int fd() const { return fd_; }
  bool is_over() const { return fd_ < 0 || reader_.is_done() || left() == nanoseconds::zero(); }
  nanoseconds left() const { return deadline().left(); }
  void read();
  Reply finish();

 private:
  const Deadline& deadline() const { return reader_.is_connected() ? total_ : connect_; }
  int end();

  const Errand& errand_;
  const Settings& settings_;
  const Log& log_;
  std::size_t place_;
  Deadline connect_;
  Deadline total_;
  ReportReader reader_;
  pid_t pid_ = -1;
  int fd_ = -1;
};

Connection::Connection(const Errand& errand, const Settings& settings, const Log& log,
                       std::size_t place)
    : errand_(errand),
      settings_(settings),
      log_(log),
      place_(place),
      connect_(real_clock(), std::min(settings.connect, settings.total)),
      total_(real_clock(), settings.total) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    reader_.reply().why = std::string("cannot make a pipe: ") + std::strerror(errno);
    return;
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) work(errand, settings, ends[1], parent);
  close(ends[1]);
  if (pid_ < 0) {
    reader_.reply().why = std::string("cannot start a process: ") + std::strerror(errno);
    close(ends[0]);
    return;
  }
  fd_ = ends[0];
}

void Connection::read() {
  std::array<char, 65536> bytes{};
  const ssize_t got = ::read(fd_, bytes.data(), bytes.size());
  if (got > 0) {
    reader_.take({bytes.data(), static_cast<std::size_t>(got)}, errand_.host, log_);
  } else if (got == 0 || errno != EINTR) {
    close(fd_);
    fd_ = -1;
  }
}

/// The wait status of the worker. It may not lead its group yet, so it is killed by itself as well.
int Connection::end() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  if (pid_ < 0) return 0;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return status;
}

Reply Connection::finish() {
  const bool is_late = fd_ >= 0 && !reader_.is_done();
  const int status = end();
  Reply reply = std::move(reader_.reply());
  if (reply.is_answered || !reply.why.empty()) return reply;
  const std::string& stage = reader_.stage();
  if (is_late) {
    const milliseconds limit =
        reader_.is_connected() ? settings_.total : std::min(settings_.connect, settings_.total);
    reply.why = "no answer within " + in_seconds(limit) + ", while " + stage;
  } else {
    reply.why =
        "the ssh worker ended by signal " + std::to_string(WTERMSIG(status)) + ", while " + stage;
  }
  return reply;
}

/// Until one of them has something to read or its time is over.
void wait_for_any(std::span<const std::unique_ptr<Connection>> running) {
  std::vector<pollfd> streams;
  streams.reserve(running.size());
  nanoseconds left = running.front()->left();
  for (const auto& connection : running) {
    streams.push_back({connection->fd(), POLLIN, 0});
    left = std::min(left, connection->left());
    if (connection->is_over()) left = nanoseconds::zero();
  }
  const auto rounded_up = std::chrono::ceil<milliseconds>(left);
  if (poll(streams.data(), streams.size(), static_cast<int>(rounded_up.count())) <= 0) return;
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].revents != 0) running[i]->read();
  }
}

}  // namespace

namespace {

bool is_foreign(const char* folder) {
  struct stat status {};
  return stat(folder, &status) == 0 && status.st_uid != geteuid();
}

}  // namespace

std::string Settings::user_state_dir() {
  // what is somebody else's (sudo keeps $HOME) is neither to be trusted nor to be written to
  const char* given = std::getenv("XDG_STATE_HOME");
  if (given && given[0] == '/' && !is_foreign(given)) return given;
  const char* home = std::getenv("HOME");
  if (home && home[0] == '/' && !is_foreign(home)) return std::string(home) + "/.local/state";
  const passwd* user = getpwuid(geteuid());
  return user ? std::string(user->pw_dir) + "/.local/state" : std::string();
}

std::string known_hosts_file(const Settings& settings) {
  return settings.state_dir + "/holdfast/known_hosts";
}

std::vector<Reply> run(std::span<const Errand> errands, const Settings& settings, const Log& log) {
  std::vector<Reply> replies(errands.size());
  std::vector<std::unique_ptr<Connection>> running;
  const std::size_t at_once = std::max<std::size_t>(settings.at_once, 1);
  running.reserve(std::min(at_once, errands.size()));
  std::size_t next = 0;
  while (next < errands.size() || !running.empty()) {
    for (; next < errands.size() && running.size() < at_once; ++next) {
      if (is_host(errands[next].host)) {
        running.push_back(std::make_unique<Connection>(errands[next], settings, log, next));
      } else {
        replies[next] = refusal("not a host name: " + one_line(errands[next].host));
      }
    }
    if (running.empty()) continue;
    wait_for_any(running);
    std::erase_if(running, [&](const std::unique_ptr<Connection>& connection) {
      if (!connection->is_over()) return false;
      replies[connection->place()] = connection->finish();
      return true;
    });
  }
  return replies;
}

}  // namespace holdfast::ssh
