#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "event/loop.h"
#include "event/watch.h"
#include "http/channel.h"
#include "http/exchange.h"
#include "http/hub.h"
#include "http/parser.h"

namespace holdfast::http {

/// One peer: reads its requests one after the other, hands each to the handler, and writes the
/// replies in that order.
///
/// Owns:     the channel. While nothing is half-read or half-written it holds no buffer: bytes pass
///           through the hub's. A request that is out with the handler belongs to its Exchange.
/// Never:    is destroyed inside one of its calls: the hub keeps it until a later turn.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Time = Hub::Time;

  Connection(Hub& hub, std::unique_ptr<Channel> channel, Peer peer, Scheme scheme);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  bool is_good() const { return watch_->is_good(); }
  void start();
  void refuse(int status, std::string_view why);  ///< instead of start()
  void drain();
  void close();       ///< at once, whatever is under way
  void forget_hub();  ///< the same when the hub is about to end

  Time deadline() const { return std::min(deadline_, write_deadline_); }
  void check_deadlines(Time now);

  std::size_t index() const { return index_; }  ///< in the hub's list
  void set_index(std::size_t index) { index_ = index; }

 private:
  class Turn;
  class Feed;

  enum class State {
    handshake,
    reading,    ///< between two requests, or in the middle of one
    handling,   ///< a request is out with the handler
    streaming,  ///< a reply without an end
    finishing,  ///< the last reply is being written
    lingering,  ///< all is said; what the peer still sends is thrown away
    closed,
  };

  // Reading.
  void on_readable();
  void shake_hands();
  void read_request();
  void read_ahead();
  void throw_away();
  void feed(std::string_view fresh);
  std::string_view process(std::string_view input);
  void begin_request();
  void on_head(bool has_body_begun);
  void dispatch();
  void fault(int status, std::string_view why);
  void on_peer_end();

  // Answering.
  void answer(const Request& request, const Response& response);
  std::shared_ptr<Stream> begin_stream(const Request& request, Response head);
  bool put_stream(std::string_view text);
  void end_stream();
  void abandoned(const Request& request);
  Response transport_reply(int status, std::string_view why);
  bool may_keep_alive(const Response& response) const;

  // Writing.
  void on_writable();
  std::string& out();
  std::size_t unsent() const { return out_.size() - sent_; }
  void flush();
  void count_progress(std::size_t size);
  void finish();
  void linger();

  void settle();  ///< after every step: what is awaited next, and until when
  bool wants_input() const;
  Time reading_deadline(Time now) const;
  void resume_later();
  void resume();
  void detach();

  Hub& hub_;
  std::unique_ptr<Channel> channel_;
  std::optional<event::Watch> watch_;
  Peer peer_;
  Scheme scheme_;
  std::size_t index_ = 0;
  State state_ = State::reading;

  Parser parser_;
  std::shared_ptr<Turn> turn_;  ///< being read, or answered and kept for the next request
  Turn* handled_ = nullptr;     ///< out with the handler, who owns it
  Feed* feed_ = nullptr;        ///< out with the handler, who owns it
  std::string ahead_;           ///< read, not yet parsed
  Time started_{};              ///< first byte of the request
  Time body_started_{};

  bool has_begun_ = false;      ///< a request is half-read
  bool has_unparsed_ = false;   ///< `ahead_` may hold a whole request
  bool is_processing_ = false;  ///< inside process(): its caller flushes and settles
  bool is_resuming_ = false;
  bool has_peer_ended_ = false;
  bool is_keep_alive_ = false;
  bool must_linger_ = false;
  bool is_chunked_ = false;  ///< the stream

  std::string out_;
  std::size_t sent_ = 0;
  std::size_t progress_ = 0;  ///< bytes taken since write_deadline_ was set
  int stream_status_ = 0;
  std::size_t stream_bytes_ = 0;
  Time deadline_ = Hub::kNever;
  Time write_deadline_ = Hub::kNever;
};

}  // namespace holdfast::http
