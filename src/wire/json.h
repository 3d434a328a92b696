#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::wire {

/// A JSON value that is a member of an object or an element of an array.
struct Value {
  enum class Kind { absent, null, boolean, number, string, nested };
  Kind kind = Kind::absent;

  /// A string without quotes and escapes, as UTF-8. A number as it was written, so that none is too
  /// long. An array or an object (nested) as JSON text without blanks. Else null, true or false.
  std::string text;

  bool is_there() const { return kind != Kind::absent; }
  bool is_null() const { return kind == Kind::null; }
  bool is_string(std::string_view wanted) const { return kind == Kind::string && text == wanted; }

  /// Only of a number that is written in digits: neither 1.0 nor 1e0.
  std::optional<std::uint64_t> whole() const;

  /// Of any number. It is finite.
  std::optional<double> real() const;

  std::string json() const;  ///< the value as JSON text
};

struct Member {
  std::string key;
  Value value;
};

/// All members in the order of the text. A key may be there several times: the last one counts.
using Members = std::vector<Member>;
const Value* find(const Members& members, std::string_view key);  ///< null if there is none

enum class JsonFault {
  none,
  not_json,    ///< also: a string that is not UTF-8, a number that no double can hold, a NUL
  too_deep,    ///< more levels than allowed; the outermost value is level 1
  other_kind,  ///< JSON, but not an object, or not an array
};

/// Each reads one whole text, in one pass and without recursion. The result is empty after a fault.
JsonFault read_object(std::string_view text, std::size_t max_depth, Members& members);
JsonFault read_array(std::string_view text, std::size_t max_depth, std::vector<Value>& elements);
JsonFault read_value(std::string_view text, std::size_t max_depth, Value& value);

}  // namespace holdfast::wire
