#include "server/pg_connection.h"

#include <poll.h>

#include <array>
#include <charconv>

#include "base/text.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;

std::string one_line(const char* message) {
  std::string text = without_newline(message == nullptr ? "" : message);
  for (char& c : text) {
    if (c == '\n' || c == '\t') c = ' ';
  }
  return text;
}

const char* field(const PGresult* result, int code) {
  const char* text = PQresultErrorField(result, code);
  return text == nullptr ? "" : text;
}

PgError error_of(const PGresult* result) {
  PgError error{one_line(field(result, PG_DIAG_MESSAGE_PRIMARY)), field(result, PG_DIAG_SQLSTATE)};
  if (error.why.empty()) error.why = one_line(PQresultErrorMessage(result));
  const std::string_view severity = field(result, PG_DIAG_SEVERITY_NONLOCALIZED);
  error.is_lost = severity != "ERROR";  // FATAL, PANIC, or libpq's own word on a dead connection
  return error;
}

bool is_good(const PGresult* result) {
  const ExecStatusType status = PQresultStatus(result);
  return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

}  // namespace

std::string_view PgRows::text(std::size_t row, int column) const {
  const int at = static_cast<int>(row);
  return {PQgetvalue(result_.get(), at, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), at, column))};
}

std::int64_t PgRows::number(std::size_t row, int column) const {
  const std::string_view digits = text(row, column);
  std::int64_t value = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return value;
}

std::vector<std::int64_t> PgRows::numbers(std::size_t row, int column) const {
  std::vector<std::int64_t> values;
  for (const std::string_view part : split(text(row, column), "{},", true)) {
    std::from_chars(part.data(), part.data() + part.size(), values.emplace_back());
  }
  return values;
}

std::string pg_text_array(const std::vector<std::string>& texts) {
  std::string array = "{";
  for (const std::string& text : texts) {
    if (array.size() > 1) array += ',';
    array += '"';
    for (const char c : text) {
      if (c == '"' || c == '\\') array += '\\';
      array += c;
    }
    array += '"';
  }
  return array + '}';
}

PgTold<PgConnection> PgConnection::open(const std::string& conninfo) {
  // What stands before dbname may be overruled by the connection string, which is its value.
  constexpr std::array kNames{
      "connect_timeout",  "keepalives_idle",  "keepalives_interval",
      "keepalives_count", "tcp_user_timeout", "fallback_application_name",
      "client_encoding",  "dbname",           static_cast<const char*>(nullptr)};
  const std::array values{"5",
                          "5",
                          "2",
                          "3",
                          "10000",
                          "holdfastd",
                          "UTF8",
                          conninfo.c_str(),
                          static_cast<const char*>(nullptr)};
  PgConnection opened(PQconnectdbParams(kNames.data(), values.data(), 1));
  PGconn* connection = opened.connection_.get();
  if (connection == nullptr) return PgError{"out of memory", {}, true};
  if (PQstatus(connection) != CONNECTION_OK) {
    return PgError{one_line(PQerrorMessage(connection)), {}, true};
  }
  PQsetNoticeProcessor(
      connection, [](void*, const char*) {}, nullptr);  // else to stderr
  if (PQsetnonblocking(connection, 1) != 0 || PQenterPipelineMode(connection) != 1) {
    return PgError{one_line(PQerrorMessage(connection)), {}, true};
  }
  return opened;
}

bool PgConnection::wait(short events, Deadline deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left <= 0ms) {
      why_lost_ = "the database does not answer";
      return false;
    }
    pollfd one{socket(), events, 0};
    const int ready = poll(&one, 1, static_cast<int>(left.count()));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

bool PgConnection::flush(Deadline deadline) {
  while (true) {
    const int left = PQflush(connection_.get());
    if (left <= 0) return left == 0;
    if (!wait(POLLIN | POLLOUT, deadline)) return false;
    if (PQconsumeInput(connection_.get()) == 0) return false;
  }
}

bool PgConnection::send(const std::vector<PgStatement>& statements) {
  for (const PgStatement& statement : statements) {
    std::vector<const char*> values;
    for (const std::string& parameter : statement.parameters) values.push_back(parameter.c_str());
    if (PQsendQueryParams(connection_.get(), statement.sql.c_str(), static_cast<int>(values.size()),
                          nullptr, values.data(), nullptr, nullptr, 0) != 1) {
      return false;
    }
  }
  return PQpipelineSync(connection_.get()) == 1;
}

PGresult* PgConnection::next(Deadline deadline, bool& is_there) {
  while (PQisBusy(connection_.get()) != 0) {
    is_there = wait(POLLIN, deadline) && PQconsumeInput(connection_.get()) == 1;
    if (!is_there) return nullptr;
  }
  is_there = true;
  return PQgetResult(connection_.get());
}

PgError PgConnection::lost(std::size_t statement) {
  std::string why = one_line(PQerrorMessage(connection_.get()));
  if (why.empty()) why = why_lost_.empty() ? "the connection is gone" : why_lost_;
  connection_.reset();
  return {why, {}, true, statement};
}

PgTold<std::vector<PgRows>> PgConnection::run(const std::vector<PgStatement>& statements,
                                              std::chrono::seconds patience) {
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  if (!is_usable()) return PgError{"the connection is gone", {}, true};
  if (!send(statements) || !flush(deadline)) return lost(0);
  std::vector<PgRows> all;
  std::optional<PgError> error;
  while (true) {
    bool is_there = false;
    PGresult* result = next(deadline, is_there);
    if (!is_there) return error && error->is_lost ? *error : lost(all.size());
    if (result == nullptr) {  // between the results of two statements
      if (!is_usable()) return error ? *error : lost(all.size());
      continue;
    }
    PgRows rows(result);
    if (PQresultStatus(result) == PGRES_PIPELINE_SYNC) break;
    if (is_good(result)) {
      all.push_back(std::move(rows));
    } else if (!error) {
      error = error_of(result);
      error->statement = all.size();
    }
  }
  if (error) {
    if (error->is_lost) connection_.reset();
    return *error;
  }
  return all;
}

void PgConnection::roll_back() {
  if (!is_usable() || PQtransactionStatus(connection_.get()) == PQTRANS_IDLE) return;
  if (std::holds_alternative<PgError>(run({{"ROLLBACK"}}))) connection_.reset();
}

std::vector<std::string> PgConnection::take_notices() {
  std::vector<std::string> payloads;
  if (!is_usable() || PQconsumeInput(connection_.get()) == 0) return payloads;
  while (PGnotify* notice = PQnotifies(connection_.get())) {
    payloads.emplace_back(notice->extra);
    PQfreemem(notice);
  }
  return payloads;
}

}  // namespace holdfast::server
