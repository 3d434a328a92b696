#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "event/watch.h"
#include "http/server.h"
#include "proof/fuzz/surface.h"
#include "routes/api.h"
#include "routes/loop_scheduler.h"
#include "server/audit.h"
#include "server/store.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;

/// What the first bytes of an input ask for.
struct Scenery {
  bool has_tokens = false;
  bool is_kept = false;  ///< in SQLite

  static Scenery taken_from(std::string_view& bytes) {
    Scenery scenery;
    if (bytes.starts_with('#')) {
      scenery.has_tokens = true;
      bytes.remove_prefix(1);
    }
    if (bytes.starts_with('$')) {
      scenery.is_kept = true;
      bytes.remove_prefix(1);
    }
    return scenery;
  }
};

/// A file of this process, in memory if that can be, since SQLite syncs.
std::string file_name(const std::string& end) {
  static const std::string folder = std::filesystem::exists("/dev/shm") ? "/dev/shm" : "/tmp";
  return folder + "/holdfast-fuzz-" + std::to_string(getpid()) + end;
}

std::shared_ptr<const routes::Tokens> load_tokens() {
  const std::string file = file_name(".tokens");
  const std::string salt(64, '0');
  const std::string hash = "99a2f238221a5819b19206fe9e0589fb354e22c7d308c4d3d2d67fae5a69960c";
  std::ofstream out(file);
  for (const char* line : {"reader read -", "worker claim -", "boss admin -", "late admin 1"})
    out << line << ' ' << salt << ' ' << hash << '\n';
  out.close();
  const auto loaded = routes::Tokens::load(file);
  std::filesystem::remove(file);
  const auto* tokens = std::get_if<routes::Tokens>(&loaded);
  demand(tokens != nullptr, "the tokens can be read");
  demand(tokens->find("boss.s", 1s).has_value(), "the secret is the letter s");
  return std::make_shared<routes::Tokens>(*tokens);
}

routes::Settings short_settings(const Scenery& scenery) {
  static const std::shared_ptr<const routes::Tokens> tokens = load_tokens();
  routes::Settings settings;
  settings.body = {200, 20};
  settings.max_wait = 2ms;
  if (scenery.has_tokens) settings.tokens = tokens;
  return settings;
}

http::Limits small_limits() {
  http::Limits limits;
  limits.max_body = 10000;
  limits.max_header = 2000;
  return limits;
}

std::unique_ptr<server::Store> new_store(const std::string& where, server::Scheduler& scheduler) {
  server::Rules rules;
  rules.max_queue = 5;
  auto opened = server::open_store(where, rules, scheduler, silent_log());
  demand(std::holds_alternative<std::unique_ptr<server::Store>>(opened), "a store can be opened");
  return std::get<0>(std::move(opened));
}

/// A name in SQLite that nobody has used before, and that is free again afterwards.
class Database {
 public:
  Database() { remove(); }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;
  ~Database() { remove(); }

  static std::string place() { return "sqlite:" + file(); }

 private:
  static std::string file() { return file_name(".db"); }
  static void remove() {
    for (const char* end : {"", "-lock", "-shm", "-wal"}) std::filesystem::remove(file() + end);
  }
};

/// A server of its own for each input, so that an input always does the same.
class Scene {
 public:
  explicit Scene(const Scenery& scenery) : scenery_(scenery) {
    const std::string address = "unix:" + socket_name();
    demand(!server_.listen(address), "the server listens");
  }

  /// All that the server sends to one who sends these bytes and no more.
  std::string answers_to(std::string_view bytes) {
    Client client(loop_, socket_name(), bytes);
    const event::Timer give_up = loop_.after(10s, [] { throw Broken("no end of the replies"); });
    loop_.run();
    return client.received();
  }

