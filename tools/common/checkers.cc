#include "common/checkers.h"

#include "common/siblings.h"
#include "disk/disk.h"
#include "identity/command_id.h"
#include "identity/command_id_helper.h"
#include "identity/local_id.h"
#include "identity/local_id_helper.h"

namespace holdfast::tools {

std::unique_ptr<identity::Checker> make_checker(const std::vector<std::string>& words,
                                                identity::Output output) {
  if (words.size() == 2 && words[1] == "is_stale" && is_own_tool(words[0], "local_id")) {
    return std::make_unique<identity::LocalId>(disk::posix());
  }
  return std::make_unique<identity::CommandId>(words, output);
}

std::unique_ptr<identity::IdHelper> make_id_helper(const std::vector<std::string>& words) {
  if (words.empty()) throw cli::UsageError("you must specify an id helper");
  if (words.size() == 1 && is_own_tool(words[0], "local_id")) {
    return std::make_unique<identity::LocalIdHelper>(disk::posix());
  }
  return std::make_unique<identity::CommandIdHelper>(words, disk::posix());
}

std::vector<std::string> checker_words(const cli::Call& call) {
  const cli::Options& given = call.options;
  std::vector<std::string> words = given.checker.empty() ? given.idhelper : given.checker;
  if (words.empty()) throw cli::UsageError("you must specify an id helper");
  std::vector<std::string> notifier = given.notifier;
  if (!notifier.empty()) notifier.push_back(call.word(0));
  for (const std::string& word : notifier) words.insert(words.end(), {"--on-check-fail", word});
  words.emplace_back("is_stale");
  return words;
}

}  // namespace holdfast::tools
