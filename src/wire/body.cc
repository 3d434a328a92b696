#include "wire/body.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace holdfast::wire {
namespace {

using Json = nlohmann::json;

/// The largest lease that is given, in seconds: three hundred years, and still far from overflow.
constexpr double kMaxTtl = 1e10;

/// How deep arrays and objects nest, before any of them is built: building and printing take stack.
bool is_deeper_than(std::string_view text, std::size_t limit) {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > limit) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

Micros to_micros(double seconds) {
  return Micros(static_cast<std::int64_t>(std::llround(seconds * 1e6)));
}

/// One body being looked at: takes the known keys out of the object and gathers what is wrong.
class Reader {
 public:
  Reader(std::string_view body, const BodyLimits& limits) : limits_(limits) {
    if (is_deeper_than(body, limits.max_depth)) {
      fault("message", "nested deeper than " + std::to_string(limits.max_depth));
      return;
    }
    object_ = Json::parse(body, nullptr, false);
    if (object_.is_discarded()) {
      fault("message", "the body is not JSON");
    } else if (!object_.is_object()) {
      fault("message", "the body is not a JSON object");
    }
  }

  bool is_object() const { return object_.is_object(); }

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

  /// The value of a key, which counts as known from now on; null if it is not there.
  Json take(const char* key) {
    const auto found = object_.find(key);
    if (found == object_.end()) return nullptr;
    Json value = std::move(*found);
    object_.erase(found);
    return value;
  }

  bool has(const char* key) const { return object_.contains(key); }

  std::string take_name(const char* key) {
    const Json value = take(key);
    if (value.is_null()) {
      fault(key, "is required");
      return {};
    }
    std::string name;
    if (value.is_number()) {
      name = value.dump();
    } else if (value.is_string()) {
      name = value.get<std::string>();
    } else {
      fault(key, "must be a string");
      return {};
    }
    if (name.empty()) fault(key, "must not be empty");
    if (name.find('\0') != std::string::npos) fault(key, "must not hold a NUL");
    if (name.size() > limits_.max_name) {
      fault(key, "must not be longer than " + std::to_string(limits_.max_name) + " bytes");
    }
    return name;
  }

  /// Seconds, as a number or as text that is one.
  std::optional<Micros> take_seconds(const char* key) {
    const Json value = take(key);
    if (value.is_null()) {
      fault(key, "is required");
      return std::nullopt;
    }
    std::optional<double> seconds;
    if (value.is_number()) seconds = value.get<double>();
    if (value.is_string()) seconds = to_real(value.get_ref<const std::string&>());
    if (!seconds || !std::isfinite(*seconds)) {
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
    if (object_.is_object()) {
      for (const auto& [key, unused] : object_.items()) fault(key, "is not a parameter");
    }
    if (!faults_.empty()) return std::move(faults_);
    return value;
  }

 private:
  /// Faults of our own parameters come first and are fewer than this; what follows are keys of the
  /// object, which differ from each other and may be very many.
  static constexpr std::size_t kOurs = 16;

  const BodyLimits& limits_;
  Json object_;
  Faults faults_;
};

void read_mode(Reader& reader, NewClaim& claim) {
  const bool has_count = reader.has("count");
  if (reader.has("mode")) {
    const Json mode = reader.take("mode");
    if (mode == "shared") {
      claim.mode = Mode::shared;
    } else if (mode != "exclusive") {
      reader.fault("mode", "must be \"exclusive\" or \"shared\"");
    }
    if (has_count) reader.fault("count", "does not go with mode");
  }
  if (!has_count) return;
  const Json count = reader.take("count");
  if (!count.is_number_unsigned() || count.get<std::uint64_t>() < 1 ||
      count.get<std::uint64_t>() > 1000000) {
    reader.fault("count", "must be a whole number from 1 to 1000000");
    return;
  }
  claim.mode = Mode::counted;
  claim.count = count.get<std::uint32_t>();
}

std::optional<Status> read_wanted_status(Reader& reader) {
  const Json value = reader.take("status");
  const auto status =
      value.is_string() ? to_status(value.get_ref<const std::string&>()) : std::nullopt;
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
  if (reader.has("user_data")) claim.user_data = reader.take("user_data").dump();
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
  if (has_status) change.status = read_wanted_status(reader);
  if (has_ttl && has_status) reader.fault("extra-parameters", "only one of ttl and status");
  if (!has_ttl && !has_status) reader.fault("missing-parameters", "one of ttl and status");
  return reader.end(change);
}

Parsed<Revocation> parse_revocation(std::string_view body, const BodyLimits& limits) {
  Reader reader(body, limits);
  Revocation wish;
  if (!reader.is_object()) return reader.end(std::move(wish));
  const Json reason = reader.take("reason");
  if (reason.is_string()) wish.reason = reason.get<std::string>();
  if (wish.reason.empty()) reader.fault("reason", "is required: text that tells the owner why");
  if (wish.reason.find('\0') != std::string::npos) reader.fault("reason", "must not hold a NUL");
  if (reader.has("claim")) {
    const Json id = reader.take("claim");
    if (id.is_number_unsigned()) {
      wish.claim = id.get<std::uint64_t>();
    } else {
      reader.fault("claim", "must be the number of a claim");
    }
  }
  if (reader.has("resource")) wish.resource = reader.take_name("resource");
  if (reader.has("owner")) wish.owner = reader.take_name("owner");
  if (reader.has("status")) {
    const Json value = reader.take("status");
    if (value == "active") {
      wish.status = Status::active;
    } else if (value == "waiting") {
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
