#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>

namespace holdfast::server {

/// A prepared statement. Text that is bound must live until step() has returned.
class SqliteStatement {
 public:
  SqliteStatement() = default;
  SqliteStatement(sqlite3* database, const char* text) {
    sqlite3_stmt* statement = nullptr;
    sqlite3_prepare_v3(database, text, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
    statement_.reset(statement);
  }

  bool is_good() const { return statement_ != nullptr; }

  void bind(int place, std::int64_t value) { sqlite3_bind_int64(statement_.get(), place, value); }
  void bind(int place, const std::string& text) {
    sqlite3_bind_text(statement_.get(), place, text.data(), static_cast<int>(text.size()),
                      SQLITE_STATIC);
  }

  int step() { return sqlite3_step(statement_.get()); }
  void reset() { sqlite3_reset(statement_.get()); }

  /// For statements without rows.
  bool run() {
    const bool is_done = step() == SQLITE_DONE;
    reset();
    return is_done;
  }

  std::int64_t number(int column) const { return sqlite3_column_int64(statement_.get(), column); }
  std::string text(int column) const {
    const auto* bytes =
        reinterpret_cast<const char*>(sqlite3_column_text(statement_.get(), column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(statement_.get(), column));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
  }

 private:
  struct End {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  std::unique_ptr<sqlite3_stmt, End> statement_;
};

/// The number in the first row; -1 if there is none.
inline std::int64_t sqlite_ask(sqlite3* database, const char* question) {
  SqliteStatement statement(database, question);
  return statement.is_good() && statement.step() == SQLITE_ROW ? statement.number(0) : -1;
}

/// Any number of statements, up to the first that fails.
inline bool sqlite_tell(sqlite3* database, const std::string& text) {
  return sqlite3_exec(database, text.c_str(), nullptr, nullptr, nullptr) == SQLITE_OK;
}

}  // namespace holdfast::server
