#pragma once

#include <atomic>

#include "daemon.h"
#include "http.h"

namespace holdfast::testing {

/// The server as its clients see it: one holdfastd on this run's store, or two on one database that
/// take requests in turn. Threads: requests from anywhere.
class Service {
 public:
  explicit Service(const std::vector<std::string>& options = {}, Kept where = kept());

  Reply send(const Request& request, Connection::Limit limit = Connection::kLimit);
  int port();  ///< of the one whose turn it is

  Reply get(const std::string& target, const Headers& headers = {});
  Reply post(const Json& body, const Headers& headers = {});
  Reply post_text(const std::string& body, const Headers& headers = {});
  Reply patch(long id, const Json& body, const Headers& headers = {});
  Reply patch_text(long id, const std::string& body);

  long claim(const std::string& resource, double ttl = 60);  ///< its id; fails the case if refused
  Json show(long id);                                        ///< the claim object
  std::string status(long id);
  Json list(const std::string& query);  ///< what follows the '?'
  std::vector<long> ids(const std::string& query);

  std::vector<std::unique_ptr<Daemon>>& daemons() { return daemons_; }
  Daemon& daemon() { return *daemons_.front(); }
  const std::string& store() const { return store_; }
  std::string file() const;  ///< of a SQLite store

 private:
  TempDir dir_;
  std::string store_;
  std::vector<std::unique_ptr<Daemon>> daemons_;
  std::atomic<unsigned> turn_{0};
};

/// The one of this program's run, with no options. Cases meet there: each keeps to names of its
/// own.
Service& service();

std::string fresh_name();  ///< of a resource nobody else uses

std::string path_of(long id);
long id_of(const Json& claim);
Json claim_body(const std::string& resource, double ttl = 60);

inline const Headers kJsonType{{"Content-Type", "application/json"}};

}  // namespace holdfast::testing
