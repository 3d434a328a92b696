#include "server/sqlite_rows.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "server/audit.h"
#include "server/sqlite_lock.h"
#include "server/sqlite_statement.h"

namespace holdfast::server {
namespace {

constexpr int kPatience = 2000;  // milliseconds, with others who read or copy

constexpr const char* kSelect =
    "SELECT id, resource, owner, key, user_data, reason, ttl, waiting_ttl, mode, count, status,"
    " is_confirmed, fence, queued_time, queued_wall, activated_time, activated_wall, ended_time,"
    " ended_wall, deadline, heard FROM claims ORDER BY id";
constexpr const char* kInsert =
    "INSERT INTO claims (id, resource, owner, key, user_data, reason, ttl, waiting_ttl, mode,"
    " count, status, is_confirmed, fence, queued_time, queued_wall, activated_time,"
    " activated_wall, ended_time, ended_wall, deadline, heard) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,"
    " ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)";
constexpr const char* kUpdate =
    "UPDATE claims SET reason = ?6, status = ?11, is_confirmed = ?12, fence = ?13,"
    " activated_time = ?16, activated_wall = ?17, ended_time = ?18, ended_wall = ?19,"
    " deadline = ?20, heard = ?21 WHERE id = ?1";
constexpr const char* kDelete = "DELETE FROM claims WHERE id = ?1";
constexpr const char* kMark = "UPDATE marks SET value = max(value, ?2) WHERE name = ?1";

struct CloseDatabase {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
using Database = std::unique_ptr<sqlite3, CloseDatabase>;

Claim read_claim(const SqliteStatement& row) {
  Claim claim;
  claim.id = static_cast<ClaimId>(row.number(0));
  claim.resource = row.text(1);
  claim.owner = row.text(2);
  claim.key = row.text(3);
  claim.user_data = row.text(4);
  claim.reason = row.text(5);
  claim.ttl = Micros(row.number(6));
  claim.waiting_ttl = Micros(row.number(7));
  claim.mode = claims::mode_of(row.number(8));
  claim.count = static_cast<std::uint32_t>(row.number(9));
  claim.status = claims::status_of(row.number(10));
  claim.is_confirmed = row.number(11) != 0;
  claim.fence = static_cast<std::uint64_t>(row.number(12));
  claim.queued = {Micros(row.number(13)), Micros(row.number(14))};
  claim.activated = {Micros(row.number(15)), Micros(row.number(16))};
  claim.ended = {Micros(row.number(17)), Micros(row.number(18))};
  claim.deadline = Micros(row.number(19));
  claim.heard = Micros(row.number(20));
  return claim;
}

void bind_state(SqliteStatement& statement, const Claim& claim) {
  statement.bind(1, static_cast<std::int64_t>(claim.id));
  statement.bind(6, claim.reason);
  statement.bind(11, static_cast<std::int64_t>(claim.status));
  statement.bind(12, static_cast<std::int64_t>(claim.is_confirmed));
  statement.bind(13, static_cast<std::int64_t>(claim.fence));
  statement.bind(16, claim.activated.time.count());
  statement.bind(17, claim.activated.wall.count());
  statement.bind(18, claim.ended.time.count());
  statement.bind(19, claim.ended.wall.count());
  statement.bind(20, claim.deadline.count());
  statement.bind(21, claim.heard.count());
}

void bind_birth(SqliteStatement& statement, const Claim& claim) {
  statement.bind(2, claim.resource);
  statement.bind(3, claim.owner);
  statement.bind(4, claim.key);
  statement.bind(5, claim.user_data);
  statement.bind(7, claim.ttl.count());
  statement.bind(8, claim.waiting_ttl.count());
  statement.bind(9, static_cast<std::int64_t>(claim.mode));
  statement.bind(10, static_cast<std::int64_t>(claim.count));
  statement.bind(14, claim.queued.time.count());
  statement.bind(15, claim.queued.wall.count());
}

/// What the system said last of the journal, which is what a commit writes, or of the database.
int system_error(sqlite3* database) {
  int error = 0;
  sqlite3_file* journal = nullptr;
  if (sqlite3_file_control(database, "main", SQLITE_FCNTL_JOURNAL_POINTER, &journal) == SQLITE_OK &&
      journal != nullptr && journal->pMethods != nullptr) {
    journal->pMethods->xFileControl(journal, SQLITE_FCNTL_LAST_ERRNO, &error);
  }
  if (error == 0) sqlite3_file_control(database, "main", SQLITE_FCNTL_LAST_ERRNO, &error);
  return error;
}

class SqliteRows final : public Rows {
 public:
  SqliteRows(std::string file, SqliteSteps steps) : file_(std::move(file)), steps_(steps) {}
  SqliteRows(const SqliteRows&) = delete;
  SqliteRows& operator=(const SqliteRows&) = delete;
  ~SqliteRows() override { forget(); }

