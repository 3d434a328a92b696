#include "base/record.h"

#include <charconv>
#include <cstdio>

#include "base/json.h"
#include "base/text.h"

namespace holdfast {
namespace {

constexpr int kVersion = 1;

void put(std::string& out, std::string_view key, std::string_view text) {
  if (text.empty()) return;
  out += ",\"";
  out += key;
  out += "\":";
  put_json_string(out, text);
}

void put(std::string& out, std::string_view key, std::uint64_t number) {
  if (number == 0) return;
  out += ",\"";
  out += key;
  out += "\":" + std::to_string(number);
}

/// Reads a flat object of strings and whole numbers; anything else is "no record".
class Reader {
 public:
  explicit Reader(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_blanks();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool at_end() {
    skip_blanks();
    return rest_.empty();
  }

  std::optional<std::string> string() {
    if (!take('"')) return std::nullopt;
    std::string text;
    while (!rest_.empty()) {
      const char c = rest_.front();
      rest_.remove_prefix(1);
      if (c == '"') return text;
      if (c != '\\') {
        text += c;
      } else if (!escaped(text)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  std::optional<std::uint64_t> number() {
    skip_blanks();
    std::uint64_t value = 0;
    const auto [end, ec] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (ec != std::errc{}) return std::nullopt;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  bool next_is_string() {
    skip_blanks();
    return !rest_.empty() && rest_.front() == '"';
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t' ||
                              rest_.front() == '\n' || rest_.front() == '\r')) {
      rest_.remove_prefix(1);
    }
  }

  /// We write \" \\ and \u00XX only; a reader of our own lines needs no more than those and the
  /// short forms.
  bool escaped(std::string& text) {
    if (rest_.empty()) return false;
    const char c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kShort = "\"\\/bfnrt";
    constexpr std::string_view kMeans = "\"\\/\b\f\n\r\t";
    if (const auto at = kShort.find(c); at != std::string_view::npos) {
      text += kMeans[at];
      return true;
    }
    if (c != 'u' || rest_.size() < 4) return false;
    unsigned code = 0;
    const auto [end, ec] = std::from_chars(rest_.data(), rest_.data() + 4, code, 16);
    if (ec != std::errc{} || end != rest_.data() + 4) return false;
    rest_.remove_prefix(4);
    text += code < 0x80 ? static_cast<char>(code) : '?';
    return true;
  }

  std::string_view rest_;
};

}  // namespace

std::string to_line(const Record& r) {
  std::string out = "{\"v\":" + std::to_string(kVersion);
  put(out, "host", r.host);
  put(out, "boot", r.boot);
  put(out, "pidns", r.pidns);
  put(out, "timens", r.timens);
  put(out, "pid", r.pid);
  put(out, "start", r.start);
  put(out, "nonce", r.nonce);
  if (r.uid) out += ",\"uid\":" + std::to_string(*r.uid);
  put(out, "user", r.user);
  put(out, "cmd", r.cmd);
  put(out, "since", r.since);
  out += "}\n";
  return out;
}

std::optional<Record> parse_record(std::string_view text) {
  Record r;
  Reader in(text);
  bool versioned = false;
  if (!in.take('{')) return std::nullopt;
  do {
    const auto key = in.string();
    if (!key || !in.take(':')) return std::nullopt;
    if (in.next_is_string()) {
      auto value = in.string();
      if (!value) return std::nullopt;
      if (*key == "host") r.host = *value;
      if (*key == "boot") r.boot = *value;
      if (*key == "pidns") r.pidns = *value;
      if (*key == "timens") r.timens = *value;
      if (*key == "nonce") r.nonce = *value;
      if (*key == "user") r.user = *value;
      if (*key == "cmd") r.cmd = *value;
      if (*key == "since") r.since = *value;
    } else {
      const auto value = in.number();
      if (!value) return std::nullopt;
      if (*key == "v") versioned = *value == kVersion;
      if (*key == "pid") r.pid = *value;
      if (*key == "start") r.start = *value;
      if (*key == "uid") r.uid = *value;
    }
  } while (in.take(','));
  if (!in.take('}') || !in.at_end() || !versioned) return std::nullopt;
  return r;
}

bool is_same_process(const Record& a, const Record& b) {
  return a.names_process() && a.boot == b.boot && a.pidns == b.pidns && a.timens == b.timens &&
         a.pid == b.pid && a.start == b.start;
}

std::string to_since(std::chrono::system_clock::time_point when) {
  // calendar arithmetic, not gmtime: that reads the time zone file, six system calls on the way to
  // a lock
  const auto day = std::chrono::floor<std::chrono::days>(when);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(std::chrono::floor<std::chrono::seconds>(when - day));
  char text[64];
  const int length =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", int(date.year()),
                    unsigned(date.month()), unsigned(date.day()), int(time.hours().count()),
                    int(time.minutes().count()), int(time.seconds().count()));
  return std::string(text, static_cast<std::size_t>(length));
}

std::optional<std::chrono::system_clock::time_point> parse_since(const std::string& since) {
  if (since.size() != 20) return std::nullopt;
  const auto number = [&](std::size_t first, std::size_t digits) {
    return static_cast<int>(to_number(std::string_view(since).substr(first, digits)).value_or(0));
  };
  const std::chrono::year_month_day date{std::chrono::year(number(0, 4)),
                                         std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                         std::chrono::day(static_cast<unsigned>(number(8, 2)))};
  if (!date.ok()) return std::nullopt;
  const auto when = std::chrono::sys_days(date) + std::chrono::hours(number(11, 2)) +
                    std::chrono::minutes(number(14, 2)) + std::chrono::seconds(number(17, 2));
  return to_since(when) == since ? std::optional(when) : std::nullopt;
}

std::string describe(const Record& r) {
  std::string text;
  const auto add = [&](std::string_view before, std::string_view what) {
    if (what.empty()) return;
    if (!text.empty()) text += ' ';
    text += before;
    text += what;
  };
  if (r.pid != 0) add("pid ", std::to_string(r.pid));
  if (!r.cmd.empty()) add("(", r.cmd + ")");
  const std::string number = r.uid ? "uid " + std::to_string(*r.uid) : "";
  if (r.user.empty()) {
    add("of ", number);
  } else {
    add("of ", number.empty() ? r.user : r.user + " (" + number + ")");
  }
  add("on ", r.host);
  add("since ", r.since);
  return text.empty() ? "someone who left no record" : text;
}

}  // namespace holdfast
