/// load - many keep-alive connections against servers on loopback, on one thread, and as cheap as
/// it can be: it shares the machine with what it measures.
///
///   load run MODE PORT CONNECTIONS SECONDS
///       Prints, a line each: how many per second, and the 50th and 99th percentile of their times
///       in microseconds. MODE:
///         hello   GET /
///         cycle   POST a claim, PATCH it to released; each connection has a resource of its own
///         renew   PATCH ttl of a claim that each connection has made before
///         list    GET the active claims of one resource
///   load compare ROUNDS CONNECTIONS SECONDS NAME MODE PORT [NAME MODE PORT]...
///       The same side by side: in each round every candidate gets its turn, so that a noisy
///       machine disturbs all alike. Prints per candidate its rate, the ratio of that to the first
///       one's (the median of the rounds, and their 10th and 90th percentile), and how far the 99th
///       percentile of its times is from the 50th.
///   load fill PORT CLAIMS RESOURCES
///       Makes so many claims that wait, spread over so many resources, and one on each that is
///       active.

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using Seconds = std::chrono::duration<double>;

[[noreturn]] void give_up(std::string_view why, std::string_view about = {}) {
  std::fprintf(stderr, "load: %.*s\n%.*s\n", static_cast<int>(why.size()), why.data(),
               static_cast<int>(about.size()), about.data());
  std::exit(1);
}

std::string request(std::string_view method, std::string_view path, std::string_view body = {}) {
  std::string text(method);
  text += ' ';
  text += path;
  text += " HTTP/1.1\r\nHost: 127.0.0.1\r\n";
  if (!body.empty()) {
    text += "Content-Type: application/json\r\nContent-Length: ";
    text += std::to_string(body.size());
    text += "\r\n";
  }
  text += "\r\n";
  text += body;
  return text;
}

std::string new_claim(const std::string& resource) {
  return request("POST", "/v1/claims/", R"({"resource": ")" + resource + R"(", "ttl": 3600})");
}

/// Sends one request at a time, and tells the reply to it.
class Connection {
 public:
  explicit Connection(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<std::uint16_t>(port));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<const sockaddr*>(&where), sizeof where) != 0) {
      give_up("cannot connect");
    }
    const int yes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() { close(fd_); }

  int fd() const { return fd_; }

  void send(std::string_view text) {
    in_.clear();
    const ssize_t sent = ::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
    if (sent != static_cast<ssize_t>(text.size())) give_up("a request was not taken");
  }

  /// Reads what is there; true when the reply is whole.
  bool receive() {
    static std::array<char, 65536> buffer;
    const ssize_t size = recv(fd_, buffer.data(), buffer.size(), 0);
    if (size <= 0) give_up("the server closed a connection", in_);
    in_.append(buffer.data(), static_cast<std::size_t>(size));
    const std::size_t head = in_.find("\r\n\r\n");
    if (head == std::string::npos) return false;
    const auto length = field("Content-Length: ");
    const std::size_t body =
        length ? static_cast<std::size_t>(std::atoll(std::string(*length).c_str())) : 0;
    return in_.size() >= head + 4 + body;
  }

  std::string ask(std::string_view text, std::string_view status) {
    send(text);
    while (!receive()) continue;
    expect(status);
    return in_;
  }

  void expect(std::string_view status) const {
    if (std::string_view(in_).substr(9, 3) != status) give_up("an unexpected reply", in_);
  }

  /// Of the claim that was just made: "/v1/claims/4711/".
  std::string claim_path() const {
    const auto location = field("Location: http://");
    if (!location) give_up("a reply without Location", in_);
    return std::string(location->substr(location->find('/')));
  }

 private:
  std::optional<std::string_view> field(std::string_view name) const {
    const std::size_t at = in_.find(name);
    if (at == std::string::npos) return std::nullopt;
    const std::size_t begin = at + name.size();
    return std::string_view(in_).substr(begin, in_.find('\r', begin) - begin);
  }

  int fd_;
  std::string in_;
};

/// What one connection does over and over.
class Client {
 public:
  Client(int port, std::string resource) : line(port), resource_(std::move(resource)) {}
  virtual ~Client() = default;

  virtual void begin() = 0;  ///< sends the first request
  virtual bool next() = 0;   ///< after a reply: sends what follows, or true if it was the last
  virtual void end() {}      ///< what was made is ended

  Connection line;
  Time started;

 protected:
  std::string resource_;
};

/// One request, again and again.
class Repeated : public Client {
 public:
  Repeated(int port, std::string resource, std::string text)
      : Client(port, std::move(resource)), text_(std::move(text)) {}

  void begin() override { line.send(text_); }
  bool next() override {
    line.expect("200");
    return true;
  }

 protected:
  std::string text_;
};

class Renew : public Repeated {
 public:
  Renew(int port, const std::string& resource) : Repeated(port, resource, {}) {
    line.ask(new_claim(resource), "201");
    path_ = line.claim_path();
    text_ = request("PATCH", path_, R"({"ttl": 3600})");
  }
  void end() override { line.ask(request("PATCH", path_, R"({"status": "released"})"), "204"); }

 private:
  std::string path_;
};

class Cycle : public Client {
 public:
  Cycle(int port, std::string resource)
      : Client(port, std::move(resource)), post_(new_claim(resource_)) {}

  void begin() override { line.send(post_); }
  bool next() override {
    line.expect(is_held_ ? "204" : "201");
    if (!is_held_) {
      line.send(request("PATCH", line.claim_path(), R"({"status": "released"})"));
    }
    is_held_ = !is_held_;
    return !is_held_;
  }

 private:
  std::string post_;
  bool is_held_ = false;
};