  /// The reason if it cannot.
  std::optional<std::string> open() {
    // Two names of one file must come to one lock.
    std::error_code ignored;
    const auto real = std::filesystem::weakly_canonical(file_, ignored);
    if (!real.empty()) file_ = real.string();
    if (const std::string network = network_filesystem(file_); !network.empty()) {
      return file_ + ": is on a network filesystem (" + network +
             "), where SQLite cannot be safe; take a local folder, or postgres:";
    }
    if (auto failure = lock_.take(file_)) return failure;
    if (auto failure = connect()) return failure;
    return is_gone();
  }

  std::variant<Contents, StoreError> load() override {
    if (auto failure = reconnect_if_gone()) return StoreError{*failure};
    Contents contents;
    SqliteStatement rows(database_.get(), kSelect);
    if (!rows.is_good()) return StoreError{failure()};
    int result = SQLITE_ROW;
    while ((result = rows.step()) == SQLITE_ROW) {
      contents.claims.push_back(read_claim(rows));
      const Claim& claim = contents.claims.back();
      if (Audit::is_unknown(claim)) return StoreError{file_ + ": " + Audit::why_unknown(claim)};
    }
    if (result != SQLITE_DONE) return StoreError{failure()};
    const auto time = mark("time");
    const auto last_id = mark("last_id");
    const auto fence_floor = mark("fence_floor");
    if (!time || !last_id || !fence_floor) return StoreError{file_ + ": a mark cannot be read"};
    contents.last_time = Micros(*time);
    contents.last_id = static_cast<ClaimId>(*last_id);
    contents.fence_floor = static_cast<std::uint64_t>(*fence_floor);
    return contents;
  }

  std::optional<std::string> commit(const Batch& batch) override {
    if (auto gone = is_gone()) return gone;
    return in_transaction([&] { return write(batch); });
  }

  std::optional<std::string> probe() override {
    if (auto failure = reconnect_if_gone()) return failure;
    return in_transaction([&] {
      return sqlite_tell(database_.get(),
                         "UPDATE marks SET value = value + 1 WHERE name = 'probe'");
    });
  }

 private:
  template <class Work>
  std::optional<std::string> in_transaction(const Work& work) {
    if (begin_.run() && work() && commit_.run()) return std::nullopt;
    const bool is_lost = sqlite3_errcode(database_.get()) == SQLITE_OK;
    std::string why = is_lost ? file_ + ": a claim is gone that was in it" : failure();
    if (sqlite3_get_autocommit(database_.get()) == 0)
      (void)sqlite_tell(database_.get(), "ROLLBACK");
    return why;
  }

  bool write(const Batch& batch) {
    for (const Row& row : batch.changed) {
      SqliteStatement& statement = row.is_new ? insert_ : update_;
      bind_state(statement, row.view.claim);
      if (row.is_new) bind_birth(statement, row.view.claim);
      if (!statement.run()) return false;
      if (sqlite3_changes(database_.get()) != 1) return false;
    }
    for (const Claim& claim : batch.dropped) {
      delete_.bind(1, static_cast<std::int64_t>(claim.id));
      if (!delete_.run()) return false;
    }
    if (!set_mark("time", batch.time.count())) return false;
    if (batch.dropped.empty()) return true;
    // What the rows that go would have told.
    return set_mark("last_id", static_cast<std::int64_t>(batch.last_id)) &&
           set_mark("fence_floor", static_cast<std::int64_t>(batch.fence_floor));
  }

  bool set_mark(const std::string& name, std::int64_t value) {
    mark_.bind(1, name);
    mark_.bind(2, value);
    return mark_.run();
  }

  std::optional<std::int64_t> mark(const std::string& name) {
    SqliteStatement statement(database_.get(), "SELECT value FROM marks WHERE name = ?1");
    statement.bind(1, name);
    if (statement.step() != SQLITE_ROW) return std::nullopt;
    return statement.number(0);
  }

