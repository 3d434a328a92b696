#pragma once

#include <string>

#include "base/record.h"
#include "base/uid.h"

namespace holdfast::identity {

/// A process as an id and as a record, read in one go.
struct Identity {
  Uid uid;
  Record record;

  /// The START of its id is not its start time then: see LocalId.
  bool has_blank_name() const { return record.cmd.find_first_of(" \t") != std::string::npos; }
};

}  // namespace holdfast::identity
