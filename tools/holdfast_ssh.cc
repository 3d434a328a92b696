/// The half of ssh_id that travels: a program of its own, because libssh is dear to load and most
/// locks never need it.

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>

#include "base/text.h"
#include "cli/tool.h"
#include "common/input.h"
#include "disk/disk.h"
#include "identity/remote.h"
#include "identity/ssh_id.h"
#include "ssh/survey.h"

namespace {

using namespace holdfast;
using identity::RemoteAnswer;
using identity::SshUid;
using identity::Subject;
using identity::Verdict;

/// Far below what the kernel lets a command line have, at eight bytes each.
constexpr std::size_t kMostPids = 5000;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::chrono::seconds seconds_from(const char* variable, std::optional<std::chrono::seconds> option,
                                  std::chrono::milliseconds fallback) {
  if (option) return *option;
  const std::string text = environment(variable);
  const auto number = to_number(text);
  if (!text.empty() && (!number || *number == 0 || *number > 86400)) {
    throw cli::EnvironmentError(std::string(variable) + " must be a number of seconds, not '" +
                                text + "'");
  }
  return number ? std::chrono::seconds(*number)
                : std::chrono::duration_cast<std::chrono::seconds>(fallback);
}

ssh::Settings settings_of(const cli::Call& call) {
  ssh::Settings settings;
  const std::string engine = environment("HOLDFAST_SSH");
  if (engine == "command") settings.engine = ssh::Engine::command;
  if (!engine.empty() && engine != "command" && engine != "libssh") {
    throw cli::EnvironmentError("HOLDFAST_SSH must be 'command' or 'libssh', not '" + engine + "'");
  }
  const bool is_insecure = call.options.ssh_insecure || environment("HOLDFAST_SSH_INSECURE") == "1";
  if (is_insecure) settings.host_keys = ssh::HostKeys::insecure;
  if (call.options.ssh_strict) settings.host_keys = ssh::HostKeys::strict;
  settings.connect =
      seconds_from("HOLDFAST_SSH_CONNECT_TIMEOUT", call.options.connect, settings.connect);
  settings.total = seconds_from("HOLDFAST_SSH_TIMEOUT", call.options.total, settings.total);
  return settings;
}

std::optional<identity::Place> here() {
  std::string why;  // whoever does not know where he is may be anywhere
  return identity::LocalId(disk::posix()).place(why);
}

/// What a host says of itself and of some pids, or what can be said without that.
struct Heard {
  std::optional<RemoteAnswer> answer;
  Verdict without{};
};

/// A reply that is no answer counts for nothing, whatever came through before it failed: its host
/// key may have been refused.
Heard to_heard(const ssh::Reply& reply, const std::optional<identity::Place>& asker) {
  if (!reply.is_answered) {
    return {std::nullopt, identity::has_begun(reply.output) ? identity::cut_short(reply.why)
                                                            : identity::unreachable(reply.why)};
  }
  Heard heard{identity::parse_answer(reply.output),
              identity::cut_short("its answer was cut short")};
  if (heard.answer) {
    identity::Place& place = heard.answer->place;
    place.is_asker = !asker || place.boot == asker->boot;
  }
  return heard;
}

/// Room for a login that talks, and for a line of procfs of each.
std::size_t longest_answer(std::size_t pids) {
  return (std::size_t{64} << 10) + pids * 1024;
}

Heard ask(const cli::Call& call, const std::string& host, const std::vector<std::uint64_t>& pids) {
  const ssh::Errand errand{host, identity::question(pids)};
  return to_heard(ssh::run({&errand, 1}, settings_of(call), call.log).front(), here());
}

Verdict judge(const SshUid& uid, const std::optional<Record>& record, const Heard& heard) {
  return heard.answer ? identity::judge_remote(uid, record, *heard.answer) : heard.without;
}

/// One question for all that are on one host.
struct Group {
  std::string host;
  std::vector<std::size_t> subjects;
  std::vector<std::uint64_t> pids;
};

std::vector<Group> by_host(const std::vector<std::optional<SshUid>>& uids) {
  std::map<std::string, Group> open;
  std::vector<Group> groups;
  for (std::size_t i = 0; i < uids.size(); ++i) {
    if (!uids[i]) continue;
    Group& group = open[uids[i]->host];
    group.host = uids[i]->host;
    group.subjects.push_back(i);
    const std::uint64_t pid = uids[i]->process.pid;
    if (std::find(group.pids.begin(), group.pids.end(), pid) == group.pids.end()) {
      group.pids.push_back(pid);
    }
    if (group.pids.size() == kMostPids) groups.push_back(std::exchange(group, {}));
  }
  for (auto& [host, group] : open) {
    if (!group.pids.empty()) groups.push_back(std::move(group));
  }
  return groups;
}

Exit are_stale(cli::Call& call) {
  const auto lines = tools::input_lines();
  std::vector<std::optional<Subject>> subjects;
  std::vector<std::optional<SshUid>> uids;
  subjects.reserve(lines.size());
  uids.reserve(lines.size());
  for (const std::string& line : lines) {
    subjects.push_back(identity::parse_subject(line));
    uids.push_back(subjects.back() ? SshUid::parse(subjects.back()->uid.str()) : std::nullopt);
  }
  const auto groups = by_host(uids);
  std::vector<ssh::Errand> errands;
  errands.reserve(groups.size());
  for (const Group& group : groups) {
    errands.push_back({group.host, identity::question(group.pids)});
  }
  ssh::Settings settings = settings_of(call);
  settings.longest_answer = longest_answer(kMostPids);
  const auto replies = ssh::run(errands, settings, call.log);
  const auto asker = here();
  std::vector<Verdict> verdicts(lines.size(), identity::malformed());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    const Heard heard = to_heard(replies[g], asker);
    for (const std::size_t i : groups[g].subjects) {
      verdicts[i] = judge(*uids[i], subjects[i]->record, heard);
    }
  }
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Uid uid = subjects[i] ? subjects[i]->uid : Uid::found(lines[i]);
    call.print(without_newline(identity::to_line(uid, verdicts[i])));
  }
  return SshIdExit::ok;
}

