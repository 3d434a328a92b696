#include "identity/ssh_id.h"

#include <algorithm>

#include "base/text.h"
#include "common/checkers.h"
#include "common/input.h"
#include "common/kill.h"
#include "disk/disk.h"
#include "identity/remote.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using identity::Life;
using identity::Output;
using identity::SshId;

SshId make_ids(const cli::Call& call, Output notifier_output = Output::ours) {
  return SshId(
      disk::posix(),
      {call.options.notifier, notifier_output, call.options.ssh_strict, call.options.ssh_insecure},
      call.log);
}

Uid uid_given(const cli::Call& call) {
  return Uid::found(call.word(0));
}

Exit uid(cli::Call& call) {
  if (call.word(0).empty()) return SshIdExit::no_pid;
  std::string why;
  const identity::LocalId locals(disk::posix());
  const auto local = locals.identify(call.word(0), why);
  const auto identity = local ? make_ids(call).identify(call.word(0), why) : std::nullopt;
  if (!identity) {
    std::string unused;
    const auto here = locals.place(unused);
    if (local || !here || !here->btime) {  // it is not for want of a process
      call.log.error("{}", why);
      return SshIdExit::no_uid;
    }
    call.log.info("{}", why);
    return SshIdExit::no;
  }
  call.print(identity->uid.str());
  return SshIdExit::ok;
}

Exit print_told(cli::Call& call, const identity::Told& told) {
  if (told.code == 0) call.print(told.text);
  return Exit::of_program(told.code);
}

Exit pid(cli::Call& call) {
  return print_told(call, make_ids(call).pid(uid_given(call)));
}

Exit hostid(cli::Call& call) {
  return print_told(call, make_ids(call).hostid(uid_given(call)));
}

Exit is_valid_uid(cli::Call& call) {
  return make_ids(call).is_valid_uid(call.word(0)) ? SshIdExit::ok : SshIdExit::no;
}

Exit is_stale(cli::Call& call) {
  if (call.word(0).empty()) return SshIdExit::no_pid;
  const auto verdict = make_ids(call).check(uid_given(call), std::nullopt);
  call.log.info("{}: {}", call.word(0), verdict.why);
  return Exit::of_program(verdict.code);
}

/// The ids are the answer's, so what a notifier prints goes to stderr.
Exit are_stale(cli::Call& call) {
  std::vector<identity::Subject> subjects;
  for (const std::string& line : input_lines()) {
    subjects.push_back({Uid::found(line), std::nullopt});
  }
  const auto verdicts = make_ids(call, Output::to_stderr).check_all(subjects);
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const identity::Verdict& verdict = verdicts[i];
    std::string line = printable(subjects[i].uid.str());
    std::replace(line.begin(), line.end(), ' ', '?');  // the second word is always the verdict
    line.append(" ").append(identity::word_of(verdict.life)).append(" ");
    if (verdict.life == Life::unknown) line.append(identity::reason_of(verdict.code)).append(": ");
    call.print(line.append(verdict.why));
  }
  return SshIdExit::ok;
}

Exit is_host_compatible(cli::Call& call) {
  return Exit::of_program(make_ids(call).is_host_compatible(call.word(0)));
}

Exit ssh_uid(cli::Call& call) {
  if (!call.has(1) || call.word(0).empty() || call.word(1).empty()) return SshIdExit::no_pid;
  std::vector<std::string> words{"ssh_uid", call.word(0), call.word(1)};
  if (call.has(2)) words.push_back(call.word(2));
  return Exit::of_program(make_ids(call).travel(words, Output::ours).status);
}

Exit kill(cli::Call& call) {
  return kill_and_report(call, make_ids(call), uid_given(call), std::nullopt,
                         call.has(1) ? call.word(1) : "TERM");
}

constexpr cli::Action kActions[] = {
    {"uid", "<pid> > uid", 1, uid},
    {"pid", "<uid> > pid", 1, pid},
    {"hostid", "<uid> > hostid", 1, hostid},
    {"sshdest", "<uid> > sshdest", 1, hostid},
    {"is_valid_uid", "<uid>", 1, is_valid_uid},
    {"is_stale", "<uid>", 1, is_stale},
    {"are_stale", "< uids > 'uid verdict reason' lines", 0, are_stale},
    {"is_host_compatible", "<sshdest|hostid>", 1, is_host_compatible},
    {"ssh_uid", "<host> <pid> [mark] > uid", {1, 3}, ssh_uid},
    {"kill", "<uid> [signal]", {1, 2}, kill},
};

constexpr const char* kText =
    "    Names a process of this host so that every host of a cluster can ask, over ssh, whether "
    "it\n"
    "    still lives: by full host name, pid, start time and boot time. You must be able to log "
    "in\n"
    "    there without a password by the full name that the host gives itself;\n"
    "    'is_host_compatible' tries that.\n"
    "\n"
    "    --on-check-fail, once per word, names a command that is run as\n"
    "    '<word>... <checking host> <uid> <message>' when it cannot be told whether an id is "
    "stale.\n"
    "\n"
    "    Exit: is_stale: 0 dead, 1 alive; 10 no answer from its host, 11 that is another host,\n"
    "          13 the answer does not tell, 20 no uid: all of these mean 'unknown', never 'dead';\n"
    "          uid: 0, 1 not running, 12 no boot time or full name; kill: 0 killed, 1 was dead "
    "already,\n"
    "          13 cannot tell, 15 did not die in time, 16 not permitted, or as is_stale;\n"
    "          10 usage, 127 an empty word.\n";

}  // namespace

int ssh_id(int argc, char** argv) {
  return cli::run_tool({.name = "ssh_id",
                        .text = kText,
                        .actions = kActions,
                        .options = kSshIdOptions,
                        .empty_is_missing = false,
                        .takes_paths = false},
                       argc, argv);
}

}  // namespace holdfast::tools
