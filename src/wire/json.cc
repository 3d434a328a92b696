#include "wire/json.h"

#include <rapidjson/memorystream.h>
#include <rapidjson/reader.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "base/json.h"
#include "base/text.h"

namespace holdfast::wire {
namespace {

enum class Outermost { scalar, object, array };

/// Gathers what RapidJSON's reader reports: the members of the outermost object, or the elements of
/// the outermost array as members without a key. Each call says whether to read on. The reader
/// accepts half a surrogate pair, so strings are checked here.
class Gatherer {
 public:
  explicit Gatherer(std::size_t max_depth) : max_depth_(max_depth) {}

  Outermost outermost() const { return outermost_; }
  bool is_too_deep() const { return depth_ > max_depth_; }
  Members take() { return std::move(members_); }

  bool Null() { return depth_ > 1 ? nested_.Null() : put(Value::Kind::null, "null"); }
  bool Bool(bool value) {
    if (depth_ > 1) return nested_.Bool(value);
    return put(Value::Kind::boolean, value ? "true" : "false");
  }
  bool RawNumber(const char* text, rapidjson::SizeType size, bool) {
    if (!is_in_range({text, size})) return false;
    if (depth_ > 1) return nested_.RawValue(text, size, rapidjson::kNumberType);
    return put(Value::Kind::number, {text, size});
  }
  bool String(const char* text, rapidjson::SizeType size, bool) {
    if (!is_utf8({text, size})) return false;
    if (depth_ > 1) return nested_.String(text, size);
    return put(Value::Kind::string, {text, size});
  }
  bool Key(const char* text, rapidjson::SizeType size, bool) {
    if (!is_utf8({text, size})) return false;
    if (depth_ > 1) return nested_.Key(text, size);
    members_.push_back({std::string(text, size), {}});
    return true;
  }
  bool StartObject() {
    if (depth_ == 0) outermost_ = Outermost::object;
    return open() && (depth_ == 1 || nested_.StartObject());
  }
  bool StartArray() {
    if (depth_ == 0) outermost_ = Outermost::array;
    return open() && (depth_ == 1 || nested_.StartArray());
  }
  bool EndObject(rapidjson::SizeType) {
    return depth_ == 1 ? close() : nested_.EndObject() && close();
  }
  bool EndArray(rapidjson::SizeType) {
    return depth_ == 1 ? close() : nested_.EndArray() && close();
  }

  // Never called: numbers come as they were written.
  bool Int(int) { return false; }
  bool Uint(unsigned) { return false; }
  bool Int64(std::int64_t) { return false; }
  bool Uint64(std::uint64_t) { return false; }
  bool Double(double) { return false; }

 private:
  /// A number that no double can hold is refused: neither we nor a client could use it.
  static bool is_in_range(std::string_view text) {
    constexpr std::size_t kPlain = 300;  // this many digits are always in range
    if (text.size() < kPlain && text.find_first_of("eE") == std::string_view::npos) return true;
    return std::isfinite(std::strtod(std::string(text).c_str(), nullptr));
  }

  bool put(Value::Kind kind, std::string_view text) {
    if (depth_ != 1) return true;
    if (outermost_ == Outermost::array) members_.emplace_back();
    members_.back().value = {kind, std::string(text)};
    return true;
  }

  bool open() { return ++depth_ <= max_depth_; }

  bool close() {
    if (--depth_ != 1) return true;
    (void)put(Value::Kind::nested, {buffer_.GetString(), buffer_.GetSize()});
    buffer_.Clear();
    nested_.Reset(buffer_);
    return true;
  }

  using Writer = rapidjson::Writer<rapidjson::StringBuffer>;

  std::size_t max_depth_;
  std::size_t depth_ = 0;
  Outermost outermost_ = Outermost::scalar;
  Members members_;
  rapidjson::StringBuffer buffer_;
  Writer nested_{buffer_};  ///< writes the value of a member that is an object or an array
};

JsonFault read(std::string_view text, std::size_t max_depth, Outermost wanted, Members& members) {
  constexpr unsigned kFlags =
      rapidjson::kParseIterativeFlag | rapidjson::kParseNumbersAsStringsFlag;
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  members.clear();
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  // The reader takes a NUL for the end of the text.
  if (text.find('\0') != std::string_view::npos) return JsonFault::not_json;
  Gatherer gatherer(max_depth);
  rapidjson::MemoryStream stream(text.data(), text.size());
  rapidjson::Reader reader;
  const bool is_json = !reader.Parse<kFlags>(stream, gatherer).IsError();
  if (gatherer.is_too_deep()) return JsonFault::too_deep;
  if (!is_json) return JsonFault::not_json;
  if (gatherer.outermost() != wanted) return JsonFault::other_kind;
  members = gatherer.take();
  return JsonFault::none;
}

}  // namespace

std::optional<std::uint64_t> Value::whole() const {
  return kind == Kind::number ? to_number(text) : std::nullopt;
}

std::optional<double> Value::real() const {
  if (kind != Kind::number) return std::nullopt;
  return std::strtod(text.c_str(), nullptr);
}

std::string Value::json() const {
  if (kind != Kind::string) return text;
  std::string quoted;
  put_json_string(quoted, text);
  return quoted;
}

const Value* find(const Members& members, std::string_view key) {
  const auto last = std::find_if(members.rbegin(), members.rend(),
                                 [&](const Member& member) { return member.key == key; });
  return last != members.rend() ? &last->value : nullptr;
}

JsonFault read_object(std::string_view text, std::size_t max_depth, Members& members) {
  return read(text, max_depth, Outermost::object, members);
}

JsonFault read_array(std::string_view text, std::size_t max_depth, std::vector<Value>& elements) {
  elements.clear();
  Members members;
  const JsonFault fault = read(text, max_depth, Outermost::array, members);
  elements.reserve(members.size());
  for (Member& member : members) elements.push_back(std::move(member.value));
  return fault;
}

JsonFault read_value(std::string_view text, std::size_t max_depth, Value& value) {
  value = {};
  // In brackets, the value is the only element. With another number of elements the text is not one
  // value.
  std::string bracketed;
  bracketed.reserve(text.size() + 2);
  bracketed.append("[").append(text).append("]");
  std::vector<Value> elements;
  const JsonFault fault = read_array(bracketed, max_depth + 1, elements);
  if (fault != JsonFault::none) return fault;
  if (elements.size() != 1) return JsonFault::not_json;
  value = std::move(elements.front());
  return JsonFault::none;
}

}  // namespace holdfast::wire
