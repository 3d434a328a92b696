#include <algorithm>
#include <utility>

#include "base/json.h"
#include "routes/api.h"
#include "wire/claim_object.h"

namespace holdfast::routes {
namespace {

constexpr std::size_t kPage = 100;
/// Some megabytes, made in some milliseconds: nobody else is answered meanwhile.
constexpr std::size_t kMaxPage = 1000;

/// As page_of, but never more than that at once.
std::variant<Page, std::string> short_page_of(const Query& query) {
  auto page = page_of(query, kPage);
  if (auto* read = std::get_if<Page>(&page)) read->limit = std::min(read->limit, kMaxPage);
  return page;
}

void put_claims(std::string& out, const std::vector<server::View>& views, server::Stamp now,
                const std::string& base) {
  out += '[';
  const char* separator = "";
  for (const server::View& view : views) {
    out += separator;
    wire::put_claim(out, view, now, base);
    separator = ", ";
  }
  out += ']';
}

/// Without the closing brace.
void put_resource(std::string& out, const server::ResourceView& resource, server::Stamp now,
                  const std::string& base) {
  out += "{\"name\": ";
  put_json_string(out, resource.name);
  out += ", \"mode\": ";
  if (resource.active.empty()) {
    out += "null, \"owner\": null";
  } else {
    out += '"';
    out += claims::word(resource.active.front().claim.mode);
    out += "\", \"owner\": ";
    wire::put_claim(out, resource.active.front(), now, base);
  }
  out += ", \"active\": ";
  put_claims(out, resource.active, now, base);
  out += ", \"queue_length\": " + std::to_string(resource.queue_length);
  out += ", \"fence\": " + std::to_string(resource.fence);
}

}  // namespace

void Api::list_resources(const Call& call) {
  const Query query = call.query();
  const auto page = short_page_of(query);
  if (const auto* fault = std::get_if<std::string>(&page)) return reply_message(call, 400, *fault);
  server::ResourceQuery wanted;
  wanted.contains = query.value("q").value_or("");
  wanted.with_idle = query.value("all") == "1";
  wanted.limit = std::get<Page>(page).limit;
  wanted.offset = std::get<Page>(page).offset;
  store_.resources(std::move(wanted),
                   [this, call](const server::Told<std::vector<server::ResourceView>>& told) {
                     if (!told.value) return reply_unavailable(call, told.reason);
                     const std::string base = url_base(call.request());
                     std::string body = "[";
                     for (const server::ResourceView& resource : *told.value) {
                       if (body.size() > 1) body += ", ";
                       put_resource(body, resource, told.now, base);
                       body += '}';
                     }
                     body += ']';
                     reply(call, 200, std::move(body));
                   });
}

void Api::get_queue(const Call& call) {
  const auto page = short_page_of(call.query());
  if (const auto* fault = std::get_if<std::string>(&page)) return reply_message(call, 400, *fault);
  const auto [limit, offset] = std::get<Page>(page);
  store_.queue(call.target.argument, limit, offset,
               [this, call](const server::Told<server::QueueView>& told) {
                 if (!told.value) return reply_unavailable(call, told.reason);
                 const std::string base = url_base(call.request());
                 std::string body;
                 put_resource(body, told.value->resource, told.now, base);
                 body += ", \"waiting\": ";
                 put_claims(body, told.value->waiting, told.now, base);
                 body += '}';
                 reply(call, 200, std::move(body));
               });
}

void Api::get_fence(const Call& call) {
  store_.fence(call.target.argument, [call](const server::Told<std::uint64_t>& told) {
    if (!told.value) return reply_unavailable(call, told.reason);
    std::string body = "{\"name\": ";
    put_json_string(body, call.target.argument);
    body += ", \"fence\": " + std::to_string(*told.value) + "}";
    reply(call, 200, std::move(body));
  });
}

}  // namespace holdfast::routes
