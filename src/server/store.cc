#include "server/store.h"

#include <utility>

#include "server/audit.h"
#include "server/local_store.h"
#include "server/postgres_store.h"
#include "server/sqlite_rows.h"

namespace holdfast::server {
namespace {

/// What stands behind the word, if it is that word.
std::optional<std::string> behind(const std::string& where, std::string_view word) {
  if (where.compare(0, word.size(), word) != 0) return std::nullopt;
  return where.substr(word.size());
}

StoreError no_such(const std::string& where) {
  return {"no such kind of store: " + where + " (sqlite:FILE, postgres:CONNINFO or memory:)"};
}

}  // namespace

std::variant<std::unique_ptr<Store>, StoreError> open_store(const std::string& where, Rules rules,
                                                            Scheduler& scheduler, Log log) {
  if (where == "memory:") {
    return std::make_unique<LocalStore>(nullptr, Rows::Contents{}, std::move(rules), scheduler,
                                        ServerClock::real(), std::move(log));
  }
  if (const auto conninfo = behind(where, "postgres:")) {
    return open_postgres(*conninfo, std::move(rules), scheduler, log);
  }
  const auto file = behind(where, "sqlite:");
  if (!file || file->empty()) return no_such(where);
  auto opened = open_sqlite(*file);
  if (auto* error = std::get_if<StoreError>(&opened)) return *error;
  auto& rows = std::get<std::unique_ptr<Rows>>(opened);
  auto loaded = rows->load();
  if (auto* error = std::get_if<StoreError>(&loaded)) return *error;
  return std::make_unique<LocalStore>(std::move(rows), std::move(std::get<Rows::Contents>(loaded)),
                                      std::move(rules), scheduler, ServerClock::real(),
                                      std::move(log));
}

std::variant<Inspection, StoreError> inspect_store(const std::string& where,
                                                   const Inspector& each) {
  Audit audit;
  const auto look = [&](const Claim& claim, Stamp now) {
    audit.add(claim);
    if (!Audit::is_unknown(claim)) each(claim, now);
  };
  std::variant<Inspection, StoreError> result = no_such(where);
  if (const auto file = behind(where, "sqlite:")) {
    result = inspect_sqlite(*file, look);
  } else if (const auto conninfo = behind(where, "postgres:")) {
    result = inspect_postgres(*conninfo, look);
  }
  if (auto* inspection = std::get_if<Inspection>(&result)) {
    for (std::string& fault : audit.end()) inspection->faults.push_back(std::move(fault));
  }
  return result;
}

}  // namespace holdfast::server
