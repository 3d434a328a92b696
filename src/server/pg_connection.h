#pragma once

#include <libpq-fe.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace holdfast::server {

/// The state of an error of ours: the tables are not of this program's version.
inline constexpr auto kPgOtherTables = "HF003";

/// Why the database did not do it.
struct PgError {
  std::string why;      ///< for people; never holds a password
  std::string state{};  ///< SQLSTATE; empty if the database was not reached
  bool is_lost =
      false;  ///< the connection is gone: what was sent last may have been done all the same
  std::size_t statement = 0;  ///< the one that failed, counted from 0

  /// It would go no better with another request: read-only, full, no rights, no such table.
  bool is_general() const {
    if (state == kPgOtherTables) return true;
    const std::string_view group = std::string_view(state).substr(0, 2);
    return group == "25" || group == "42" || group == "53" || group == "58" || group == "XX";
  }
  /// The same again may work: another transaction came in between.
  bool is_passing() const { return state == "40001" || state == "40P01" || state == "23505"; }
};

template <class T>
using PgTold = std::variant<T, PgError>;

/// The rows of one statement.
class PgRows {
 public:
  explicit PgRows(PGresult* result) : result_(result) {}

  std::size_t size() const { return static_cast<std::size_t>(PQntuples(result_.get())); }
  bool is_null(std::size_t row, int column) const {
    return PQgetisnull(result_.get(), static_cast<int>(row), column) != 0;
  }
  std::string_view text(std::size_t row, int column) const;
  std::int64_t number(std::size_t row, int column) const;  ///< 0 for null
  bool flag(std::size_t row, int column) const { return text(row, column) == "t"; }
  std::vector<std::int64_t> numbers(std::size_t row, int column) const;    ///< of an array
  std::string_view command() const { return PQcmdStatus(result_.get()); }  ///< "COMMIT"

 private:
  struct Clear {
    void operator()(PGresult* result) const { PQclear(result); }
  };
  std::unique_ptr<PGresult, Clear> result_;
};

struct PgStatement {
  std::string sql;
  std::vector<std::string> parameters{};  ///< $1 and so on, as text
};

/// "{1,2,3}", to be given as bigint[].
template <class Numbers>
std::string pg_array(const Numbers& numbers) {
  std::string text = "{";
  for (const auto& number : numbers) {
    if (text.size() > 1) text += ',';
    text += std::to_string(number);
  }
  return text + '}';
}
std::string pg_text_array(const std::vector<std::string>& texts);

/// One connection of libpq, always in pipeline mode.
///
/// Promises: no call waits for ever: a silent server is given up after a time. Nothing of a session
///           is relied on, so a pooler that lends a connection for each transaction may be between.
/// Threads:  one at a time.
class PgConnection {
 public:
  /// Longer than any statement of a transaction may take, see pg_transaction.h. Then the connection
  /// is given up.
  static constexpr std::chrono::seconds kPatience{12};

  PgConnection() = default;  ///< to nowhere

  /// At most 5 s for each host that `conninfo` names, unless it says otherwise.
  static PgTold<PgConnection> open(const std::string& conninfo);

  /// All in one round trip, up to the first that fails: its error is the answer then.
  PgTold<std::vector<PgRows>> run(const std::vector<PgStatement>& statements,
                                  std::chrono::seconds patience = kPatience);

  /// Ends a transaction that failed or is not wanted. A connection that cannot is_usable() no more.
  void roll_back();

  bool is_usable() const { return connection_ && PQstatus(connection_.get()) == CONNECTION_OK; }
  int server_version() const { return PQserverVersion(connection_.get()); }
  int socket() const { return PQsocket(connection_.get()); }

  /// What came by LISTEN since the last call.
  std::vector<std::string> take_notices();

 private:
  struct Finish {
    void operator()(PGconn* connection) const { PQfinish(connection); }
  };
  using Deadline = std::chrono::steady_clock::time_point;

  explicit PgConnection(PGconn* connection) : connection_(connection) {}
  bool send(const std::vector<PgStatement>& statements);
  bool flush(Deadline deadline);
  bool wait(short events, Deadline deadline);
  PGresult* next(Deadline deadline, bool& is_there);
  PgError lost(std::size_t statement);

  std::unique_ptr<PGconn, Finish> connection_;
  std::string why_lost_;
};

}  // namespace holdfast::server
