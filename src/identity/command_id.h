#pragma once

#include <string>
#include <vector>

#include "identity/checker.h"

namespace holdfast::identity {

/// A checker that is a program: run as `WORD... ID`, status 0 means dead and anything else, 127
/// included, does not. A status from 10 up counts as "cannot tell". Its output goes where ours
/// goes.
class CommandId final : public Checker {
 public:
  explicit CommandId(std::vector<std::string> words) : words_(std::move(words)) {}

  Verdict check(const Uid& id, const std::optional<Record>& record) const override;
  bool reads_records() const override { return false; }
  bool is_cheap() const override { return false; }

 private:
  std::vector<std::string> words_;
};

}  // namespace holdfast::identity
