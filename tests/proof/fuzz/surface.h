/// What strangers can send, and what must be true whatever they send. Run by libFuzzer on what it
/// makes up, and by corpus_test on the files of corpus/.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace holdfast::testing {

/// Something that must never be so is so.
class Broken : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

inline void demand(bool is_so, const std::string& what) {
  if (!is_so) throw Broken(what);
}

/// The bytes as a body, a date, a number, a path and a query.
void check_wire(std::string_view bytes);

/// The bytes as all that a client sends to a server with a store in memory. What begins with '!' is
/// a list of requests instead, to which the framing is added here: "METHOD TARGET" and the body in
/// the lines after it, with a line "---" between two of them. A '#' before all of that turns tokens
/// on, those of reader, worker, boss and late, each with the secret "s": "METHOD TARGET worker.s".
/// A '$' after it keeps the claims in SQLite.
void check_http(std::string_view bytes);

/// What a server sent on one connection: whole replies in proper form, none that blames the server
/// for what a client did. With `may_lack_bodies` some of them may be to HEAD.
void check_replies(std::string_view sent, bool may_lack_bodies);

}  // namespace holdfast::testing
