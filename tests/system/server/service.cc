#include "service.h"

#include <unistd.h>

#include <catch2/catch.hpp>

namespace holdfast::testing {
namespace {

Headers with_type(Headers headers) {
  headers.insert(headers.begin(), kJsonType.front());
  return headers;
}

}  // namespace

Service::Service(const std::vector<std::string>& options, Kept where)
    : store_(new_store(where, dir_)) {
  const int servers = where == Kept::postgres2 ? 2 : 1;
  for (int i = 0; i < servers; ++i) daemons_.push_back(std::make_unique<Daemon>(store_, options));
}

int Service::port() {
  return daemons_[turn_++ % daemons_.size()]->port();
}

Reply Service::send(const Request& request, Connection::Limit limit) {
  return exchange(port(), request, limit);
}

Reply Service::get(const std::string& target, const Headers& headers) {
  return send({.target = target, .headers = headers});
}

Reply Service::post(const Json& body, const Headers& headers) {
  return post_text(body.dump(), headers);
}

Reply Service::post_text(const std::string& body, const Headers& headers) {
  return send(
      {.method = "POST", .target = "/v1/claims/", .body = body, .headers = with_type(headers)});
}

Reply Service::patch(long id, const Json& body, const Headers& headers) {
  return send({.method = "PATCH",
               .target = path_of(id),
               .body = body.dump(),
               .headers = with_type(headers)});
}

Reply Service::patch_text(long id, const std::string& body) {
  return send({.method = "PATCH", .target = path_of(id), .body = body, .headers = kJsonType});
}

long Service::claim(const std::string& resource, double ttl) {
  const Reply reply = post(claim_body(resource, ttl));
  INFO("POST answered " << reply.status << " " << reply.body);
  REQUIRE((reply.status == 201 || reply.status == 202));
  return id_of(reply.json());
}

Json Service::show(long id) {
  const Reply reply = get(path_of(id));
  INFO("GET answered " << reply.status << " " << reply.body);
  REQUIRE(reply.status == 200);
  return reply.json();
}

std::string Service::status(long id) {
  return show(id).at("status");
}

Json Service::list(const std::string& query) {
  const Reply reply = get("/v1/claims/?" + query);
  INFO("GET answered " << reply.status << " " << reply.body);
  REQUIRE(reply.status == 200);
  return reply.json();
}

std::vector<long> Service::ids(const std::string& query) {
  std::vector<long> found;
  for (const Json& claim : list(query)) found.push_back(id_of(claim));
  return found;
}

std::string Service::file() const {
  return store_.substr(store_.find(':') + 1);
}

Service& service() {
  static Service one;
  return one;
}

std::string fresh_name() {
  static std::atomic<int> count{0};
  return "resource " + std::to_string(getpid()) + "/" + std::to_string(++count);
}

std::string path_of(long id) {
  return "/v1/claims/" + std::to_string(id) + "/";
}

long id_of(const Json& claim) {
  const std::string url = claim.at("url");
  const std::string folder = "/v1/claims/";
  return std::strtol(url.c_str() + url.find(folder) + folder.size(), nullptr, 10);
}

Json claim_body(const std::string& resource, double ttl) {
  return {{"resource", resource}, {"ttl", ttl}};
}

}  // namespace holdfast::testing
