#include "routes/auth.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include "base/text.h"

namespace holdfast::routes {
namespace {

struct Word {
  std::string_view word;
  Scope scope;
};
constexpr std::array kWords{Word{"read", read}, Word{"claim", claim}, Word{"admin", admin}};

constexpr std::size_t kRandomBytes = 32;

std::string to_hex(const unsigned char* bytes, std::size_t size) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < size; ++i) {
    text += kDigits[bytes[i] >> 4];
    text += kDigits[bytes[i] & 15];
  }
  return text;
}

/// As long as what to_hex() makes of kRandomBytes, which is the size of a SHA-256 too.
bool is_hex(std::string_view text) {
  return text.size() == 2 * kRandomBytes &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string random_text() {
  std::array<unsigned char, kRandomBytes> bytes{};
  if (RAND_bytes(bytes.data(), static_cast<int>(bytes.size())) != 1) return {};
  return to_hex(bytes.data(), bytes.size());
}

std::string hash_of(const std::string& salt, std::string_view secret) {
  std::string salted = salt;
  salted += secret;
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  EVP_Digest(salted.data(), salted.size(), digest.data(), &size, EVP_sha256(), nullptr);
  return to_hex(digest.data(), size);
}

bool is_equal(const std::string& a, const std::string& b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

/// Or is empty. An editor may have left it without.
bool ends_in_newline(int fd) {
  const off_t size = lseek(fd, 0, SEEK_END);
  char last = '\n';
  return size <= 0 || pread(fd, &last, 1, size - 1) != 1 || last == '\n';
}

std::chrono::seconds wall_now() {
  return std::chrono::duration_cast<std::chrono::seconds>(
      std::chrono::system_clock::now().time_since_epoch());
}

/// What stands behind "Bearer", in any case.
std::string_view bearer(const http::Request& request) {
  const std::string_view field = request.header("Authorization");
  constexpr std::string_view kWord = "bearer ";
  if (field.size() <= kWord.size()) return {};
  for (std::size_t i = 0; i < kWord.size(); ++i) {
    const char c = lower(field[i]);
    if (c != kWord[i]) return {};
  }
  const std::size_t begin = field.find_first_not_of(' ', kWord.size());
  return begin == std::string_view::npos ? std::string_view() : field.substr(begin);
}

}  // namespace

std::optional<unsigned> to_scopes(std::string_view words) {
  unsigned scopes = none;
  for (const std::string_view word : split(words, ",", false)) {
    unsigned scope = none;
    for (const Word& known : kWords) {
      if (known.word == word) scope = known.scope;
    }
    if (scope == none) return std::nullopt;
    scopes |= scope;
  }
  return scopes;
}

std::vector<std::string_view> scope_words(unsigned scopes) {
  std::vector<std::string_view> words;
  for (const Word& known : kWords) {
    if ((scopes & known.scope) != 0) words.push_back(known.word);
  }
  return words;
}

bool is_token_name(std::string_view name) {
  constexpr std::string_view kAllowed =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.@_-";
  return !name.empty() && name.size() <= 64 &&
         name.find_first_not_of(kAllowed) == std::string_view::npos;
}

std::optional<Tokens::Line> Tokens::parse(std::string_view text) {
  const auto words = split(text, " \t", true);
  if (words.size() != 5 || !is_token_name(words[0])) return std::nullopt;
  const auto scopes = to_scopes(words[1]);
  const auto expires = to_number(words[2]);
  if (!scopes || (!expires && words[2] != "-")) return std::nullopt;
  if (!is_hex(words[3]) || !is_hex(words[4])) return std::nullopt;
  Line line;
  line.name = words[0];
  line.scopes = *scopes;
  if (expires) line.expires = std::chrono::seconds(*expires);
  line.salt = words[3];
  line.hash = words[4];
  return line;
}

std::variant<Tokens, std::string> Tokens::load(const std::string& file) {
  std::ifstream in(file);
  if (!in) return file + ": " + std::generic_category().message(errno);
  Tokens tokens;
  std::size_t number = 0;
  for (std::string text; std::getline(in, text);) {
    ++number;
    if (text.empty() || text.front() == '#') continue;
    auto line = parse(text);
    if (!line)
      return file + ": line " + std::to_string(number) + " is not NAME SCOPES EXPIRES SALT HASH";
    tokens.lines_.push_back(std::move(*line));
  }
  if (in.bad()) return file + ": cannot be read";
  return tokens;
}

std::optional<Principal> Tokens::find(std::string_view token, std::chrono::seconds wall) const {
  const std::size_t dot = token.rfind('.');
  const std::string_view name = token.substr(0, dot);
  const std::string_view secret = dot == std::string_view::npos ? "" : token.substr(dot + 1);
  std::optional<Principal> found;
  bool was_compared = false;
  for (const Line& line : lines_) {
    if (line.name != name) continue;
    was_compared = true;
    const bool is_right = is_equal(hash_of(line.salt, secret), line.hash);
    const bool is_valid = !line.expires || wall < *line.expires;
    if (is_right && is_valid) found = Principal{line.name, line.scopes};
  }
  if (!was_compared) (void)hash_of(std::string(2 * kRandomBytes, '0'), secret);  // takes its time
  return found;
}

std::set<std::string> Tokens::names_that_differ(const Tokens& other) const {
  std::set<std::string> names;
  const auto add_missing = [&names](const Tokens& from, const Tokens& in) {
    for (const Line& line : from.lines_) {
      const bool is_there = std::find(in.lines_.begin(), in.lines_.end(), line) != in.lines_.end();
      if (!is_there) names.insert(line.name);
    }
  };
  add_missing(*this, other);
  add_missing(other, *this);
  return names;
}

std::variant<std::string, std::string> add_token(const std::string& file, const std::string& name,
                                                 unsigned scopes,
                                                 std::optional<std::chrono::seconds> expires) {
  using Result = std::variant<std::string, std::string>;
  const auto failed = [&](const std::string& why) { return Result(std::in_place_index<1>, why); };
  const std::string secret = random_text();
  const std::string salt = random_text();
  if (secret.empty() || salt.empty()) return failed("no random numbers");
  std::string line = name;
  char separator = ' ';
  for (const std::string_view word : scope_words(scopes)) {
    line += separator;
    line += word;
    separator = ',';
  }
  line += ' ';
  line += expires ? std::to_string(expires->count()) : "-";
  for (const std::string& word : {salt, hash_of(salt, secret)}) {
    line += ' ';
    line += word;
  }
  line += '\n';
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return failed(file + ": " + std::generic_category().message(errno));
  if (!ends_in_newline(fd)) line = std::string(1, '\n').append(line);
  const bool is_written =
      write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (!is_written) return failed(file + ": " + std::generic_category().message(error));
  return Result(std::in_place_index<0>, name + "." + secret);
}

std::optional<Principal> identify(const http::Request& request, const Tokens* tokens) {
  const std::string_view token = bearer(request);
  if (tokens != nullptr && (!token.empty() || !request.peer().uid)) {
    return tokens->find(token, wall_now());
  }
  if (const auto uid = request.peer().uid) {
    const bool is_ours = *uid == 0 || *uid == geteuid();
    return Principal{"uid:" + std::to_string(*uid), is_ours ? read | claim | admin : read | claim};
  }
  return Principal{};
}

}  // namespace holdfast::routes
