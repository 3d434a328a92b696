#include "api_file.h"

#include <algorithm>
#include <regex>

namespace holdfast::testing {
namespace {

const Json& member(const Json& node, const std::string& key) {
  static const Json kNothing;
  const auto found = node.find(key);
  return found == node.end() ? kNothing : *found;
}

std::string in_small_letters(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

bool is_of_type(const std::string& type, const Json& value) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "integer") return value.is_number_integer();
  return type == "number" && value.is_number();
}

/// "Retry-After: 5" is text, and a number where the file says so.
Json header_value(const Json& schema, const std::string& text) {
  const bool is_number = member(schema, "type") == "integer";
  Json number = is_number ? Json::parse(text, nullptr, false) : Json();
  return is_number && !number.is_discarded() ? number : Json(text);
}

}  // namespace

const Json& ApiFile::resolved(const Json& node) const {
  const Json& ref = member(node, "$ref");
  if (ref.is_null()) return node;
  return file_.at(Json::json_pointer(ref.get<std::string>().substr(1)));
}

const Json& ApiFile::schema(const std::string& name) const {
  return file_.at("components").at("schemas").at(name);
}

Complaints ApiFile::look(const std::string& method, const std::string& path,
                         const RawReply& reply) {
  const Json& operation = member(member(file_.at("paths"), path), method);
  if (operation.is_null()) return {method + " " + path + " is not in the file"};
  const Json& response = member(operation.at("responses"), std::to_string(reply.status));
  const std::string name = method + " " + path + " " + std::to_string(reply.status);
  if (response.is_null()) return {name + " is not in the file: " + reply.body};
  const Json& ref = member(response, "$ref");
  seen_.insert(method + " " + path);
  seen_.insert(ref.is_null() ? name : ref.get<std::string>());
  Complaints complaints = look_reply(resolved(response), reply);
  for (std::string& complaint : complaints) complaint.insert(0, name + " ");
  return complaints;
}

Complaints ApiFile::look_shared(const std::string& name, const RawReply& reply) {
  seen_.insert("#/components/responses/" + name);
  return look_reply(file_.at("components").at("responses").at(name), reply);
}

Complaints ApiFile::look_reply(const Json& response, const RawReply& reply) const {
  Complaints complaints;
  for (const auto& [name, node] : response.at("headers").items()) {
    const Json& header = resolved(node);
    const std::string small = in_small_letters(name);
    if (!reply.has(small)) {
      if (member(header, "required") == true) complaints.push_back("has no header " + name);
      continue;
    }
    const Json& expected = header.at("schema");
    const auto found = look_at(expected, header_value(expected, reply.header(small)), name);
    complaints.insert(complaints.end(), found.begin(), found.end());
  }
  const Json& content = member(response, "content");
  if (content.is_null()) {
    if (!reply.body.empty()) complaints.push_back("has a body: " + reply.body);
    return complaints;
  }
  const std::string field = reply.header("content-type");
  const std::string type = field.substr(0, field.find(';'));
  const Json& media = member(content, type);
  if (media.is_null()) {
    complaints.push_back("has the type " + type);
  } else {
    const bool is_json = type == "application/json";
    const Json value = is_json ? Json::parse(reply.body, nullptr, false) : Json(reply.body);
    const auto found = look_at(media.at("schema"), value, "body");
    complaints.insert(complaints.end(), found.begin(), found.end());
  }
  return complaints;
}

Complaints ApiFile::look_body(const std::string& method, const std::string& path,
                              const Json& body) const {
  const Json& request = file_.at("paths").at(path).at(method).at("requestBody");
  return look_at(request.at("content").at("application/json").at("schema"), body, "body");
}

Complaints ApiFile::look_at(const Json& node, const Json& value, const std::string& where) const {
  const Json& schema = resolved(node);
  if (value.is_discarded()) return {where + " is no JSON"};
  if (value.is_null() && member(schema, "nullable") == true) return {};
  Complaints complaints;
  const Json& type = member(schema, "type");
  if (!type.is_null() && !is_of_type(type, value)) {
    return {where + " is not of type " + type.get<std::string>() + ": " + value.dump()};
  }
  const Json& words = member(schema, "enum");
  if (!words.is_null() && std::find(words.begin(), words.end(), value) == words.end()) {
    complaints.push_back(where + " is none of the words: " + value.dump());
  }
  look_branches(schema, value, where, complaints);
  look_size(schema, value, where, complaints);
  if (value.is_object()) look_object(schema, value, where, complaints);
  if (value.is_array() && schema.contains("items")) {
    for (std::size_t i = 0; i < value.size(); ++i) {
      const auto found =
          look_at(schema.at("items"), value[i], where + "[" + std::to_string(i) + "]");
      complaints.insert(complaints.end(), found.begin(), found.end());
    }
  }
  return complaints;
}