Exit tell(const cli::Call& call, const std::string& host, const Verdict& verdict) {
  call.log.warn("{}: {}", printable(host), verdict.why);
  return Exit::of_program(verdict.code);
}

/// The process named on standard input, if it is alive for certain.
Exit kill(cli::Call& call) {
  const auto lines = tools::input_lines();
  const auto subject = lines.size() == 1 ? identity::parse_subject(lines[0]) : std::nullopt;
  const auto uid = subject ? SshUid::parse(subject->uid.str()) : std::nullopt;
  const auto signal = to_number(call.word(0));
  if (!signal || *signal > 64) throw cli::UsageError("'kill' needs the number of a signal");
  if (!uid) return SshIdExit::malformed;
  const Heard heard = ask(call, uid->host, {uid->process.pid});
  const Verdict verdict = judge(*uid, subject->record, heard);
  if (verdict.life == identity::Life::dead) return KillExit::already_stale;
  if (verdict.life == identity::Life::unknown) return tell(call, uid->host, verdict);
  const auto& sight = heard.answer->sights.at(uid->process.pid);
  const bool is_seen = sight.kind == identity::Sight::Kind::seen;
  const std::string& boot = heard.answer->place.boot;
  if (!is_seen || !verdict.is_certain || !identity::is_boot_id(boot)) return KillExit::unknown;
  const auto patience = identity::ends_processes(static_cast<int>(*signal))
                            ? call.options.patience
                            : std::chrono::seconds(0);
  ssh::Settings settings = settings_of(call);
  settings.total += patience;
  const ssh::Errand order{uid->host,
                          identity::kill_order(uid->process.pid, sight.process.start, boot,
                                               static_cast<int>(*signal), patience)};
  const auto reply = std::move(ssh::run({&order, 1}, settings, call.log).front());
  if (!reply.is_answered) {
    return tell(call, uid->host,
                identity::unreachable(reply.why + ": the signal may have been sent"));
  }
  return Exit::of_program(identity::parse_kill(reply.output));
}

/// A login to this very host must see this process under its number: one that ends up in another
/// pid namespace would call the living dead.
bool sees_us(const RemoteAnswer& answer) {
  std::string why;
  const auto self = identity::LocalId(disk::posix()).identify(std::to_string(getpid()), why);
  if (!self || answer.fqdn != identity::full_host_name()) return true;
  const auto sight = answer.sights.find(self->record.pid);
  return sight != answer.sights.end() && sight->second.process.start == self->record.start;
}

Exit is_host_compatible(cli::Call& call) {
  const std::string& dest = call.word(0);
  const auto name_of = [&](const std::string& host, std::string& name) -> Exit {
    const Heard heard = ask(call, host, {static_cast<std::uint64_t>(getpid())});
    if (!heard.answer) {
      tell(call, host, heard.without);
      return SshIdExit::unreachable;
    }
    if (heard.answer->fqdn.empty()) {
      return tell(call, host, identity::unreachable("it does not tell its full name"));
    }
    if (!sees_us(*heard.answer)) {
      call.log.warn("{}: a login there sees other processes than this one", printable(host));
      return SshIdExit::wrong_host;
    }
    name = heard.answer->fqdn;
    return SshIdExit::ok;
  };
  std::string name;
  if (const Exit exit = name_of(dest, name); exit.code() != 0) return exit;
  if (name == dest) return SshIdExit::ok;
  std::string again;
  const bool leads_back =
      identity::is_host_name(name) && name_of(name, again).code() == 0 && again == name;
  if (leads_back) return SshIdExit::ok;
  call.log.warn("{} calls itself {}, and that name does not lead back to it", printable(dest),
                printable(name));
  return SshIdExit::wrong_host;
}

