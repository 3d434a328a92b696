#include "wire/claim_object.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "base/text.h"
#include "wire/date.h"
#include "wire/json.h"

namespace holdfast::wire {
namespace {

/// A buffer that has a blank after each comma and each colon of the structure. RapidJSON's Writer
/// puts the structure with Put() and the text of values with PutUnsafe().
class SpacedBuffer : public rapidjson::StringBuffer {
  using Base = rapidjson::StringBuffer;

 public:
  void Put(char c) {
    Base::Put(c);
    if (c == ',' || c == ':') Base::Put(' ');
  }
};

}  // namespace
}  // namespace holdfast::wire

namespace rapidjson {

template <>
inline void PutReserve(holdfast::wire::SpacedBuffer& stream, std::size_t count) {
  stream.Reserve(count);
}

template <>
inline void PutUnsafe(holdfast::wire::SpacedBuffer& stream, char c) {
  stream.PutUnsafe(c);
}

}  // namespace rapidjson

namespace holdfast::wire {
namespace {

using claims::Claim;
using claims::Micros;
using claims::Mode;
using claims::Stamp;
using claims::Status;
using claims::View;

/// RapidJSON's Writer goes through each text byte by byte. Most of a claim object are words of our
/// own, which need no escapes and are copied whole. That takes less than half of the time.
class Writer : public rapidjson::Writer<SpacedBuffer> {
 public:
  using rapidjson::Writer<SpacedBuffer>::Writer;

  /// A string in which nothing must be escaped.
  void plain_string(std::string_view text) {
    Prefix(rapidjson::kStringType);
    char* to = os_->Push(text.size() + 2);
    *to = '"';
    *std::copy(text.begin(), text.end(), to + 1) = '"';
  }

  void json(std::string_view text) {
    Prefix(rapidjson::kObjectType);
    std::copy(text.begin(), text.end(), os_->Push(text.size()));
  }
};

bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; });
}

/// Writes one claim object after another. Its buffers are kept from one to the next.
class ObjectWriter {
 public:
  void put(std::string& out, const View& view, Stamp now, std::string_view url_base) {
    buffer_.Clear();
    writer_.Reset(buffer_);
    (void)writer_.StartObject();
    put_identity(view.claim, url_base);
    put_times(view.claim, now);
    put_additions(view);
    (void)writer_.EndObject();
    out.append(buffer_.GetString(), buffer_.GetSize());
    if (buffer_.GetSize() > kKept) {
      buffer_.Clear();
      buffer_.ShrinkToFit();
    }
  }

 private:
  static constexpr std::size_t kKept = 65536;

  void put_identity(const Claim& claim, std::string_view url_base) {
    key("id");
    (void)writer_.Uint64(claim.id);
    if (!url_base.empty()) {
      url_.assign(url_base);
      put_number(url_, claim.id);
      url_ += '/';
      key("url");
      put_string(url_);
    }
    key("resource");
    put_string(claim.resource);
    key("status");
    put_word(claims::word(claim.status));
    key("created");
    put_moment(claim.queued.wall);
    key("user_data");
    writer_.json(claim.user_data.empty() ? std::string_view("null") : claim.user_data);
  }

  void put_times(const Claim& claim, Stamp now) {
    key("ttl");
    put_if(claim.status == Status::active, claim.deadline - now.time);
    key("active_duration");
    put_if(claim.was_active(), claim.was_active_for(now.time));
    key("waiting_duration");
    put_if(true, claim.waited(now.time));
    key("status_history");
    (void)writer_.StartArray();
    put_change(Status::waiting, claim.queued.wall, {});
    if (claim.was_active()) put_change(Status::active, claim.activated.wall, {});
    if (claim.is_final()) put_change(claim.status, claim.ended.wall, claim.reason);
    (void)writer_.EndArray();
  }

  void put_additions(const View& view) {
    const Claim& claim = view.claim;
    key("owner");
    if (claim.owner.empty()) {
      (void)writer_.Null();
    } else {
      put_string(claim.owner);
    }
    key("mode");
    put_word(claims::word(claim.mode));
    if (claim.mode == Mode::counted) {
      key("count");
      (void)writer_.Uint64(claim.count);
    }
    key("fence");
    put_unless_zero(claim.fence);
    key("position");
    put_unless_zero(view.position);
    key("initial_ttl");
    put_if(true, claim.ttl);
    key("waiting_ttl");
    put_if(claim.waiting_ttl.count() != 0, claim.waiting_ttl);
  }

  void put_change(Status status, Micros wall, std::string_view reason) {
    (void)writer_.StartObject();
    key("status");
    put_word(claims::word(status));
    key("timestamp");
    put_moment(wall);
    if (!reason.empty()) {
      key("reason");
      put_string(reason);
    }
    (void)writer_.EndObject();
  }

