#include "http/connection.h"

#include <algorithm>
#include <utility>

namespace holdfast::http {
namespace {

/// What a peer may send ahead of the answer it waits for.
constexpr std::size_t kMaxAhead = 65536;
/// Replies to a peer that does not read them, before we stop reading its requests.
constexpr std::size_t kMaxUnsent = 262144;
/// A reader that takes that much within the write timeout is not slow.
constexpr std::size_t kProgress = 65536;
/// How long a peer may go on sending what nobody wants, in order to read the answer then.
constexpr std::chrono::seconds kLinger{5};
/// In the log: the peer went away before the answer.
constexpr int kGone = 499;

}  // namespace

/// A request in the making, then out with the handler until it is answered.
class Connection::Turn final : public Exchange, public std::enable_shared_from_this<Turn> {
 public:
  explicit Turn(event::Loop& loop) : loop_(loop) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() override {
    if (Connection* connection = std::exchange(connection_, nullptr)) {
      connection->handled_ = nullptr;
      connection->abandoned(request_);
    }
  }

  const Request& request() const override { return request_; }
  Request& request() { return request_; }

  void hand_out(Connection& connection) {
    connection_ = &connection;
    gone_ = nullptr;
    is_peer_gone_ = false;
  }

  void reply(Response response) override {
    if (Connection* connection = take_back()) connection->answer(request_, response);
  }

  std::shared_ptr<Stream> stream(Response head) override;

  void on_gone(std::function<void()> gone) override {
    gone_ = std::move(gone);
    if (is_peer_gone_) tell_gone();
  }

  void peer_gone() {
    is_peer_gone_ = true;
    if (gone_) tell_gone();
  }

  void detach() { connection_ = nullptr; }

 private:
  /// The right to answer, which is given up by taking it; null if it is gone.
  Connection* take_back() {
    Connection* connection = std::exchange(connection_, nullptr);
    gone_ = nullptr;
    if (connection == nullptr) return nullptr;
    connection->handled_ = nullptr;
    connection->turn_ = shared_from_this();
    return connection;
  }

  void tell_gone() {
    loop_.post([weak = weak_from_this()] {
      const auto turn = weak.lock();
      if (!turn) return;
      const std::function<void()> gone = std::exchange(turn->gone_, nullptr);
      if (gone) gone();
    });
  }

  event::Loop& loop_;
  Connection* connection_ = nullptr;  ///< while it may be answered
  Request request_;
  std::function<void()> gone_;
  bool is_peer_gone_ = false;
};

class Connection::Feed final : public Stream, public std::enable_shared_from_this<Feed> {
 public:
  Feed(event::Loop& loop, Connection* connection) : loop_(loop), connection_(connection) {}
  Feed(const Feed&) = delete;
  Feed& operator=(const Feed&) = delete;
  ~Feed() override { end(); }

  bool write(std::string text) override {
    return connection_ != nullptr && connection_->put_stream(text);
  }

  void close() override {
    gone_ = nullptr;
    end();
  }

  void on_gone(std::function<void()> gone) override {
    gone_ = std::move(gone);
    if (is_cut_off_) tell_gone();
  }

  void cut_off() {
    connection_ = nullptr;
    is_cut_off_ = true;
    if (gone_) tell_gone();
  }

 private:
  void end() {
    if (Connection* connection = std::exchange(connection_, nullptr)) {
      connection->feed_ = nullptr;
      connection->end_stream();
    }
  }

  void tell_gone() {
    loop_.post([weak = weak_from_this()] {
      const auto feed = weak.lock();
      if (!feed) return;
      const std::function<void()> gone = std::exchange(feed->gone_, nullptr);
      if (gone) gone();
    });
  }