Exit ssh_uid(cli::Call& call) {
  const std::string& host = call.word(0);
  const auto pid = to_pid(call.word(1));
  const std::string mark = call.has(2) ? call.word(2) : "";
  if (!pid || !identity::is_host_name(host)) return SshIdExit::malformed;
  const Heard heard = ask(call, host, {*pid});
  if (!heard.answer) return tell(call, host, heard.without);
  const RemoteAnswer& answer = *heard.answer;
  if (answer.fqdn.empty()) return SshIdExit::unreachable;
  if (answer.fqdn != host) return SshIdExit::wrong_host;
  if (!answer.place.btime) return SshIdExit::unreachable;
  const auto sight = answer.sights.find(*pid);
  if (sight == answer.sights.end()) return SshIdExit::cut_short;
  const auto look = identity::judge_by_look(sight->second);
  if (look && look->life != identity::Life::dead)
    return tell(call, host, identity::cut_short(look->why));
  const std::string start = look ? mark : sight->second.process.word;
  call.print(answer.fqdn + ":" + call.word(1) + ":" + start + ":" +
             std::to_string(*answer.place.btime) + mark);
  return SshIdExit::ok;
}

/// For people who set up a cluster: how we get there, or what stands in the way.
Exit check(cli::Call& call) {
  const std::string& host = call.word(0);
  const ssh::Errand errand{host, identity::question({})};
  const auto reply = std::move(ssh::run({&errand, 1}, settings_of(call), call.log).front());
  const auto print = [&](std::string_view what, const std::string& value) {
    if (!value.empty()) call.print(std::string(what) + value);
  };
  print("engine    ", reply.route.engine);
  print("host key  ", reply.route.host_key);
  print("known by  ", reply.route.known_by);
  print("login     ", reply.route.login);
  if (!reply.is_answered) return tell(call, host, to_heard(reply, std::nullopt).without);
  const auto answer = identity::parse_answer(reply.output);
  if (!answer) {
    call.log.warn("{}: its answer was cut short: is its shell one for people?", printable(host));
    return SshIdExit::cut_short;
  }
  print("full name ", printable(answer->fqdn));
  if (answer->fqdn == host) return SshIdExit::ok;
  call.log.warn("its ids say {}: see 'ssh_id is_host_compatible'", printable(answer->fqdn));
  return SshIdExit::wrong_host;
}

constexpr cli::Action kActions[] = {
    {"check", "<host>", 1, check},
    {"is_host_compatible", "<sshdest|hostid>", 1, is_host_compatible},
    {"ssh_uid", "<host> <pid> [mark] > uid", {2, 3}, ssh_uid},
    {"are_stale", "< lines > lines", 0, are_stale},
    {"kill", "<signal number> < line", 1, kill},
};

constexpr cli::Option kOptions[] = {
    cli::rows::kill_wait("kill"),
    cli::rows::kSshStrict,
    cli::rows::kSshInsecure,
    {"--connect-timeout", "<seconds>", "", "until a host has shown its key (10)",
     cli::set_seconds<&cli::Options::connect>},
    {"--timeout", "<seconds>", "", "until its answer is whole (30)",
     cli::set_seconds<&cli::Options::total>},
};

constexpr const char* kText =
    "    Asks other hosts about their processes, over ssh, for ssh_id and lock_ssh, which start "
    "it\n"
    "    when they need it. For you it has 'check', which tells how a host is reached, or what "
    "stands\n"
    "    in the way.\n"
    "\n"
    "    Your ssh configuration, agent, keys and known hosts are used; nothing is ever asked.\n"
    "    HOLDFAST_SSH=command has the ssh program make the connections.\n"
    "\n"
    "    Exit: 0 done, 10 no answer from the host, or usage, 11 the host goes by another full "
    "name,\n"
    "          13 the answer does not tell, 14 answer not written, 20 no uid; kill: 0 killed,\n"
    "          1 was dead already, 13 cannot tell, 15 did not die in time, 16 not permitted.\n";

}  // namespace

int main(int argc, char** argv) {
  return cli::run_tool({.name = "holdfast-ssh",
                        .text = kText,
                        .actions = kActions,
                        .options = kOptions,
                        .takes_paths = false},
                       argc, argv);
}
