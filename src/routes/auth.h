#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "http/message.h"

namespace holdfast::routes {

/// What a caller may do. A set.
enum Scope : unsigned {
  none = 0,
  read = 1,   ///< every GET
  claim = 2,  ///< the same, and claims of one's own
  admin = 4,  ///< all, other people's claims too
};

struct Principal {
  std::string name;  ///< empty: nobody in particular
  unsigned scopes = read | claim | admin;

  bool may(Scope scope) const {
    if ((scopes & admin) != 0 || scope == none) return true;
    return scope == read ? (scopes & (read | claim)) != 0 : (scopes & scope) != 0;
  }
};

std::optional<unsigned> to_scopes(std::string_view words);  ///< "claim,read"
std::vector<std::string_view> scope_words(unsigned scopes);

/// The bearer tokens of a file; only salted hashes of them are there.
///
/// A line: NAME SCOPES EXPIRES SALT HASH. EXPIRES is a Unix time or "-". A token is NAME.SECRET; a
/// name may have several. The secret has 256 random bits, so one round of SHA-256 is enough.
/// Promises: comparing takes the same time wherever the first difference is, and for an unknown
/// name too.
class Tokens {
 public:
  /// The reason if the file cannot be read or has a malformed line.
  static std::variant<Tokens, std::string> load(const std::string& file);

  /// Who that is; nobody if it is unknown, wrong, or expired at `wall`.
  std::optional<Principal> find(std::string_view token, std::chrono::seconds wall) const;

  /// Returns the names whose tokens were added, removed or changed between the two files.
  std::set<std::string> names_that_differ(const Tokens& other) const;

 private:
  struct Line {
    std::string name;
    unsigned scopes = 0;
    std::optional<std::chrono::seconds> expires;
    std::string salt;
    std::string hash;

    bool operator==(const Line&) const = default;
  };
  static std::optional<Line> parse(std::string_view text);

  std::vector<Line> lines_;
};

/// Appends a new token to the file, readable by its owner only, and gives its text, which is kept
/// nowhere. The second is the reason if that failed.
std::variant<std::string, std::string> add_token(const std::string& file, const std::string& name,
                                                 unsigned scopes,
                                                 std::optional<std::chrono::seconds> expires);

/// Letters, digits and ".@_-", at most 64.
bool is_token_name(std::string_view name);

/// Who sent a request. With tokens: whose token it shows, or over a unix socket the process that
/// connected; root and the server's own user are admins there. Without tokens everybody who comes
/// by another way may do all.
std::optional<Principal> identify(const http::Request& request, const Tokens* tokens);

}  // namespace holdfast::routes