  /// Stops as the program does.
  void check_store() {
    const std::size_t claims = check_claims();
    api_.drain();
    server_.drain(1s, [this] { store_->close([this] { loop_.stop(); }); });
    loop_.run();
    if (!scenery_.is_kept) return;
    const auto inspected = server::inspect_store(database_.place(), [](const auto&, auto) {});
    const auto* inspection = std::get_if<server::Inspection>(&inspected);
    demand(inspection != nullptr, "a database can be read");
    for (const std::string& fault : inspection->faults) throw Broken(fault);
    demand(inspection->claims == claims, "a database has what was told");
  }

 private:
  static std::string socket_name() { return file_name(".socket"); }

  std::size_t check_claims() {
    server::Audit audit;
    server::ListQuery all;
    all.limit = 1000000;
    std::size_t claims = 0;
    store_->list(all, [&](const server::Told<std::vector<server::View>>& told) {
      demand(told.value.has_value(), "a store tells");
      claims = told.value->size();
      for (const server::View& view : *told.value) {
        audit.add(view.claim);
        const std::string& owner = view.claim.owner;
        demand(owner != "reader" && owner != "late", "who may not claim has no claim");
      }
      loop_.stop();
    });
    loop_.run();
    for (const std::string& fault : audit.end()) throw Broken(fault);
    return claims;
  }

  /// Sends all it has, ends its side, and reads until the server ends the other one.
  class Client {
   public:
    Client(event::Loop& loop, const std::string& path, std::string_view bytes)
        : loop_(loop),
          fd_(connected(path)),
          left_(bytes),
          watch_(
              std::in_place, loop, fd_, [this] { read(); }, [this] { write(); }) {
      watch_->await_readable();
      write();
    }
    ~Client() {
      watch_.reset();
      close(fd_);
    }

    const std::string& received() const { return received_; }

   private:
    static int connected(const std::string& path) {
      const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      path.copy(address.sun_path, sizeof address.sun_path - 1);
      demand(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0,
             "the server can be reached");
      return fd;
    }

    void write() {
      while (!left_.empty()) {
        const ssize_t size = send(fd_, left_.data(), left_.size(), MSG_NOSIGNAL);
        if (size < 0 && errno == EAGAIN) return watch_->await_writable();
        if (size < 0) return;  // the server wants no more
        left_.remove_prefix(static_cast<std::size_t>(size));
      }
      shutdown(fd_, SHUT_WR);
    }

    void read() {
      std::array<char, 16384> buffer{};
      for (;;) {
        const ssize_t size = recv(fd_, buffer.data(), buffer.size(), 0);
        if (size < 0 && errno == EAGAIN) break;
        if (size <= 0) return loop_.stop();
        received_.append(buffer.data(), static_cast<std::size_t>(size));
      }
      // A stream of events has no end.
      if (received_.find("text/event-stream") != std::string::npos) return loop_.stop();
      watch_->await_readable();
    }

    event::Loop& loop_;
    int fd_;
    std::string_view left_;
    std::string received_;
    std::optional<event::Watch> watch_;
  };

  const Scenery scenery_;
  const Database database_;
  event::Loop loop_;
  routes::LoopScheduler scheduler_{loop_};
  std::unique_ptr<server::Store> store_ =
      new_store(scenery_.is_kept ? database_.place() : "memory:", scheduler_);
  routes::Api api_{loop_, *store_, short_settings(scenery_), silent_log()};
  http::Server server_{
      loop_, [this](std::shared_ptr<http::Exchange> exchange) { api_.handle(std::move(exchange)); },
      api_, small_limits()};
};

/// "METHOD TARGET TOKEN\nBODY" as a client frames it; there need be no token.
std::string framed(std::string_view text) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  const std::string_view body = line == text.size() ? "" : text.substr(line + 1);
  std::string_view words = text.substr(0, line);
  std::string_view token;
  if (const std::size_t blank = words.rfind(' '); blank != words.find(' ')) {
    token = words.substr(blank + 1);
    words = words.substr(0, blank);
  }
  std::string request(words);
  request += " HTTP/1.1\r\nHost: here\r\nContent-Type: application/json\r\nPrefer: wait=1\r\n";
  if (!token.empty()) request += "Authorization: Bearer " + std::string(token) + "\r\n";
  request += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  request += body;
  return request;
}

