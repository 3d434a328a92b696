#pragma once

#include <set>
#include <string>
#include <vector>

#include "identity/checker.h"

namespace holdfast::testing {

/// Knows who is dead, and counts how often it is asked.
class Oracle final : public identity::Checker {
 public:
  std::set<std::string> dead;
  std::set<std::string> unknown;
  mutable int asked = 0;
  mutable std::vector<std::vector<std::string>> together;  ///< who was asked about in one go

  identity::Verdict check(const Uid& id, const std::optional<Record>&) const override {
    using identity::Life;
    ++asked;
    if (dead.count(id.str())) return {Life::dead, "dead"};
    if (unknown.count(id.str())) return {Life::unknown, "who knows"};
    return {Life::alive, "alive"};
  }
  std::vector<identity::Verdict> check_all(
      std::span<const identity::Subject> subjects) const override {
    std::vector<std::string> ids;
    for (const identity::Subject& subject : subjects) ids.push_back(subject.uid.str());
    together.push_back(std::move(ids));
    return Checker::check_all(subjects);
  }
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }
};

}  // namespace holdfast::testing
