#include "common/checkers.h"

#include <optional>
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

/// The words behind our ssh_id, as far as they are its options for a notifier.
std::optional<identity::SshId::Settings> settings_of(const cli::Call& call,
                                                     std::span<const std::string> options,
                                                     identity::Output output) {
  identity::SshId::Settings settings{
      {}, output, call.options.ssh_strict, call.options.ssh_insecure};
  for (; options.size() >= 2 && options[0] == "--on-check-fail"; options = options.subspan(2)) {
    settings.notifier.push_back(options[1]);
  }
  return options.empty() ? std::optional(std::move(settings)) : std::nullopt;
}

std::optional<identity::SshId::Settings> ssh_id_of(const cli::Call& call,
                                                   const std::vector<std::string>& words,
                                                   std::size_t length, identity::Output output) {
  if (length == 0 || !is_our_ssh_id(words[0])) return std::nullopt;
  return settings_of(call, std::span(words).subspan(1, length - 1), output);
}

/// To be run, our own is a program as well, and gets the options that were meant for it.
std::vector<std::string> as_program(const cli::Call& call, std::vector<std::string> words) {
  if (words.empty() || !is_our_ssh_id(words[0])) return words;
  if (words[0] == kOurSshId) words[0] = identity::beside_us("ssh_id");
  if (call.options.ssh_insecure) words.insert(words.begin() + 1, "--ssh-insecure");
  if (call.options.ssh_strict) words.insert(words.begin() + 1, "--ssh-strict");
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
  if (auto settings = ssh_id_of(call, words, asks ? words.size() - 1 : 0, output)) {
    return std::make_unique<identity::SshId>(disk::posix(), std::move(*settings), call.log);
  }
  return std::make_unique<identity::CommandId>(as_program(call, std::move(words)), output);
}

std::unique_ptr<identity::IdHelper> make_id_helper(const cli::Call& call) {
  const std::vector<std::string>& words = call.options.idhelper;
  if (words.empty()) throw cli::UsageError("you must specify an id helper");
  if (words.size() == 1 && is_own_tool(words[0], "local_id")) {
    return std::make_unique<identity::LocalIdHelper>(disk::posix());
  }
  if (auto settings = ssh_id_of(call, words, words.size(), identity::Output::to_stderr)) {
    return std::make_unique<identity::SshId>(disk::posix(), std::move(*settings), call.log);
  }
  return std::make_unique<identity::CommandIdHelper>(as_program(call, words), disk::posix());
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
