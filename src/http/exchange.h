#pragma once

#include <functional>
#include <memory>
#include <string>

#include "http/message.h"

namespace holdfast::http {

/// A reply without an end: what is written goes out as it comes (chunked on HTTP/1.1).
///
/// Threads:  the loop's thread only.
/// Never:    waits, nor keeps more than a bounded backlog: a reader too far behind is cut off.
class Stream {
 public:
  virtual ~Stream() = default;

  /// False once the peer is gone or was cut off; then nothing is sent any more.
  virtual bool write(std::string text) = 0;

  /// Ends the reply after what was written. Dropping the last pointer does the same.
  virtual void close() = 0;

  /// Called at most once, from a later turn of the loop, when the peer went away, was cut off, or
  /// the server drains. Not after close(), nor once the Stream is gone.
  virtual void on_gone(std::function<void()> gone) = 0;
};

/// One request and the right to answer it once, now or minutes later.
///
/// Owns:     the Request. Whoever keeps the pointer keeps the peer waiting.
/// Threads:  the loop's thread only; another thread comes by event::Loop::post.
/// Never:    fails: an answer for a peer who is gone is dropped. Dropped without an answer, an
///           Exchange answers 500, or closes if the peer is gone.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const Request& request() const = 0;

  /// Exactly one of reply() and stream(), exactly once; later ones are ignored.
  virtual void reply(Response response) = 0;
  /// Sends the head now; its body, if any, goes first. The head of a HEAD is all there is.
  virtual std::shared_ptr<Stream> stream(Response head) = 0;

  /// Called at most once, from a later turn of the loop, when the peer closed its side before the
  /// reply. A peer that closed only its sending side still gets the reply, should one be given.
  virtual void on_gone(std::function<void()> gone) = 0;
};

using Handler = std::function<void(std::shared_ptr<Exchange>)>;

}  // namespace holdfast::http
