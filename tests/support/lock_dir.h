#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "base/record.h"
#include "base/uid.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

inline Uid uid(const std::string& text) {
  return Uid::found(text);
}

/// A record as a tool writes it for an id that names no process.
inline Record some_record() {
  Record record;
  record.host = "host";
  record.user = "anna";
  record.since = "2026-11-16T00:00:00Z";
  return record;
}

/// What must be so after any step of anybody: at most one leaf, and no name that the layout does
/// not know.
inline void check_invariants(const std::string& lock) {
  int leaves = 0;
  for (const std::string& name : tree(lock)) {
    INFO(name);
    if (name.starts_with("owner/") && name.size() > 6) ++leaves;
    CHECK(
        (name.starts_with("owner/") || name.starts_with("build/") || name.starts_with("in_use/")));
  }
  CHECK(leaves <= 1);
}

}  // namespace holdfast::testing
