#include "base/json.h"

#include <cstddef>
#include <cstdio>

#include "base/text.h"

namespace holdfast {
namespace {

/// Stands for itself in a JSON string, and is a character by itself.
bool is_plain(char c) {
  return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

}  // namespace

void put_json_string(std::string& out, std::string_view text) {
  out += '"';
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t begin = i;
    while (i < text.size() && is_plain(text[i])) ++i;
    out.append(text, begin, i - begin);
    if (i == text.size()) break;
    const char c = text[i];
    const std::size_t length = utf8_length(text, i);
    if (length == 0) {
      out += '?';
      ++i;
    } else if (length > 1) {
      out.append(text, i, length);
      i += length;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      ++i;
    } else {
      char escape[7];
      std::snprintf(escape, sizeof escape, "\\u%04x", static_cast<unsigned char>(c));
      out += escape;
      ++i;
    }
  }
  out += '"';
}

}  // namespace holdfast
