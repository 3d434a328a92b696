#include "wire/body.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "base/json.h"
#include "wire/json.h"

namespace holdfast::wire {
namespace {

/// The largest lease that is given, in seconds: three hundred years, and still far from overflow.
constexpr double kMaxTtl = 1e10;

Micros to_micros(double seconds) {
  return Micros(static_cast<std::int64_t>(std::llround(seconds * 1e6)));
}

/// One body being looked at: takes the known keys out of it and gathers what is wrong.
class Reader {
 public:
  Reader(std::string_view body, const BodyLimits& limits) : limits_(limits) {
    switch (read_object(body, limits.max_depth, members_)) {
      case JsonFault::none:
        is_object_ = true;
        break;
      case JsonFault::not_json:
        fault("message", "the body is not JSON");
        break;
      case JsonFault::too_deep:
        fault("message", "nested deeper than " + std::to_string(limits.max_depth));
        break;
      case JsonFault::other_kind:
        fault("message", "the body is not a JSON object");
        break;
    }
  }

  bool is_object() const { return is_object_; }

  /// A parameter is named once, so that the refusal is an object without repeated keys.
  void fault(std::string parameter, std::string why) {
    const auto last =
        faults_.begin() + static_cast<std::ptrdiff_t>(std::min(faults_.size(), kOurs));
    const auto known = std::find_if(faults_.begin(), last,
                                    [&](const auto& told) { return told.first == parameter; });
    if (known != last) {
      known->second += "; " + why;
      return;
    }
    faults_.emplace_back(std::move(parameter), std::move(why));
  }

  /// The value of a key, the last if there are several, which counts as known from now on.
  Value take(std::string_view key) {
    Value value;
    std::erase_if(members_, [&](Member& member) {
      if (member.key != key) return false;
      value = std::move(member.value);
      return true;
    });
    return value;
  }

  bool has(std::string_view key) const { return find(members_, key) != nullptr; }

  /// Whether the value of a key, the last if there are several, is null.
  bool is_null(std::string_view key) const {
    const Value* value = find(members_, key);
    return value != nullptr && value->is_null();
  }

  std::string take_name(const char* key) {
    Value value = take(key);
    switch (value.kind) {
      case Value::Kind::absent:
      case Value::Kind::null:
        fault(key, "is required");
        return {};
      case Value::Kind::boolean:
      case Value::Kind::nested:
        fault(key, "must be a string");
        return {};
      case Value::Kind::number:
      case Value::Kind::string:
        break;
    }
    if (value.text.empty()) fault(key, "must not be empty");
    if (value.text.find('\0') != std::string::npos) fault(key, "must not hold a NUL");
    if (value.text.size() > limits_.max_name) {
      fault(key, "must not be longer than " + std::to_string(limits_.max_name) + " bytes");
    }
    return std::move(value.text);
  }

  /// Seconds, as a number or as text that is one.
  std::optional<Micros> take_seconds(const char* key) {
    const Value value = take(key);
    if (!value.is_there() || value.kind == Value::Kind::null) {
      fault(key, "is required");
      return std::nullopt;
    }
    std::optional<double> seconds;
    if (value.kind == Value::Kind::number) seconds = value.real();
    if (value.kind == Value::Kind::string) seconds = to_real(value.text);
    if (!seconds) {
      fault(key, "must be a number of seconds");
    } else if (*seconds < 0) {
      fault(key, "must not be negative");
    } else if (*seconds > kMaxTtl) {
      fault(key, "must not be larger than 1e10");
    } else {
      return to_micros(*seconds);
    }
    return std::nullopt;
  }

  /// What is left of the object is unknown.
  template <class T>
  Parsed<T> end(T value) {
    std::set<std::string> unknown;
    for (Member& member : members_) unknown.insert(std::move(member.key));
    for (const std::string& key : unknown) fault(key, "is not a parameter");
    if (!faults_.empty()) return std::move(faults_);
    return value;
  }

 private:
  /// Faults of our own parameters come first and are fewer than this; what follows are keys of the
  /// object, which differ from each other and may be very many.
  static constexpr std::size_t kOurs = 16;

