#include "scene.h"

#include <tuple>

namespace holdfast::server {

bool same(const Claim& one, const Claim& other) {
  const auto all = [](const Claim& c) {
    return std::tie(c.id, c.resource, c.owner, c.key, c.user_data, c.reason, c.mode, c.status,
                    c.is_confirmed, c.ttl, c.waiting_ttl, c.count, c.fence, c.queued.time,
                    c.queued.wall, c.activated.time, c.activated.wall, c.ended.time, c.ended.wall,
                    c.deadline, c.heard);
  };
  return all(one) == all(other);
}

std::string told(const Claim& c) {
  std::string text;
  const auto put = [&text](std::string_view name, std::string_view value) {
    text += name;
    text += "='";
    text += value;
    text += "' ";
  };
  const auto put_number = [&put](std::string_view name, auto value) {
    put(name, std::to_string(value));
  };
  put_number("id", c.id);
  put("resource", c.resource);
  put("owner", c.owner);
  put("key", c.key);
  put("user_data", c.user_data);
  put("reason", c.reason);
  put("mode", claims::word(c.mode));
  put("status", claims::word(c.status));
  put_number("confirmed", static_cast<int>(c.is_confirmed));
  put_number("ttl", c.ttl.count());
  put_number("waiting_ttl", c.waiting_ttl.count());
  put_number("count", c.count);
  put_number("fence", c.fence);
  put_number("queued", c.queued.time.count());
  put_number("queued.wall", c.queued.wall.count());
  put_number("activated", c.activated.time.count());
  put_number("activated.wall", c.activated.wall.count());
  put_number("ended", c.ended.time.count());
  put_number("ended.wall", c.ended.wall.count());
  put_number("deadline", c.deadline.count());
  put_number("heard", c.heard.count());
  return text;
}

}  // namespace holdfast::server
