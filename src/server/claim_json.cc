#include "server/claim_json.h"

#include <cstdlib>

#include "base/json.h"
#include "wire/date.h"

namespace holdfast::server {
namespace {

void put_key(std::string& out, std::string_view key) {
  out += ", \"";
  out += key;
  out += "\": ";
}

void put_moment(std::string& out, Status status, Micros wall, const std::string& reason) {
  out += "{\"status\": \"";
  out += wire::word(status);
  out += "\", \"timestamp\": \"";
  wire::put_date(out, wall);
  out += '"';
  if (!reason.empty()) {
    put_key(out, "reason");
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
  out += std::to_string(size / 1000000);
  if (size % 1000000 == 0) return;
  std::string fraction = std::to_string(1000000 + size % 1000000);
  fraction[0] = '.';
  out += fraction.substr(0, fraction.find_last_not_of('0') + 1);
}

void put_claim(std::string& out, const View& view, Stamp now, std::string_view url_base) {
  const Claim& claim = view.claim;
  const std::string id = std::to_string(claim.id);
  out += "{\"id\": ";
  out += id;
  if (!url_base.empty()) {
    put_key(out, "url");
    std::string url(url_base);
    url += id;
    url += '/';
    put_json_string(out, url);
  }
  put_key(out, "resource");
  put_json_string(out, claim.resource);
  put_key(out, "status");
  out += '"';
  out += wire::word(claim.status);
  out += '"';
  put_key(out, "created");
  out += '"';
  wire::put_date(out, claim.queued.wall);
  out += '"';
  put_key(out, "user_data");
  out += claim.user_data.empty() ? "null" : claim.user_data;
  put_key(out, "ttl");
  if (claim.status == Status::active) {
    put_seconds(out, claim.deadline - now.time);
  } else {
    out += "null";
  }
  put_key(out, "active_duration");
  if (claim.was_active()) {
    put_seconds(out, claim.was_active_for(now.time));
  } else {
    out += "null";
  }
  put_key(out, "waiting_duration");
  put_seconds(out, claim.waited(now.time));
  put_key(out, "status_history");
  put_history(out, claim);
  put_key(out, "owner");
  if (claim.owner.empty()) {
    out += "null";
  } else {
    put_json_string(out, claim.owner);
  }
  put_key(out, "mode");
  out += '"';
  out += wire::word(claim.mode);
  out += '"';
  if (claim.mode == Mode::counted) {
    put_key(out, "count");
    out += std::to_string(claim.count);
  }
  put_key(out, "fence");
  out += claim.was_active() ? std::to_string(claim.fence) : "null";
  put_key(out, "position");
  out += view.position != 0 ? std::to_string(view.position) : "null";
  put_key(out, "initial_ttl");
  put_seconds(out, claim.ttl);
  put_key(out, "waiting_ttl");
  if (claim.waiting_ttl.count() != 0) {
    put_seconds(out, claim.waiting_ttl);
  } else {
    out += "null";
  }
  out += '}';
}

}  // namespace holdfast::server