  const BodyLimits& limits_;
  bool is_object_ = false;
  Members members_;
  Faults faults_;
};

void read_mode(Reader& reader, NewClaim& claim) {
  const bool has_count = reader.has("count");
  if (reader.has("mode")) {
    const Value mode = reader.take("mode");
    if (mode.is_string("shared")) {
      claim.mode = Mode::shared;
    } else if (!mode.is_string("exclusive")) {
      reader.fault("mode", "must be \"exclusive\" or \"shared\"");
    }
    if (has_count) reader.fault("count", "does not go with mode");
  }
  if (!has_count) return;
  const auto count = reader.take("count").whole();
  if (!count || *count < 1 || *count > 1000000) {
    reader.fault("count", "must be a whole number from 1 to 1000000");
    return;
  }
  claim.mode = Mode::counted;
  claim.count = static_cast<std::uint32_t>(*count);
}

std::optional<Status> read_wanted_status(Reader& reader) {
  const Value value = reader.take("status");
  const auto status =
      value.kind == Value::Kind::string ? claims::to_status(value.text) : std::nullopt;
  if (status && *status != Status::waiting && *status != Status::expired) return status;
  reader.fault("status", "must be one of active, released, aborted, revoked, withdrawn");
  return std::nullopt;
}

}  // namespace

Parsed<NewClaim> parse_new_claim(std::string_view body, const BodyLimits& limits) {
  Reader reader(body, limits);
  NewClaim claim;
  if (!reader.is_object()) return reader.end(std::move(claim));
  claim.resource = reader.take_name("resource");
  claim.ttl = reader.take_seconds("ttl").value_or(Micros{});
  if (reader.has("user_data")) claim.user_data = reader.take("user_data").json();
  read_mode(reader, claim);
  if (reader.has("waiting_ttl")) {
    const auto silence = reader.take_seconds("waiting_ttl");
    if (silence && silence->count() == 0) reader.fault("waiting_ttl", "must be more than 0");
    claim.waiting_ttl = silence.value_or(Micros{});
  }
  return reader.end(std::move(claim));
}

Parsed<ClaimChange> parse_claim_change(std::string_view body, const BodyLimits& limits) {
  Reader reader(body, limits);
  ClaimChange change;
  if (!reader.is_object()) return reader.end(change);
  const bool has_ttl = reader.has("ttl");
  const bool has_status = reader.has("status");
  if (has_ttl) change.ttl = reader.take_seconds("ttl");
  if (has_ttl && has_status) reader.fault("extra-parameters", "only one of ttl and status");
  if (!has_ttl && (!has_status || reader.is_null("status"))) {
    (void)reader.take("status");
    reader.fault("missing-parameters", "one of ttl and status");
  } else if (has_status) {
    change.status = read_wanted_status(reader);
  }
  return reader.end(change);
}

Parsed<Revocation> parse_revocation(std::string_view body, const BodyLimits& limits) {
  Reader reader(body, limits);
  Revocation wish;
  if (!reader.is_object()) return reader.end(std::move(wish));
  Value reason = reader.take("reason");
  if (reason.kind == Value::Kind::string) wish.reason = std::move(reason.text);
  if (wish.reason.empty()) reader.fault("reason", "is required: text that tells the owner why");
  if (wish.reason.find('\0') != std::string::npos) reader.fault("reason", "must not hold a NUL");
  if (reader.has("claim")) {
    wish.claim = reader.take("claim").whole();
    if (!wish.claim) reader.fault("claim", "must be the number of a claim");
  }
  if (reader.has("resource")) wish.resource = reader.take_name("resource");
  if (reader.has("owner")) wish.owner = reader.take_name("owner");
  if (reader.has("status")) {
    const Value value = reader.take("status");
    if (value.is_string("active")) {
      wish.status = Status::active;
    } else if (value.is_string("waiting")) {
      wish.status = Status::waiting;
    } else {
      reader.fault("status", "must be active or waiting");
    }
  }
  Parsed<Revocation> parsed = reader.end(wish);
  const bool has_filter = wish.claim || wish.resource || wish.owner || wish.status;
  if (std::holds_alternative<Revocation>(parsed) && !has_filter) {
    return Faults{{"missing-parameters", "at least one of claim, resource, owner, status"}};
  }
  return parsed;
}

std::optional<double> to_real(std::string_view text) {
  if (text.empty() || text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) {
    return std::nullopt;
  }
  if (text.front() == '+') {
    text.remove_prefix(1);
    if (text.starts_with('-')) return std::nullopt;
  }
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string to_json(const Faults& faults) {
  std::string out = "{";
  for (const auto& [parameter, why] : faults) {
    if (out.size() > 1) out += ", ";
    put_json_string(out, parameter);
    out += ": ";
    put_json_string(out, why);
  }
  out += "}";
  return out;
}

}  // namespace holdfast::wire