void ApiFile::look_object(const Json& schema, const Json& value, const std::string& where,
                          Complaints& complaints) const {
  for (const Json& name : schema.value("required", Json::array())) {
    if (!value.contains(name.get<std::string>()))
      complaints.push_back(where + " has no " + name.get<std::string>());
  }
  const Json& properties = member(schema, "properties");
  const Json& others = member(schema, "additionalProperties");
  if (properties.is_null() && others.is_null()) return;
  for (const auto& [name, part] : value.items()) {
    const Json& known = member(properties, name);
    const Json& expected = !known.is_null() ? known : others;
    if (!expected.is_object()) {
      complaints.push_back(where + " has " + name + ", which is not in the file");
      continue;
    }
    const auto found = look_at(expected, part, where + "." + name);
    complaints.insert(complaints.end(), found.begin(), found.end());
  }
}

void ApiFile::look_size(const Json& schema, const Json& value, const std::string& where,
                        Complaints& complaints) const {
  const auto limit = [&schema](const char* key) -> const Json& { return member(schema, key); };
  const auto complain = [&](const char* key) {
    complaints.push_back(where + " breaks " + key + ": " + value.dump());
  };
  if (value.is_number()) {
    const double number = value;
    const bool is_open = limit("exclusiveMinimum") == true;
    if (!limit("minimum").is_null() &&
        (is_open ? number <= limit("minimum") : number < limit("minimum")))
      complain("minimum");
    if (!limit("maximum").is_null() && number > limit("maximum")) complain("maximum");
  }
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (!limit("minLength").is_null() && text.size() < limit("minLength")) complain("minLength");
    if (!limit("pattern").is_null() &&
        !std::regex_search(text, std::regex(limit("pattern").get<std::string>())))
      complain("pattern");
  }
  if (!limit("minItems").is_null() && value.size() < limit("minItems")) complain("minItems");
  if (!limit("minProperties").is_null() && value.size() < limit("minProperties"))
    complain("minProperties");
}

void ApiFile::look_branches(const Json& schema, const Json& value, const std::string& where,
                            Complaints& complaints) const {
  const auto fitting = [&](const char* key) {
    const Json& branches = schema.at(key);
    return std::count_if(branches.begin(), branches.end(),
                         [&](const Json& branch) { return look_at(branch, value, where).empty(); });
  };
  if (schema.contains("oneOf") && fitting("oneOf") != 1)
    complaints.push_back(where + " fits not just one of oneOf: " + value.dump());
  if (schema.contains("anyOf") && fitting("anyOf") == 0)
    complaints.push_back(where + " fits none of anyOf: " + value.dump());
  if (schema.contains("not") && look_at(schema.at("not"), value, where).empty())
    complaints.push_back(where + " fits what it must not: " + value.dump());
  for (const Json& branch : schema.value("allOf", Json::array())) {
    const auto found = look_at(branch, value, where);
    complaints.insert(complaints.end(), found.begin(), found.end());
  }
}

std::set<std::string> ApiFile::unseen() const {
  std::set<std::string> missing;
  const auto want = [&](const std::string& name) {
    if (!seen_.contains(name)) missing.insert(name);
  };
  for (const auto& [path, methods] : file_.at("paths").items()) {
    for (const auto& [method, operation] : methods.items()) {
      if (method == "parameters") continue;
      want(method + " " + path);
      for (const auto& [status, response] : operation.at("responses").items()) {
        if (!response.contains("$ref")) want(method + " " + path + " " + status);
      }
    }
  }
  for (const auto& [name, response] : file_.at("components").at("responses").items()) {
    want("#/components/responses/" + name);
  }
  return missing;
}

}  // namespace holdfast::testing