  std::string failure() const {
    if (!database_) return file_ + ": not open";
    std::string why = file_ + ": " + sqlite3_errmsg(database_.get());
    // Whatever the system says no to is a "disk I/O error" there, a read-only disk too.
    const bool is_vague = sqlite3_errcode(database_.get()) == SQLITE_IOERR;
    const int error = is_vague ? system_error(database_.get()) : 0;
    if (error != 0) why += " (" + std::generic_category().message(error) + ")";
    return why;
  }

  /// The lock has made the file if there was none.
  std::optional<std::string> connect() {
    sqlite3* database = nullptr;
    const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    const int result = sqlite3_open_v2(file_.c_str(), &database, flags, nullptr);
    database_.reset(database);
    if (result != SQLITE_OK) return failure();
    sqlite3_busy_timeout(database, kPatience);
    // Asked before anything is changed.
    if (auto why = why_not_to_serve(database, steps_)) return file_ + ": " + *why;
    if (!sqlite_tell(database,
                     "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                     "PRAGMA wal_autocheckpoint = 4000; PRAGMA temp_store = MEMORY")) {
      return failure();
    }
    if (auto why = bring_forward(database, steps_)) return file_ + ": " + *why;
    return prepare();
  }

  std::optional<std::string> prepare() {
    sqlite3* database = database_.get();
    begin_ = SqliteStatement(database, "BEGIN IMMEDIATE");
    commit_ = SqliteStatement(database, "COMMIT");
    insert_ = SqliteStatement(database, kInsert);
    update_ = SqliteStatement(database, kUpdate);
    delete_ = SqliteStatement(database, kDelete);
    mark_ = SqliteStatement(database, kMark);
    const bool are_good = begin_.is_good() && commit_.is_good() && insert_.is_good() &&
                          update_.is_good() && delete_.is_good() && mark_.is_good();
    return are_good ? std::nullopt : std::optional(failure());
  }

  /// The file under that name is not the one that is open.
  std::optional<std::string> is_gone() const {
    struct stat about {};
    if (stat(file_.c_str(), &about) != 0) {
      return file_ + ": " + std::generic_category().message(errno);
    }
    if (lock_.identity() == std::pair{about.st_dev, about.st_ino}) return std::nullopt;
    return file_ + ": is another file than the one that was opened";
  }

  std::optional<std::string> reconnect_if_gone() {
    auto failure = is_gone();
    if (database_ && !failure) return std::nullopt;
    forget();
    if (!failure) failure = connect();
    if (failure) forget();
    return failure;
  }

  void forget() {
    for (SqliteStatement* statement : {&begin_, &commit_, &insert_, &update_, &delete_, &mark_}) {
      *statement = SqliteStatement();
    }
    database_.reset();
  }

  std::string file_;
  SqliteSteps steps_;
  SqliteLock lock_;  ///< before the database, so that it is released after SQLite has closed
  Database database_;
  SqliteStatement begin_, commit_, insert_, update_, delete_, mark_;
};

}  // namespace

std::variant<std::unique_ptr<Rows>, StoreError> open_sqlite(const std::string& file,
                                                            SqliteSteps steps) {
  auto rows = std::make_unique<SqliteRows>(file, steps);
  if (auto failure = rows->open()) return StoreError{*failure};
  return rows;
}

std::variant<Inspection, StoreError> inspect_sqlite(const std::string& file, const Inspector& each,
                                                    SqliteSteps steps) {
  sqlite3* handle = nullptr;
  const int result = sqlite3_open_v2(file.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr);
  const Database database(handle);
  if (result != SQLITE_OK) return StoreError{file + ": " + sqlite3_errmsg(handle)};
  sqlite3_busy_timeout(handle, kPatience);
  // All of it is of one moment, while a server goes on writing, or brings it forward.
  (void)sqlite_tell(handle, "BEGIN");
  if (auto why = why_not_to_look(handle, steps)) return StoreError{file + ": " + *why};
  Inspection inspection;
  SqliteStatement check(handle, "PRAGMA integrity_check");
  while (check.step() == SQLITE_ROW) {
    if (const std::string line = check.text(0); line != "ok") inspection.faults.push_back(line);
  }
  const Stamp now{Micros(sqlite_ask(handle, "SELECT value FROM marks WHERE name = 'time'")), {}};
  SqliteStatement rows(handle, kSelect);
  int step = SQLITE_ROW;
  while ((step = rows.step()) == SQLITE_ROW) {
    each(read_claim(rows), now);
    ++inspection.claims;
  }
  if (step != SQLITE_DONE) inspection.faults.emplace_back(sqlite3_errmsg(handle));
  return inspection;
}

}  // namespace holdfast::server
