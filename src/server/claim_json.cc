#include "server/claim_json.h"

#include <array>
#include <cstdlib>

#include "base/json.h"
#include "base/text.h"
#include "wire/date.h"

namespace holdfast::server {
namespace {

constexpr std::size_t kUsualSize = 800;  // without user data

void put_or_null(std::string& out, std::uint64_t number) {
  if (number == 0) {
    out += "null";
  } else {
    put_number(out, number);
  }
}

void put_moment(std::string& out, Status status, Micros wall, const std::string& reason) {
  out += R"({"status": ")";
  out += claims::word(status);
  out += R"(", "timestamp": ")";
  wire::put_date(out, wall);
  out += '"';
  if (!reason.empty()) {
    out += R"(, "reason": )";
    put_json_string(out, reason);
  }
  out += '}';
}

void put_history(std::string& out, const Claim& claim) {
  out += '[';
  put_moment(out, Status::waiting, claim.queued.wall, {});
  if (claim.was_active()) {
    out += ", ";
    put_moment(out, Status::active, claim.activated.wall, {});
  }
  if (claim.is_final()) {
    out += ", ";
    put_moment(out, claim.status, claim.ended.wall, claim.reason);
  }
  out += ']';
}

}  // namespace

void put_seconds(std::string& out, Micros time) {
  const std::int64_t micros = time.count();
  if (micros < 0) out += '-';
  const std::uint64_t size = static_cast<std::uint64_t>(std::llabs(micros));
  put_number(out, size / 1000000);
  std::uint64_t rest = size % 1000000;
  if (rest == 0) return;
  std::array<char, 7> fraction{'.', '0', '0', '0', '0', '0', '0'};
  std::size_t end = 1;
  for (std::size_t i = fraction.size() - 1; i > 0; --i, rest /= 10) {
    fraction[i] = static_cast<char>('0' + rest % 10);
    if (end == 1 && fraction[i] != '0') end = i + 1;
  }
  out.append(fraction.data(), end);
}

void put_claim(std::string& out, const View& view, Stamp now, std::string_view url_base) {
  const Claim& claim = view.claim;
  out.reserve(out.size() + kUsualSize + claim.user_data.size());
  out += R"({"id": )";
  put_number(out, claim.id);
  if (!url_base.empty()) {
    out += R"(, "url": )";
    put_json_string(out, url_base);
    out.pop_back();  // the quote
    put_number(out, claim.id);
    out += "/\"";
  }
  out += R"(, "resource": )";
  put_json_string(out, claim.resource);
  out += R"(, "status": ")";
  out += claims::word(claim.status);
  out += '"';
  out += R"(, "created": ")";
  wire::put_date(out, claim.queued.wall);
  out += '"';
  out += R"(, "user_data": )";
  out += claim.user_data.empty() ? std::string_view("null") : claim.user_data;
  out += R"(, "ttl": )";
  if (claim.status == Status::active) {
    put_seconds(out, claim.deadline - now.time);
  } else {
    out += "null";
  }
  out += R"(, "active_duration": )";
  if (claim.was_active()) {
    put_seconds(out, claim.was_active_for(now.time));
  } else {
    out += "null";
  }
  out += R"(, "waiting_duration": )";
  put_seconds(out, claim.waited(now.time));
  out += R"(, "status_history": )";
  put_history(out, claim);
  out += R"(, "owner": )";
  if (claim.owner.empty()) {
    out += "null";
  } else {
    put_json_string(out, claim.owner);
  }
  out += R"(, "mode": ")";
  out += claims::word(claim.mode);
  out += '"';
  if (claim.mode == Mode::counted) {
    out += R"(, "count": )";
    put_number(out, claim.count);
  }
  out += R"(, "fence": )";
  put_or_null(out, claim.fence);
  out += R"(, "position": )";
  put_or_null(out, view.position);
  out += R"(, "initial_ttl": )";
  put_seconds(out, claim.ttl);
  out += R"(, "waiting_ttl": )";
  if (claim.waiting_ttl.count() != 0) {
    put_seconds(out, claim.waiting_ttl);
  } else {
    out += "null";
  }
  out += '}';
}

}  // namespace holdfast::server
