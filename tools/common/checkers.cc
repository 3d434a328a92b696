#include "common/checkers.h"

#include <span>

#include "common/siblings.h"
#include "disk/disk.h"
#include "identity/command_id.h"
#include "identity/command_id_helper.h"
#include "identity/local_id.h"
#include "identity/local_id_helper.h"
#include "identity/ssh_id.h"

namespace holdfast::tools {

namespace {

bool is_our_ssh_id(const std::string& word) {
  return word == kOurSshId || is_own_tool(word, "ssh_id");
}

/// Our ssh_id with the options behind it. It is asked in this process, whatever they are: as a
/// program it would not see the record of the holder, and without that one in a container looks
/// dead. Nothing if other words follow: they are no action of it.
std::unique_ptr<identity::SshId> make_ssh_id(const cli::Call& call,
                                             std::span<const std::string> words,
                                             identity::Output output) {
  if (words.empty() || !is_our_ssh_id(words[0])) return nullptr;
  cli::Options given = call.options;
  given.notifier.clear();
  std::vector<std::string> rest(words.begin() + 1, words.end());
  cli::take_all_options(kSshIdOptions, rest, given);
  // as a program it would answer these with 0, which stands for "dead"
  if (given.help || given.version) throw cli::UsageError("ssh_id is asked about ids, not for help");
  if (!rest.empty()) return nullptr;
  return std::make_unique<identity::SshId>(
      disk::posix(),
      identity::SshId::Settings{given.notifier, output, given.ssh_strict, given.ssh_insecure},
      given.wait ? Log(given.level).telling_once() : Log(given.level));
}

std::vector<std::string> as_program(std::vector<std::string> words) {
  if (!words.empty() && words[0] == kOurSshId) words[0] = identity::beside_us("ssh_id");
  return words;
}

}  // namespace

std::unique_ptr<identity::Checker> make_checker(const cli::Call& call,
                                                std::vector<std::string> words,
                                                identity::Output output) {
  const bool asks = !words.empty() && words.back() == "is_stale";
  if (asks && words.size() == 2 && is_own_tool(words[0], "local_id")) {
    return std::make_unique<identity::LocalId>(disk::posix());
  }
  if (asks) {
    auto ids = make_ssh_id(call, std::span(words).first(words.size() - 1), output);
    if (ids) return ids;
  }
  return std::make_unique<identity::CommandId>(as_program(std::move(words)), output);
}

std::unique_ptr<identity::IdHelper> make_id_helper(const cli::Call& call) {
  const std::vector<std::string>& words = call.options.idhelper;
  if (words.empty()) throw cli::UsageError("you must specify an id helper");
  if (words.size() == 1 && is_own_tool(words[0], "local_id")) {
    return std::make_unique<identity::LocalIdHelper>(disk::posix());
  }
  if (auto ids = make_ssh_id(call, words, identity::Output::to_stderr)) return ids;
  return std::make_unique<identity::CommandIdHelper>(as_program(words), disk::posix());
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
