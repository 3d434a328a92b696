#include "event/watch.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <utility>

namespace holdfast::event {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

}  // namespace

struct Watch::State : std::enable_shared_from_this<Watch::State> {
  State(asio::io_context& io, std::function<void()> on_readable, std::function<void()> on_writable)
      : descriptor(io), readable(std::move(on_readable)), writable(std::move(on_writable)) {}

  asio::posix::stream_descriptor descriptor;
  std::function<void()> readable;
  std::function<void()> writable;
  bool is_live = false;
  bool awaits_read = false;
  bool awaits_write = false;

  void await(asio::posix::stream_descriptor::wait_type what, bool& awaits,
             const std::function<void()>& call) {
    if (!is_live || std::exchange(awaits, true)) return;
    descriptor.async_wait(what, [self = shared_from_this(), &awaits, &call](error_code) {
      awaits = false;
      if (self->is_live) call();
    });
  }
};

Watch::Watch(Loop& loop, int fd, std::function<void()> readable, std::function<void()> writable)
    : state_(std::make_shared<State>(loop.context(), std::move(readable), std::move(writable))) {
  error_code ec;
  state_->descriptor.assign(fd, ec);
  state_->is_live = !ec;
}

Watch::~Watch() {
  state_->is_live = false;
  if (state_->descriptor.is_open()) (void)state_->descriptor.release();
}

bool Watch::is_good() const {
  return state_->is_live;
}

void Watch::await_readable() {
  state_->await(asio::posix::stream_descriptor::wait_read, state_->awaits_read, state_->readable);
}

void Watch::await_writable() {
  state_->await(asio::posix::stream_descriptor::wait_write, state_->awaits_write, state_->writable);
}

}  // namespace holdfast::event