  void key(std::string_view name) { writer_.plain_string(name); }
  void put_word(std::string_view word) { writer_.plain_string(word); }

  void put_string(std::string_view text) {
    if (is_plain(text)) return put_word(text);
    // A database may hold bytes that are not UTF-8. Each of them becomes '?'.
    text_.clear();
    for (std::size_t i = 0; i < text.size();) {
      const std::size_t length = utf8_length(text, i);
      text_ += length == 0 ? std::string_view("?") : text.substr(i, length);
      i += length == 0 ? 1 : length;
    }
    (void)writer_.String(text_.data(), static_cast<rapidjson::SizeType>(text_.size()));
  }

  void put_moment(Micros wall) {
    text_.clear();
    put_date(text_, wall);
    put_word(text_);
  }

  void put_if(bool is_known, Micros time) {
    if (!is_known) {
      (void)writer_.Null();
      return;
    }
    text_.clear();
    put_seconds(text_, time);
    writer_.json(text_);
  }

  void put_unless_zero(std::uint64_t number) {
    (void)(number == 0 ? writer_.Null() : writer_.Uint64(number));
  }

  SpacedBuffer buffer_;
  Writer writer_{buffer_};
  std::string url_;
  std::string text_;
};

/// Deeper than what a server of ours takes as user data.
constexpr std::size_t kMaxDepth = 1100;

/// The members of one object, by key, with defaults.
class Fields {
 public:
  explicit Fields(Members members) : members_(std::move(members)) {}

  bool has(std::string_view key) const { return find(members_, key) != nullptr; }

  std::string text(std::string_view key) const {
    const Value* value = find(members_, key);
    return value != nullptr && value->kind == Value::Kind::string ? value->text : std::string();
  }

  std::optional<double> real(std::string_view key) const {
    const Value* value = find(members_, key);
    return value != nullptr ? value->real() : std::nullopt;
  }

  std::uint64_t whole(std::string_view key) const {
    const Value* value = find(members_, key);
    return value != nullptr ? value->whole().value_or(0) : 0;
  }

  std::string json(std::string_view key) const {
    const Value* value = find(members_, key);
    return value != nullptr ? value->json() : "null";
  }

 private:
  Members members_;
};

std::uint64_t id_of_url(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  while (url.ends_with('/')) url.remove_suffix(1);
  const std::size_t slash = url.rfind('/');
  if (slash == std::string_view::npos) return 0;
  return to_number(url.substr(slash + 1)).value_or(0);
}

std::vector<ClaimObject::Moment> read_history(const std::string& text) {
  std::vector<ClaimObject::Moment> history;
  std::vector<Value> elements;
  (void)read_array(text, kMaxDepth, elements);  // anything else is an empty history
  for (const Value& element : elements) {
    Members members;
    if (read_object(element.text, kMaxDepth, members) != JsonFault::none) continue;
    const Fields fields(std::move(members));
    const auto status = claims::to_status(fields.text("status"));
    if (!status) continue;
    history.push_back({*status, fields.text("timestamp"), fields.text("reason")});
  }
  return history;
}

}  // namespace

void put_claim(std::string& out, const View& view, Stamp now, std::string_view url_base) {
  thread_local ObjectWriter writer;
  writer.put(out, view, now, url_base);
}

std::optional<ClaimObject> parse_claim_object(std::string_view text) {
  Members members;
  if (read_object(text, kMaxDepth, members) != JsonFault::none) return std::nullopt;
  const Fields fields(std::move(members));
  const auto status = claims::to_status(fields.text("status"));
  if (!status) return std::nullopt;
  ClaimObject claim;
  claim.status = *status;
  claim.url = fields.text("url");
  claim.id = fields.whole("id");
  if (claim.id == 0) claim.id = id_of_url(claim.url);
  claim.resource = fields.text("resource");
  claim.mode = claims::to_mode(fields.text("mode")).value_or(Mode::exclusive);
  const std::uint64_t count = fields.whole("count");
  if (count <= std::numeric_limits<std::uint32_t>::max()) {
    claim.count = static_cast<std::uint32_t>(count);
  }
  claim.user_data = fields.json("user_data");
  claim.ttl = fields.real("ttl");
  claim.active_duration = fields.real("active_duration");
  claim.waiting_duration = fields.real("waiting_duration").value_or(0);
  claim.fence = fields.whole("fence");
  claim.has_position = fields.has("position");
  claim.position = fields.whole("position");
  claim.owner = fields.text("owner");
  claim.created = fields.text("created");
  claim.history = read_history(fields.json("status_history"));
  claim.initial_ttl = fields.real("initial_ttl").value_or(0);
  return claim;
}

}  // namespace holdfast::wire
