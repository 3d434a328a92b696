#include "identity/command_id_helper.h"

namespace holdfast::identity {
namespace {

constexpr int kNotRunning = 1;

}  // namespace

std::optional<Identity> CommandIdHelper::identify(const std::string& pid, std::string& why) const {
  Told made = told("uid", pid);
  if (made.code == 0) {
    std::string wrong;
    if (auto uid = Uid::parse(std::move(made.text), wrong)) {
      return Identity{*std::move(uid), local_.record_of_caller()};
    }
    why = words_.front() + " made no id of " + pid + ": " + wrong;
  } else if (made.code == kNotRunning) {
    why = "process " + pid + " is not running";
  } else {
    why = words_.front() + " exited with " + std::to_string(made.code);
  }
  return std::nullopt;
}

bool CommandIdHelper::is_valid_uid(const std::string& text) const {
  std::string why;
  if (!Uid::parse(text, why)) return false;
  if (told("is_valid_uid", text, Output::captured_quietly).code == 0) return true;
  const Told pid = told("pid", text, Output::captured_quietly);
  return pid.code == 0 && !pid.text.empty();
}

int CommandIdHelper::is_host_compatible(const std::string& host) const {
  return run_program(words_and({"is_host_compatible", host})).status;
}

int CommandIdHelper::kill(const Uid& uid, const std::optional<Record>& /*record*/, int signal,
                          std::chrono::seconds /*patience*/) const {
  return run_program(words_and({"kill", uid.str(), std::to_string(signal)})).status;
}

std::vector<std::string> CommandIdHelper::words_and(std::initializer_list<std::string> more) const {
  std::vector<std::string> words = words_;
  words.insert(words.end(), more);
  return words;
}

Told CommandIdHelper::told(const std::string& action, const std::string& word,
                           Output output) const {
  Ran ran = run_program(words_and({action, word}), output);
  return {ran.status, std::move(ran.output)};
}

}  // namespace holdfast::identity
