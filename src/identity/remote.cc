#include "identity/remote.h"

#include "base/exit_code.h"
#include "base/text.h"

namespace holdfast::identity {
namespace {

constexpr std::string_view kBegin = "HOLDFAST 1";
constexpr std::string_view kEnd = "HOLDFAST END";
constexpr std::string_view kWhole = " COMPLETED";

int number(SshIdExit code) {
  return static_cast<int>(code);
}

/// For any login shell: nothing in `script` may be a single quote or a newline.
std::string for_any_shell(const std::string& script) {
  return "exec /bin/sh -c '" + script + "'";
}

/// `say KEY VALUE`.
constexpr std::string_view kPrelude =
    "LC_ALL=C; export LC_ALL; exec 2>/dev/null; "
    "say() { printf \"%s %s COMPLETED\\n\" \"$1\" \"$2\"; }; ";

constexpr std::string_view kPlace =
    "printf \"HOLDFAST 1\\n\"; "
    "say fqdn \"$(hostname --fqdn)\"; "
    "v=; read -r v </proc/sys/kernel/hostname; say node \"$v\"; "
    "v=; read -r v </proc/sys/kernel/random/boot_id; say boot \"$v\"; "
    "say pidns \"$(readlink /proc/self/ns/pid)\"; "
    "say timens \"$(readlink /proc/self/ns/time)\"; "
    "grep -h -e ^btime -e ^NSpid: /proc/stat /proc/self/status | "
    "while read -r k v; do say \"$k\" \"$v\"; done; ";

/// Of a pid that cannot be read only the kernel's word for "no such process" proves that there is
/// none. Those that procfs does not show are asked of the kernel all together, for each costs a
/// process else. What it says of a pid stands before the line that names it; both come through one
/// descriptor, so that no buffer can put them in another order.
constexpr std::string_view kLooks =
    "do if s=; IFS= read -r s </proc/$p/stat; then say stat \"$s\"; else m=\"$m $p\"; fi; done; "
    "for p in $m; do kill -0 $p && echo there >&2; echo \"@ $p\" >&2; done 2>&1 >/dev/null | "
    "while read -r e; do case $e in "
    "\"@ \"*) case $g in *\"o such process\"*) say gone ${e#@ } ;; *) say hidden ${e#@ } ;; esac; "
    "g= ;; "
    "*) g=$g$e ;; esac; done; ";

/// The value of a line that says whole what `key` is.
std::optional<std::string_view> value_of(std::string_view line, std::string_view key) {
  if (!line.starts_with(key) || line.size() < key.size() + 1 || line[key.size()] != ' ') {
    return std::nullopt;
  }
  line.remove_prefix(key.size() + 1);
  if (line.ends_with(kWhole)) return line.substr(0, line.size() - kWhole.size());
  if (line == kWhole.substr(1)) return "";
  return std::nullopt;
}

void add_sight(RemoteAnswer& answer, std::string_view stat) {
  const auto pid = to_pid(stat.substr(0, stat.find(' ')));
  if (!pid) return;
  const auto process = ProcStat::parse(stat);
  answer.sights[*pid] = process ? Sight{Sight::Kind::seen, *process} : Sight{};
}

void add_line(RemoteAnswer& answer, std::string_view line) {
  if (const auto v = value_of(line, "fqdn")) answer.fqdn = *v;
  if (const auto v = value_of(line, "node")) answer.place.host = *v;
  if (const auto v = value_of(line, "boot")) answer.place.boot = *v;
  if (const auto v = value_of(line, "pidns")) answer.place.pidns = *v;
  if (const auto v = value_of(line, "timens")) answer.place.timens = *v;
  if (const auto v = value_of(line, "btime")) answer.place.btime = to_number(*v);
  if (const auto v = value_of(line, "NSpid:")) {
    answer.is_own_procfs = split(*v, " \t", true).size() == 1;
  }
  if (const auto v = value_of(line, "stat")) add_sight(answer, *v);
  for (const auto& [key, kind] :
       {std::pair("gone", Sight::Kind::gone), std::pair("hidden", Sight::Kind::hidden)}) {
    const auto v = value_of(line, key);
    if (const auto pid = v ? to_pid(*v) : std::nullopt) answer.sights[*pid] = Sight{kind};
  }
}

Verdict cannot_tell(SshIdExit code, std::string why) {
  return {Life::unknown, std::move(why), true, true, number(code)};
}

/// The ladder, for a process of a place that is the right one.
Verdict judge_there(const SshUid& uid, const std::optional<Record>& record,
                    const RemoteAnswer& answer, const Sight& sight) {
  const bool is_usable_record = record && record->names_process() && record->pid == uid.process.pid;
  if (is_usable_record) {
    return judge_by_record(*record, uid.process.btime, answer.place, sight);
  }
  Verdict verdict = judge_by_text(uid.process, answer.place, sight);
  if (!record || record->pid != 0) return verdict;
  return dead_only_there(std::move(verdict), *record, uid.process.btime, answer.place);
}

}  // namespace

std::string question(std::span<const std::uint64_t> pids) {
  std::string script;
  script.append(kPrelude).append(kPlace).append("m=; g=; for p in");
  for (const std::uint64_t pid : pids) script.append(" ").append(std::to_string(pid));
  script.append("; ").append(kLooks);
  script.append("printf \"").append(kEnd).append("\\n\"");
  return for_any_shell(script);
}

/// As the kernel prints it, and so nothing that a shell could take for more than a word.
bool is_boot_id(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789abcdef-") == std::string_view::npos;
}

bool has_begun(std::string_view output) {
  return line_after(output, kBegin).has_value();
}

std::optional<RemoteAnswer> parse_answer(std::string_view output) {
  RemoteAnswer answer;
  answer.place.is_named_by_id = true;
  bool has_begun = false;
  while (!output.empty()) {
    const std::size_t end = output.find('\n');
    if (end == std::string_view::npos) return std::nullopt;  // a line without its end
    const std::string_view line = output.substr(0, end);
    output.remove_prefix(end + 1);
    if (line == kEnd) return has_begun ? std::optional(std::move(answer)) : std::nullopt;
    if (has_begun) add_line(answer, line);
    has_begun = has_begun || line == kBegin;
  }
  return std::nullopt;
}

Verdict unreachable(std::string why) {
  return cannot_tell(SshIdExit::unreachable, std::move(why));
}

Verdict cut_short(std::string why) {
  return cannot_tell(SshIdExit::cut_short, std::move(why));
}

Verdict judge_remote(const SshUid& uid, const std::optional<Record>& record,
                     const RemoteAnswer& answer) {
  if (answer.fqdn.empty()) return unreachable("it does not know its own full name");
  if (answer.fqdn != uid.host) {
    return cannot_tell(SshIdExit::wrong_host, "it calls itself " + printable(answer.fqdn));
  }
  if (!is_telling_host_name(answer.fqdn)) {
    return cannot_tell(SshIdExit::wrong_host, "any host goes by that name");
  }
  if (!answer.place.btime) return unreachable("it does not tell when it booted");
  const auto sight = answer.sights.find(uid.process.pid);
  if (sight == answer.sights.end()) {
    return cut_short("it says nothing of that process");
  }
  if (!answer.is_own_procfs) {
    return cut_short("its /proc shows another pid namespace");
  }
  Verdict verdict = judge_there(uid, record, answer, sight->second);
  if (verdict.life == Life::unknown) return cut_short(verdict.why);
  verdict.is_elsewhere = true;
  verdict.code = number(verdict.life == Life::dead ? SshIdExit::ok : SshIdExit::no);
  return verdict;
}

std::string_view reason_of(int code) {
  if (code == number(SshIdExit::unreachable)) return "SSHDEST Incompatible";
  if (code == number(SshIdExit::wrong_host)) return "HOSTID Missmatch";
  if (code == number(SshIdExit::malformed)) return "Malformed UID";
  return "Unknown";
}

std::string kill_order(std::uint64_t pid, std::uint64_t start, const std::string& boot, int signal,
                       std::chrono::seconds patience) {
  std::string script(kPrelude);
  script += "p=" + std::to_string(pid) + "; t=" + std::to_string(start) + "; i=" + boot + "; ";
  // boot id, start time and state: a zombie without living threads is gone
  script +=
      "is_same() { b=; read -r b </proc/sys/kernel/random/boot_id; s=; "
      "IFS= read -r s </proc/$p/stat || return 1; s=${s##*)}; set -- $s; "
      "case $b,${20},$1${18} in $i,$t,Z1) return 1 ;; $i,$t,*) return 0 ;; *) return 1 ;; esac; "
      "}; ";
  script += "end() { say kill $1; exit; }; is_same || end gone; ";
  script += "kill -" + std::to_string(signal) + " $p || { is_same && end refused; end gone; }; ";
  if (patience.count() > 0) {
    script += "n=0; while is_same; do [ $n -lt " + std::to_string(patience.count() * 5) +
              " ] || end running; n=$((n+1)); sleep 0.2 || { sleep 1; n=$((n+4)); }; done; ";
  }
  return for_any_shell(script + "end killed");
}

int parse_kill(std::string_view output) {
  const auto line = line_after(output, "kill ");
  if (line == "killed COMPLETED") return static_cast<int>(KillExit::killed);
  if (line == "gone COMPLETED") return static_cast<int>(KillExit::already_stale);
  if (line == "refused COMPLETED") return static_cast<int>(KillExit::not_permitted);
  if (line == "running COMPLETED") return static_cast<int>(KillExit::still_running);
  return number(SshIdExit::cut_short);
}

}  // namespace holdfast::identity
