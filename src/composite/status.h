#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lock/fast_lock.h"

namespace holdfast::composite {

/// One lock that is held.
struct LockStatus {
  std::string id;  ///< of the dataset, or what the lock directory is called
  lock::Mode mode;
  std::size_t count;                   ///< holds of it
  std::vector<std::string> holders{};  ///< a description of each, where it is known
};

/// One that was given up and whose storage could not be closed.
struct FailureStatus {
  std::string id;
  std::string why;
};

/// What is held at one moment, and what could not be given back.
struct Status {
  std::vector<LockStatus> locks;
  std::vector<FailureStatus> failures{};
};

/// The words of the status documents: EXCLUSIVE, SHARED.
std::string_view to_word(lock::Mode mode);

/// The service status that clients of ids.server read, in one line without its newline:
///
///     {"opsQueue":[],"lockCount":1,"locks":[{"id":7011,"type":"SHARED","count":3}],"failures":[]}
///
/// Its ids are numbers of 64 bits, so a lock or failure whose id is not the plain spelling of one
/// ("run-7", "007", "18446744073709551616") is left out, and not counted. No operations are queued
/// here: opsQueue is empty.
std::string to_ids_json(const Status& status);

/// All of it, with ids as strings, holders and reasons:
///
///     {"lockCount":1,"locks":[{"id":"run-7","type":"EXCLUSIVE","count":1,"holders":["pid 42
///     ..."]}],
///      "failures":[{"id":"run-8","why":"Input/output error"}]}
std::string to_json(const Status& status);

}  // namespace holdfast::composite
