#include "identity/command_id.h"

#include "identity/program.h"

namespace holdfast::identity {

Verdict CommandId::check(const Uid& id, const std::optional<Record>&) const {
  constexpr int kCannotTell = 10;
  std::vector<std::string> words = words_;
  words.push_back(id.str());
  const int status = run_program(words, output_).status;
  const Life life = status == 0 ? Life::dead : status < kCannotTell ? Life::alive : Life::unknown;
  return {life, words_.front() + " exited with " + std::to_string(status), false, true, status};
}

}  // namespace holdfast::identity