std::string framed_all(std::string_view text) {
  constexpr std::string_view kBetween = "\n---\n";
  std::string all;
  for (;;) {
    const std::size_t end = text.find(kBetween);
    all += framed(text.substr(0, end));
    if (end == std::string_view::npos) return all;
    text.remove_prefix(end + kBetween.size());
  }
}

/// A head with its fields, taken from the front of what was sent.
struct Head {
  int status = 0;
  std::string fields;  ///< in small letters, each line with its end

  bool has(std::string_view name) const {
    return fields.find("\r\n" + std::string(name) + ": ") != std::string::npos;
  }
  std::string value(std::string_view name) const {
    const std::string key = "\r\n" + std::string(name) + ": ";
    const std::size_t at = fields.find(key);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + key.size();
    return fields.substr(begin, fields.find("\r\n", begin) - begin);
  }
};

Head take_head(std::string_view& sent) {
  const std::size_t end = sent.find("\r\n\r\n");
  demand(end != std::string_view::npos, "a head has an end");
  const std::string_view text = sent.substr(0, end + 2);
  sent.remove_prefix(end + 4);
  demand(text.starts_with("HTTP/1.0 ") || text.starts_with("HTTP/1.1 "),
         "a status line has a form");
  Head head;
  const auto status = to_number(text.substr(9, 3));
  demand(status && *status >= 100 && *status <= 599 && text[12] == ' ', "a status has a form");
  head.status = static_cast<int>(*status);
  for (const char c : text.substr(text.find("\r\n"))) {
    demand(c == '\r' || c == '\n' || c == '\t' || static_cast<unsigned char>(c) >= ' ',
           "a field holds no control character");
    head.fields += c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  }
  return head;
}

std::string take_chunks(std::string_view& sent) {
  std::string body;
  for (;;) {
    const std::size_t end = sent.find("\r\n");
    demand(end != std::string_view::npos && end > 0, "a chunk has a size");
    const std::size_t size = std::stoul(std::string(sent.substr(0, end)), nullptr, 16);
    demand(sent.size() >= end + size + 4, "a chunk is whole");
    body += sent.substr(end + 2, size);
    sent.remove_prefix(end + size + 4);
    if (size == 0) return body;
  }
}

void check_reply(std::string_view& sent, bool may_lack_body) {
  const Head head = take_head(sent);
  if (head.status == 100) return;
  demand(head.status < 500, "a client's fault is no 5xx");
  demand(head.value("server") == "holdfastd" && head.has("x-request-id"), "a reply is signed");
  if (head.value("content-type") == "text/event-stream") {
    sent = {};  // was cut off by us
    return;
  }
  std::string body;
  if (head.value("transfer-encoding") == "chunked") {
    body = take_chunks(sent);
  } else if (head.has("content-length")) {
    const auto size = to_number(head.value("content-length"));
    demand(size.has_value(), "a length is a number");
    if (may_lack_body && (sent.empty() || sent.starts_with("HTTP/1."))) return;
    demand(sent.size() >= *size, "a body is whole");
    body = sent.substr(0, *size);
    sent.remove_prefix(*size);
  }
  demand(head.status != 204 || body.empty(), "204 has no body");
  const bool is_json = head.value("content-type") == "application/json";
  demand(!is_json || head.status == 204 || nlohmann::json::accept(body), "a JSON body is JSON");
}

}  // namespace

void check_replies(std::string_view sent, bool may_lack_bodies) {
  while (!sent.empty()) check_reply(sent, may_lack_bodies);
}

void check_http(std::string_view bytes) {
  Scene scene(Scenery::taken_from(bytes));
  const bool is_list = bytes.starts_with('!');
  const std::string input = is_list ? framed_all(bytes.substr(1)) : std::string(bytes);
  check_replies(scene.answers_to(input), input.find("HEAD") != std::string::npos);
  scene.check_store();
}

}  // namespace holdfast::testing