  event::Loop& loop_;
  Connection* connection_;  ///< while it may be written to
  std::function<void()> gone_;
  bool is_cut_off_ = false;
};

std::shared_ptr<Stream> Connection::Turn::stream(Response head) {
  if (Connection* connection = take_back()) {
    return connection->begin_stream(request_, std::move(head));
  }
  auto feed = std::make_shared<Feed>(loop_, nullptr);
  feed->cut_off();
  return feed;
}

Connection::Connection(Hub& hub, std::unique_ptr<Channel> channel, Peer peer, Scheme scheme)
    : hub_(hub), channel_(std::move(channel)), peer_(std::move(peer)), scheme_(scheme) {
  watch_.emplace(
      hub.loop(), channel_->fd(), [this] { on_readable(); }, [this] { on_writable(); });
}

Connection::~Connection() {
  detach();
}

void Connection::start() {
  if (scheme_ == Scheme::https) state_ = State::handshake;
  settle();
}

void Connection::refuse(int status, std::string_view why) {
  if (scheme_ == Scheme::https) return close();
  begin_request();
  fault(status, why);
}

void Connection::drain() {
  if (state_ == State::handshake) return close();
  if (state_ == State::streaming) {
    if (Feed* feed = std::exchange(feed_, nullptr)) feed->cut_off();
    return end_stream();
  }
  // A request that is here already is answered.
  if (state_ == State::reading && !has_begun_ && ahead_.empty()) on_readable();
  if (state_ == State::reading && !has_begun_ && ahead_.empty() && unsent() == 0) close();
}

void Connection::close() {
  if (state_ == State::closed) return;
  const State was = std::exchange(state_, State::closed);
  if (was == State::handling && handled_ != nullptr) {
    hub_.observer().finished(handled_->request(), kGone, 0, Hub::now() - started_);
  }
  if (was == State::streaming && turn_) {
    hub_.observer().finished(turn_->request(), stream_status_, stream_bytes_,
                             Hub::now() - started_);
  }
  detach();
  hub_.remove(*this);
}

void Connection::forget_hub() {
  state_ = State::closed;
  detach();
}

void Connection::detach() {
  if (Turn* turn = std::exchange(handled_, nullptr)) {
    turn->detach();
    turn->peer_gone();
  }
  if (Feed* feed = std::exchange(feed_, nullptr)) feed->cut_off();
  watch_.reset();
  channel_.reset();
  out_.clear();
  sent_ = 0;
  deadline_ = write_deadline_ = Hub::kNever;
}

void Connection::check_deadlines(Time now) {
  if (now >= write_deadline_) return close();
  if (now < deadline_) return;
  if (state_ != State::reading || !has_begun_) return close();
  fault(408, "the request did not arrive in time");
}

// Reading.

void Connection::on_readable() {
  switch (state_) {
    case State::handshake:
      return shake_hands();
    case State::reading:
      return read_request();
    case State::handling:
    case State::streaming:
      return read_ahead();
    case State::lingering:
      return throw_away();
    case State::finishing:
    case State::closed:
      return;
  }
}

void Connection::shake_hands() {
  switch (channel_->handshake()) {
    case Channel::State::ok:
      state_ = State::reading;
      return read_request();
    case Channel::State::want_write:
      watch_->await_writable();
      return settle();
    case Channel::State::want_read:
      return settle();
    case Channel::State::end:
    case Channel::State::failed:
      return linger();
  }
}

void Connection::read_request() {
  const std::span<char> room = hub_.scratch();
  const Channel::Result got = channel_->read(room);
  switch (got.state) {
    case Channel::State::ok:
      return feed({room.data(), got.size});
    case Channel::State::want_write:
      watch_->await_writable();
      return settle();
    case Channel::State::want_read:
      return settle();
    case Channel::State::end:
      return on_peer_end();
    case Channel::State::failed:
      return close();
  }
}

void Connection::read_ahead() {
  if (!wants_input()) return;
  const std::span<char> all = hub_.scratch();
  const std::span<char> room = all.first(std::min(all.size(), kMaxAhead - ahead_.size()));
  const Channel::Result got = channel_->read(room);
  if (got.state == Channel::State::failed) return close();
  if (got.state == Channel::State::end) return on_peer_end();
  if (got.state == Channel::State::want_write) watch_->await_writable();
  if (got.size > 0) {
    ahead_.append(room.data(), got.size);
    has_unparsed_ = true;
  }
  settle();
}

void Connection::throw_away() {
  const Channel::Result got = channel_->discard(hub_.scratch());
  if (got.state == Channel::State::end || got.state == Channel::State::failed) return close();
  watch_->await_readable();
}

/// No more requests; what was asked is still answered, except without an end.
void Connection::on_peer_end() {
  has_peer_ended_ = true;
  if (state_ == State::streaming) return close();
  if (handled_ != nullptr) handled_->peer_gone();
  settle();
}

void Connection::feed(std::string_view fresh) {
  if (ahead_.empty()) {
    ahead_ = process(fresh);
  } else {
    ahead_ += fresh;
    const std::size_t left = process(ahead_).size();
    ahead_.erase(0, ahead_.size() - left);
    if (left == 0) std::string().swap(ahead_);
  }
  flush();
  settle();
}

/// Takes whole requests from the front of `input`; what it returns belongs to a later one.
std::string_view Connection::process(std::string_view input) {
  is_processing_ = true;
  has_unparsed_ = true;
  while (state_ == State::reading && unsent() < kMaxUnsent) {
    if (!has_begun_) {
      input.remove_prefix(std::min(input.find_first_not_of("\r\n"), input.size()));
      if (!input.empty()) begin_request();
    }
    const Parser::Step step = input.empty() ? Parser::Step::more : parser_.put(input);
    if (step == Parser::Step::more) {
      has_unparsed_ = false;
      break;
    }
    if (step == Parser::Step::head) on_head(!input.empty());
    if (step == Parser::Step::whole) dispatch();
    if (step == Parser::Step::fault) fault(parser_.status(), parser_.why());
  }
  is_processing_ = false;
  has_unparsed_ = has_unparsed_ && !input.empty();
  return input;
}

void Connection::begin_request() {
  has_begun_ = true;
  started_ = Hub::now();
  if (!turn_ || turn_.use_count() != 1) {
    turn_ = std::make_shared<Turn>(hub_.loop());
    turn_->request().set_peer(peer_, scheme_);
  }
  parser_.start(turn_->request(), hub_.limits().max_header, hub_.limits().max_body);
}

void Connection::on_head(bool has_body_begun) {
  body_started_ = Hub::now();
  if (parser_.wants_continue() && !has_body_begun) out() += "HTTP/1.1 100 Continue\r\n\r\n";
}

void Connection::dispatch() {
  has_begun_ = false;
  is_keep_alive_ = parser_.is_keep_alive();
  Request& request = turn_->request();
  const std::string_view id = request.header("X-Request-Id");
  request.set_id(is_harmless_id(id) ? std::string(id) : hub_.renderer().next_id());
  if (hub_.rate().is_on()) {
    const std::string who = peer_.address + (peer_.uid ? std::to_string(*peer_.uid) : "");
    if (!hub_.rate().admit(who, started_)) {
      return answer(request, transport_reply(429, "too many requests"));
    }
  }
  state_ = State::handling;
  turn_->hand_out(*this);
  handled_ = turn_.get();
  if (has_peer_ended_) handled_->peer_gone();
  hub_.handler()(std::move(turn_));
}

/// The last words to a peer whose bytes make no sense any more.
void Connection::fault(int status, std::string_view why) {
  has_begun_ = false;
  is_keep_alive_ = false;
  must_linger_ = true;
  Request& request = turn_->request();
  const std::string_view id = request.header("X-Request-Id");
  request.set_id(is_harmless_id(id) ? std::string(id) : hub_.renderer().next_id());
  answer(request, transport_reply(status, why));
}

// Answering.

Response Connection::transport_reply(int status, std::string_view why) {
  Response response = hub_.observer().fault(status, why);
  response.status = status;
  if (status == 429 || status == 503) response.headers.push_back({"Retry-After", "1"});
  return response;
}

bool Connection::may_keep_alive(const Response& response) const {
  return is_keep_alive_ && !response.is_last && !hub_.is_draining();
}

void Connection::answer(const Request& request, const Response& response) {
  const bool stays = may_keep_alive(response);
  const bool is_old = request.version() < 11;
  hub_.renderer().put(out(), request, response, Renderer::Body::whole,
                      !stays   ? Renderer::After::close
                      : is_old ? Renderer::After::keep_alive_10
                               : Renderer::After::keep_alive);
  state_ = stays ? State::reading : State::finishing;
  if (!is_processing_) flush();
  hub_.observer().finished(request, response.status, response.body.size(), Hub::now() - started_);
  if (!is_processing_) settle();
  if (request.is_bulky()) turn_.reset();  // not kept for the next one
}

void Connection::abandoned(const Request& request) {
  if (has_peer_ended_) {
    hub_.observer().finished(request, kGone, 0, Hub::now() - started_);
    return close();
  }
  answer(request, transport_reply(500, "nobody answered"));
}

std::shared_ptr<Stream> Connection::begin_stream(const Request& request, Response head) {
  is_chunked_ = request.version() >= 11;
  is_keep_alive_ = is_chunked_ && may_keep_alive(head);
  stream_status_ = head.status;
  stream_bytes_ = 0;
  const std::string first = std::exchange(head.body, {});
  hub_.renderer().put(out(), request, head,
                      is_chunked_ ? Renderer::Body::chunked : Renderer::Body::to_end,
                      is_keep_alive_ ? Renderer::After::keep_alive : Renderer::After::close);
  auto feed = std::make_shared<Feed>(hub_.loop(), this);
  feed_ = feed.get();
  state_ = State::streaming;
  if (request.method() == "HEAD") {
    is_chunked_ = false;  // nor is there a last chunk
    feed_ = nullptr;
    feed->cut_off();
    end_stream();
  } else {
    (void)put_stream(first);
  }
  return feed;
}

bool Connection::put_stream(std::string_view text) {
  stream_bytes_ += text.size();
  if (is_chunked_) {
    put_chunk(out(), text);
  } else {
    out() += text;
  }
  if (is_processing_) return true;
  flush();
  if (unsent() > hub_.limits().max_backlog) close();
  if (state_ == State::closed) return false;
  settle();
  return true;
}

void Connection::end_stream() {
  if (is_chunked_) out() += "0\r\n\r\n";
  state_ = is_keep_alive_ && !hub_.is_draining() ? State::reading : State::finishing;
  hub_.observer().finished(turn_->request(), stream_status_, stream_bytes_, Hub::now() - started_);
  if (is_processing_) return;
  flush();
  settle();
}

// Writing.

void Connection::on_writable() {
  if (unsent() == 0) return on_readable();  // TLS that had to write in order to read
  flush();
  settle();
}

std::string& Connection::out() {
  if (out_.empty() && out_.capacity() < 64) out_ = hub_.take_buffer();
  return out_;
}

void Connection::flush() {
  while (unsent() > 0 && state_ != State::closed) {
    const std::string_view left = std::string_view(out_).substr(sent_);
    const Channel::Result put = channel_->write(left);
    if (put.state == Channel::State::want_write) return count_progress(0);
    if (put.state != Channel::State::ok) return close();
    sent_ += put.size;
    count_progress(put.size);
  }
  if (out_.empty()) return;
  hub_.give_buffer(std::exchange(out_, {}));
  sent_ = 0;
  write_deadline_ = Hub::kNever;
}

void Connection::count_progress(std::size_t size) {
  if (unsent() == 0) return;
  progress_ += size;
  if (write_deadline_ != Hub::kNever && progress_ < kProgress) return;
  progress_ = 0;
  write_deadline_ = Hub::now() + hub_.limits().write_timeout;
  hub_.note_deadline(write_deadline_);
}

/// The last reply is on its way. Closing now would reset the connection, and could take the reply
/// from the peer, if bytes of it are still unread.
void Connection::finish() {
  if (must_linger_ || !ahead_.empty() || channel_->has_unread()) return linger();
  close();
}

void Connection::linger() {
  channel_->end_writing();
  state_ = State::lingering;
  std::string().swap(ahead_);
  settle();
}

void Connection::settle() {
  if (state_ == State::closed) return;
  if (unsent() > 0) {
    watch_->await_writable();
  } else if (state_ == State::finishing) {
    return finish();
  } else if (state_ == State::reading && has_peer_ended_ && !has_unparsed_) {
    return close();
  }
  if (state_ == State::reading && has_unparsed_ && unsent() < kMaxUnsent) resume_later();
  if (wants_input()) {
    if (channel_->has_decrypted() && state_ != State::lingering) {
      resume_later();
    } else {
      watch_->await_readable();
    }
  }
  deadline_ = reading_deadline(Hub::now());
  hub_.note_deadline(deadline_);
}

bool Connection::wants_input() const {
  switch (state_) {
    case State::handshake:
    case State::lingering:
      return true;
    case State::reading:
      return !has_peer_ended_ && !has_unparsed_;
    case State::handling:
    case State::streaming:
      return !has_peer_ended_ && ahead_.size() < kMaxAhead;
    case State::finishing:
    case State::closed:
      break;
  }
  return false;
}

Connection::Time Connection::reading_deadline(Time now) const {
  const Limits& limits = hub_.limits();
  if (state_ == State::handshake) {
    return deadline_ == Hub::kNever ? now + limits.header_timeout : deadline_;
  }
  if (state_ == State::lingering) return now + kLinger;
  if (state_ != State::reading) return Hub::kNever;
  if (!has_begun_) return now + limits.idle_timeout;
  return parser_.is_head_done() ? body_started_ + limits.body_timeout
                                : started_ + limits.header_timeout;
}

void Connection::resume_later() {
  if (std::exchange(is_resuming_, true)) return;
  hub_.loop().post([weak = weak_from_this()] {
    if (const auto connection = weak.lock()) connection->resume();
  });
}

void Connection::resume() {
  is_resuming_ = false;
  if (state_ == State::reading && has_unparsed_) return feed({});
  if (state_ != State::closed) on_readable();
}

}  // namespace holdfast::http
