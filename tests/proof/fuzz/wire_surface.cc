#include <cmath>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "http/address.h"
#include "proof/fuzz/surface.h"
#include "routes/target.h"
#include "wire/body.h"
#include "wire/date.h"

namespace holdfast::testing {
namespace {

using namespace std::chrono_literals;
using Json = nlohmann::json;

bool is_json(std::string_view text) {
  return Json::accept(text);
}

/// As the JSON library sees it.
bool is_utf8(std::string_view text) {
  using Handler = Json::error_handler_t;
  return Json(text).dump(-1, ' ', false, Handler::ignore) ==
         Json(text).dump(-1, ' ', false, Handler::replace);
}

void check_name(const std::string& name, const wire::BodyLimits& limits) {
  demand(!name.empty() && name.size() <= limits.max_name, "a name has a size");
  demand(name.find('\0') == std::string::npos, "a name holds no NUL");
  demand(is_utf8(name), "a name is UTF-8");
}

template <class T>
const T* accepted(const wire::Parsed<T>& parsed, std::string_view bytes) {
  if (const auto* faults = std::get_if<wire::Faults>(&parsed)) {
    demand(!faults->empty(), "a refusal has a reason");
    demand(is_json(wire::to_json(*faults)), "faults are JSON");
    return nullptr;
  }
  demand(is_json(bytes), "what is accepted is JSON");
  return &std::get<T>(parsed);
}

void check_bodies(std::string_view bytes) {
  const wire::BodyLimits limits{200, 20};
  const auto is_lease = [](wire::Micros time) {
    return time.count() >= 0 && time <= std::chrono::seconds(10'000'000'000);
  };
  const auto claim = wire::parse_new_claim(bytes, limits);
  if (const auto* wish = accepted(claim, bytes)) {
    check_name(wish->resource, limits);
    demand(is_lease(wish->ttl) && is_lease(wish->waiting_ttl), "a ttl has a limit");
    demand((wish->mode == claims::Mode::counted) == (wish->count != 0), "a count counts");
    demand(is_json(wish->user_data), "user_data is JSON");
    const Json object = Json::parse(bytes);
    demand(Json::parse(wish->user_data) == object.value("user_data", Json()),
           "user_data is what was given");
    const Json& name = object.at("resource");
    demand(name.is_string() ? wish->resource == name.get<std::string>()
                            : Json::parse(wish->resource) == name,
           "a name is what was given");
  }
  const auto change = wire::parse_claim_change(bytes, limits);
  if (const auto* wish = accepted(change, bytes)) {
    demand(wish->ttl.has_value() != wish->status.has_value(), "one thing is changed");
    demand(!wish->ttl || is_lease(*wish->ttl), "a ttl has a limit");
  }
  const auto revocation = wire::parse_revocation(bytes, limits);
  if (const auto* wish = accepted(revocation, bytes)) {
    demand(!wish->reason.empty() && is_utf8(wish->reason), "a reason is text");
    if (wish->resource) check_name(*wish->resource, limits);
    if (wish->owner) check_name(*wish->owner, limits);
  }
}

void check_words(std::string_view bytes) {
  if (const auto number = wire::to_real(bytes))
    demand(std::isfinite(*number), "a number is finite");
  const auto date = wire::parse_date(bytes);
  // With a zone the ends of the years that can be read may be passed.
  if (date && *date > 0s && *date < std::chrono::years(8000)) {
    demand(wire::parse_date(wire::to_date(*date)) == date, "a date is what was read");
  }
  std::string quoted;
  put_json_string(quoted, bytes);
  demand(is_json(quoted), "any bytes can be shown as JSON");
  (void)http::parse_address(bytes);
}

void check_target(std::string_view bytes) {
  for (const bool plus : {false, true}) {
    if (const auto text = routes::decode(bytes, plus)) demand(is_utf8(*text), "decoded is UTF-8");
  }
  const routes::Target target = routes::find_target(bytes);
  const bool is_named =
      target.place == routes::Place::queue || target.place == routes::Place::fence;
  demand(!is_named || is_utf8(target.argument), "a name in a path is UTF-8");
  const auto limit = routes::Query(bytes).value("limit");
  demand(!limit || is_utf8(*limit), "a value of a query is UTF-8");
}

}  // namespace

void check_wire(std::string_view bytes) {
  check_bodies(bytes);
  check_words(bytes);
  check_target(bytes);
}

}  // namespace holdfast::testing
