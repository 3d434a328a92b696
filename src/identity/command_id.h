#pragma once

#include <string>
#include <vector>

#include "identity/checker.h"
#include "identity/program.h"

namespace holdfast::identity {

/// A checker that is a program: run as `WORD... ID`, status 0 means dead and anything else, 127
/// included, does not. A status from 10 up counts as "cannot tell".
class CommandId final : public Checker {
 public:
  explicit CommandId(std::vector<std::string> words, Output output = Output::ours)
      : words_(std::move(words)), output_(output) {}

  Verdict check(const Uid& id, const std::optional<Record>& record) const override;
  bool reads_records() const override { return false; }
  bool is_cheap() const override { return false; }

 private:
  std::vector<std::string> words_;
  Output output_;
};

}  // namespace holdfast::identity
