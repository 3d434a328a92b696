#include "common/kill.h"
#include "disk/disk.h"
#include "identity/local_id_helper.h"
#include "tools.h"

namespace holdfast::tools {
namespace {

using identity::Life;

Exit uid(cli::Call& call) {
  std::string why;
  const auto identity = identity::LocalId(disk::posix()).identify(call.word(0), why);
  if (!identity) {
    call.log.info("{}", why);
    return LocalIdExit::no;
  }
  call.print(identity->uid.str());
  return LocalIdExit::ok;
}

Exit pid(cli::Call& call) {
  const auto pid = identity::LocalId(disk::posix()).pid(Uid::found(call.word(0)));
  if (!pid) return LocalIdExit::no;
  call.print(std::to_string(*pid));
  return LocalIdExit::ok;
}

Exit is_stale(cli::Call& call) {
  const auto verdict =
      identity::LocalId(disk::posix()).check(Uid::found(call.word(0)), std::nullopt);
  call.log.info("{}: {}", call.word(0), verdict.why);
  if (verdict.life == Life::dead) return LocalIdExit::ok;
  if (verdict.life == Life::alive) return LocalIdExit::no;
  call.log.warn("WARNING: unable to identify live/staleness for {}: {}", call.word(0), verdict.why);
  return LocalIdExit::unknown;
}

Exit kill(cli::Call& call) {
  return kill_and_report(call, identity::LocalIdHelper(disk::posix()), Uid::found(call.word(0)),
                         std::nullopt, call.has(1) ? call.word(1) : "TERM");
}

constexpr cli::Action kActions[] = {
    {"uid", "<pid> > uid", 1, uid},
    {"pid", "<uid> > pid (nothing if it is not running)", 1, pid},
    {"is_stale", "<uid>", 1, is_stale},
    {"kill", "<uid> [signal]", {1, 2}, kill},
};

constexpr cli::Option kOptions[] = {
    cli::rows::kill_wait("kill"),
};

constexpr const char* kText =
    "    Names a process of this host so that it cannot be mistaken for a later one with the same\n"
    "    pid: by pid, start time and boot time. Tells whether the process behind such a name "
    "lives.\n"
    "\n"
    "    'kill' signals the process (TERM, or the signal given) only if it is the one named, and "
    "waits\n"
    "    for its end.\n"
    "\n"
    "    Exit: uid, pid: 0 and the answer, 1 not running; is_stale: 0 dead, 1 alive, 13 cannot "
    "tell;\n"
    "          kill: 0 killed, 1 was dead already, 13 cannot tell who that is, 15 did not die in\n"
    "          time, 16 not permitted; 10 usage.\n";

}  // namespace

int local_id(int argc, char** argv) {
  return cli::run_tool({.name = "local_id",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .empty_is_missing = false,
                        .takes_paths = false},
                       argc, argv);
}

}  // namespace holdfast::tools
