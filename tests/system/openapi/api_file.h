#pragma once

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/raw_http.h"

namespace holdfast::testing {

using Json = nlohmann::json;

/// What is wrong, one line for each; none: all is as it should be.
using Complaints = std::vector<std::string>;

/// An OpenAPI 3.0 file that replies are held against: the part of it that ours makes use of.
///
/// Strict:   an object whose properties are listed has no others, also where the file, for the sake
///           of clients that outlive it, leaves that open.
class ApiFile {
 public:
  explicit ApiFile(Json file) : file_(std::move(file)) {}

  const Json& json() const { return file_; }

  /// Of a reply to `method` on the path as the file writes it. Remembers that there was one.
  Complaints look(const std::string& method, const std::string& path, const RawReply& reply);

  /// Of a reply that the file describes under components/responses, for no path in particular.
  Complaints look_shared(const std::string& name, const RawReply& reply);

  /// Of a request's body.
  Complaints look_body(const std::string& method, const std::string& path, const Json& body) const;

  Complaints look_at(const Json& schema, const Json& value, const std::string& where = "") const;

  const Json& schema(const std::string& name) const;

  /// Replies that the file describes and that never came: of those told in place each one, of those
  /// that several paths share each at one of them; and requests that were never sent.
  std::set<std::string> unseen() const;

 private:
  const Json& resolved(const Json& node) const;
  Complaints look_reply(const Json& response, const RawReply& reply) const;
  void look_object(const Json& schema, const Json& value, const std::string& where,
                   Complaints& complaints) const;
  void look_size(const Json& schema, const Json& value, const std::string& where,
                 Complaints& complaints) const;
  void look_branches(const Json& schema, const Json& value, const std::string& where,
                     Complaints& complaints) const;

  Json file_;
  std::set<std::string> seen_;
};

}  // namespace holdfast::testing