std::unique_ptr<Client> make_client(std::string_view mode, int port, int number) {
  std::string resource = "bench-" + std::to_string(getpid()) + "-" + std::to_string(number);
  if (mode == "hello") return std::make_unique<Repeated>(port, resource, request("GET", "/"));
  if (mode == "cycle") return std::make_unique<Cycle>(port, resource);
  if (mode == "renew") return std::make_unique<Renew>(port, resource);
  if (mode == "list") {
    const std::string path = "/v1/claims/?status=active&resource=" + resource;
    return std::make_unique<Repeated>(port, resource, request("GET", path));
  }
  give_up("no such mode", mode);
}

double percentile(const std::vector<double>& sorted, std::size_t which) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * which / 100)];
}

struct Result {
  double rate = 0;  ///< per second
  double p50 = 0, p99 = 0;
};

/// The first part is not counted: connections, caches and the disk's queue are warm then.
Result run(std::string_view mode, int port, int connections, Seconds seconds) {
  const int poll = epoll_create1(EPOLL_CLOEXEC);
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < connections; ++i) clients.push_back(make_client(mode, port, i));
  for (const auto& client : clients) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.ptr = client.get();
    epoll_ctl(poll, EPOLL_CTL_ADD, client->line.fd(), &event);
    client->started = Clock::now();
    client->begin();
  }
  const Time counted_from = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds / 5);
  const Time until = counted_from + std::chrono::duration_cast<Clock::duration>(seconds);
  std::vector<double> times;
  times.reserve(1000000);
  std::array<epoll_event, 64> events{};
  for (int busy = connections; busy > 0;) {
    const int count = epoll_wait(poll, events.data(), events.size(), 10000);
    if (count <= 0) give_up("no reply for ten seconds");
    for (int i = 0; i < count; ++i) {
      auto& client = *static_cast<Client*>(events.at(static_cast<std::size_t>(i)).data.ptr);
      if (!client.line.receive() || !client.next()) continue;
      const Time now = Clock::now();
      if (now >= counted_from && now < until) {
        times.push_back(Seconds(now - client.started).count() * 1e6);
      }
      if (now < until) {
        client.started = now;
        client.begin();
      } else {
        --busy;
      }
    }
  }
  for (const auto& client : clients) client->end();
  close(poll);
  if (times.empty()) give_up("nothing was done in that time");
  std::sort(times.begin(), times.end());
  return {static_cast<double>(times.size()) / seconds.count(), percentile(times, 50),
          percentile(times, 99)};
}

void run_once(char** words) {
  const Result result =
      run(words[0], std::atoi(words[1]), std::atoi(words[2]), Seconds(std::atof(words[3])));
  std::printf("per_second %.0f\np50_us %.0f\np99_us %.0f\n", result.rate, result.p50, result.p99);
}

struct Candidate {
  std::string name, mode;
  int port = 0;
  std::vector<Result> results;
};

/// Of one figure of each round.
template <class Figure>
std::vector<double> sorted(std::size_t rounds, Figure figure) {
  std::vector<double> values;
  for (std::size_t i = 0; i < rounds; ++i) values.push_back(figure(i));
  std::sort(values.begin(), values.end());
  return values;
}

void compare(int rounds, int connections, Seconds seconds, std::vector<Candidate> all) {
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Candidate& candidate = all[(i + static_cast<std::size_t>(round)) % all.size()];
      candidate.results.push_back(run(candidate.mode, candidate.port, connections, seconds));
    }
  }
  const std::vector<Result>& first = all.front().results;
  for (const Candidate& candidate : all) {
    const std::vector<Result>& results = candidate.results;
    const auto rates = sorted(results.size(), [&](std::size_t i) { return results[i].rate; });
    const auto ratios =
        sorted(results.size(), [&](std::size_t i) { return results[i].rate / first[i].rate; });
    const auto tails =
        sorted(results.size(), [&](std::size_t i) { return results[i].p99 / results[i].p50; });
    std::printf("%-46s %8.0f /s   %6.2f x   (%.2f .. %.2f)   p99/p50 %.1f (%.1f .. %.1f)\n",
                candidate.name.c_str(), percentile(rates, 50), percentile(ratios, 50),
                percentile(ratios, 10), percentile(ratios, 90), percentile(tails, 50),
                percentile(tails, 10), percentile(tails, 90));
  }
}

void compare_all(int argc, char** argv) {
  std::vector<Candidate> candidates;
  for (int i = 5; i + 2 < argc; i += 3) {
    candidates.push_back({argv[i], argv[i + 1], std::atoi(argv[i + 2]), {}});
  }
  if (candidates.empty()) give_up("compare needs candidates");
  compare(std::atoi(argv[2]), std::atoi(argv[3]), Seconds(std::atof(argv[4])),
          std::move(candidates));
}

void fill(int port, int claims, int resources) {
  constexpr int kConnections = 64;  // so that many share a commit
  std::vector<std::unique_ptr<Connection>> lines;
  for (int i = 0; i < kConnections; ++i) lines.push_back(std::make_unique<Connection>(port));
  for (int done = 0; done < claims + resources; done += kConnections) {
    const int together = std::min(kConnections, claims + resources - done);
    for (int i = 0; i < together; ++i) {
      lines[static_cast<std::size_t>(i)]->send(
          new_claim("queue-" + std::to_string((done + i) % resources)));
    }
    for (int i = 0; i < together; ++i) {
      Connection& line = *lines[static_cast<std::size_t>(i)];
      while (!line.receive()) continue;
      line.expect(done + i < resources ? "201" : "202");
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (what == "run" && argc == 6) {
    run_once(argv + 2);
  } else if (what == "compare" && argc >= 8) {
    compare_all(argc, argv);
  } else if (what == "fill" && argc == 5) {
    fill(std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
  } else {
    give_up("load run|compare|fill ...: see the head of load.cc");
  }
}
