#include "routes/events.h"

#include <utility>

#include "routes/api.h"
#include "wire/claim_object.h"

namespace holdfast::routes {
namespace {

using namespace std::chrono_literals;

/// So that proxies and readers know that the line is alive.
constexpr std::chrono::nanoseconds kBeat = 15s;

}  // namespace

void Events::add(std::shared_ptr<http::Stream> stream, std::optional<std::string> resource,
                 std::string url_base, std::function<bool()> may_listen) {
  if (is_draining_) return stream->close();
  if (!stream->write(": listening\nretry: 2000\n\n")) return;
  const auto place = listeners_.insert(
      listeners_.end(),
      {std::move(stream), std::move(resource), std::move(url_base), std::move(may_listen)});
  if (!beat_.is_armed()) beat_ = loop_.after(kBeat, [this] { beat(); });
  place->stream->on_gone([this, place] { listeners_.erase(place); });
}

void Events::tell(const server::View& view, server::Stamp now) {
  ++last_id_;
  for (Listener& listener : listeners_) {
    if (listener.resource && *listener.resource != view.claim.resource) continue;
    std::string text = "event: claim\nid: " + std::to_string(last_id_) + "\ndata: ";
    wire::put_claim(text, view, now, listener.url_base);
    text += "\n\n";
    (void)listener.stream->write(std::move(text));  // on_gone takes it off the list
  }
}

void Events::beat() {
  check();
  if (listeners_.empty()) return;
  for (Listener& listener : listeners_) (void)listener.stream->write(": still here\n\n");
  beat_ = loop_.after(kBeat, [this] { beat(); });
}

void Events::check() {
  std::erase_if(listeners_, [](Listener& listener) {
    if (listener.may_listen()) return false;
    listener.stream->close();
    return true;
  });
}

void Events::drain() {
  is_draining_ = true;
  for (Listener& listener : listeners_) listener.stream->close();
}

void Api::get_events(const Call& call) {
  if (call.query().is_malformed()) return reply_message(call, 400, kMalformedQuery);
  http::Response head;
  head.content_type = "text/event-stream";
  head.headers = {{"Cache-Control", "no-store"}, {"X-Accel-Buffering", "no"}};
  events_.add(call.exchange->stream(std::move(head)), call.query().value("resource"),
              url_base(call.request()), [this, call] {
                const auto principal = identify(call.request(), settings_.tokens.get());
                return principal && principal->may(read);
              });
}

}  // namespace holdfast::routes
