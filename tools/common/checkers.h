/// Who makes ids and who checks them, by the words that a user gave.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "cli/tool.h"
#include "identity/checker.h"
#include "identity/id_helper.h"
#include "identity/program.h"

namespace holdfast::tools {

/// The options of our ssh_id.
inline constexpr cli::Option kSshIdOptions[] = {
    cli::rows::kNotifier,
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    cli::rows::kill_wait("kill"),
};

/// A word for our own ssh_id, wherever it may be installed.
inline constexpr std::string_view kOurSshId = "holdfast ssh_id";

/// How long the lockers of a cluster leave an id in peace between two checks, unless told.
inline constexpr std::chrono::seconds kGrace{10};

/// Our own tools are asked in this process, with the holder's record at hand; any other program is
/// run, and its standard output goes to `output`.
std::unique_ptr<identity::Checker> make_checker(const cli::Call& call,
                                                std::vector<std::string> words,
                                                identity::Output output);

/// Likewise, of the words of --idhelper. A UsageError if there are none.
std::unique_ptr<identity::IdHelper> make_id_helper(const cli::Call& call);

/// The checker of the tools with an id helper: the words of --checker, or else of the id helper;
/// the notifier's words, each behind an --on-check-fail of its own, with the lock as its last one,
/// if there is a notifier; and `is_stale`.
std::vector<std::string> checker_words(const cli::Call& call);

}  // namespace holdfast::tools
