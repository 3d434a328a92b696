#include "identity/ssh_id.h"

#include <array>
#include <utility>

#include "base/exit_code.h"
#include "base/text.h"
#include "identity/remote.h"

namespace holdfast::identity {
namespace {

constexpr std::array kLives{std::pair(Life::alive, std::string_view("alive")),
                            std::pair(Life::dead, std::string_view("dead")),
                            std::pair(Life::unknown, std::string_view("unknown"))};

}  // namespace

Verdict malformed() {
  return {Life::unknown, "malformed", false, true, static_cast<int>(SshIdExit::malformed)};
}

std::string_view word_of(Life life) {
  for (const auto& [known, word] : kLives) {
    if (known == life) return word;
  }
  return "unknown";
}

std::string to_line(const Subject& subject) {
  std::string line = subject.uid.str();
  if (subject.record) line.append("\t").append(without_newline(to_line(*subject.record)));
  return line.append("\n");
}

std::optional<Subject> parse_subject(std::string_view line) {
  const std::size_t tab = std::min(line.find('\t'), line.size());
  if (tab == 0) return std::nullopt;
  Subject subject{Uid::found(std::string(line.substr(0, tab))), std::nullopt};
  if (tab == line.size()) return subject;
  subject.record = parse_record(std::string(line.substr(tab + 1)) + "\n");
  return subject.record ? std::optional(std::move(subject)) : std::nullopt;
}

std::string to_line(const Uid& uid, const Verdict& verdict) {
  std::string line = uid.str();
  line.append("\t").append(word_of(verdict.life));
  line.append("\t").append(std::to_string(verdict.code));
  line.append("\t").append(printable(verdict.why)).append("\n");
  return line;
}

std::optional<Verdict> parse_verdict(const Uid& uid, std::string_view line) {
  const auto fields = split(line, "\t", false);
  const auto code = fields.size() == 4 ? to_number(fields[2]) : std::nullopt;
  if (!code || fields[0] != uid.str()) return std::nullopt;
  for (const auto& [life, word] : kLives) {
    if (word == fields[1]) {
      return Verdict{life, std::string(fields[3]), true, true, static_cast<int>(*code)};
    }
  }
  return std::nullopt;
}

SshId::SshId(disk::Disk& disk, Settings settings, const Log& log)
    : local_(disk), settings_(std::move(settings)), log_(log) {}

Verdict SshId::check(const Uid& uid, const std::optional<Record>& record) const {
  const Subject subject{uid, record};
  return check_all({&subject, 1}).front();
}

std::vector<Verdict> SshId::check_all(std::span<const Subject> subjects) const {
  std::vector<Verdict> verdicts;
  std::vector<Subject> far;
  verdicts.reserve(subjects.size());
  far.reserve(subjects.size());
  for (const Subject& subject : subjects) {
    if (!SshUid::parse(subject.uid.str())) {
      verdicts.push_back(malformed());
      continue;
    }
    verdicts.push_back(local_.check(subject.uid, subject.record));
    if (verdicts.back().life == Life::unknown) far.push_back(subject);
  }
  const std::vector<Verdict> answers = ask(far);
  for (std::size_t i = 0, next = 0; i < subjects.size(); ++i) {
    Verdict& verdict = verdicts[i];
    const bool was_asked = next < far.size() && far[next].uid == subjects[i].uid;
    if (verdict.life == Life::unknown && was_asked) verdict = answers[next++];
    if (verdict.life == Life::unknown) {
      notify(subjects[i].uid, verdict);
      verdict.is_told = true;
    }
  }
  return verdicts;
}

std::vector<Verdict> SshId::ask(std::span<const Subject> subjects) const {
  if (subjects.empty()) return {};
  std::string input;
  for (const Subject& subject : subjects) input += to_line(subject);
  const Ran ran = travel({"are_stale"}, Output::captured, input);
  const auto lines = split(ran.output, "\n", true);
  std::vector<Verdict> verdicts;
  verdicts.reserve(subjects.size());
  for (std::size_t i = 0; i < subjects.size() && lines.size() == subjects.size(); ++i) {
    auto verdict = parse_verdict(subjects[i].uid, lines[i]);
    if (verdict) verdicts.push_back(std::move(*verdict));
  }
  // an answer that does not fit the question line by line is none
  if (ran.status != 0 || verdicts.size() != subjects.size()) {
    const std::string why = "holdfast-ssh exited with " + std::to_string(ran.status);
    verdicts.assign(subjects.size(), unreachable(why));
  }
  return verdicts;
}

Ran SshId::travel(const std::vector<std::string>& words, Output output,
                  const std::optional<std::string>& input) const {
  std::vector<std::string> all{beside_us("holdfast-ssh")};
  if (settings_.is_strict) all.emplace_back("--ssh-strict");
  if (settings_.is_insecure) all.emplace_back("--ssh-insecure");
  if (log_.level() == Log::Level::info) all.emplace_back("--info");
  if (log_.level() == Log::Level::debug) all.emplace_back("--debug");
  all.insert(all.end(), words.begin(), words.end());
  return run_program(all, output, input);
}

void SshId::notify(const Uid& uid, const Verdict& verdict) const {
  const std::string host = full_host_name();
  const std::string message = "WARNING: host(" + host +
                              ") is unable to identify live/staleness for " + uid.str() + ": " +
                              std::string(reason_of(verdict.code));
  const auto parsed = SshUid::parse(uid.str());
  if (settings_.notifier.empty()) {
    log_.warn("{}", printable(message));
  } else {
    std::vector<std::string> words = settings_.notifier;
    words.insert(words.end(), {host, uid.str(), message});
    if (run_program(words, settings_.notifier_output).status == 127) {
      log_.warn("{}", printable(message));
      log_.warn("WARNING: the notifier {} cannot be run", printable(words.front()));
    }
  }
  if (parsed) log_.warn("{}: {}", parsed->host, verdict.why);
}

std::optional<Identity> SshId::identify(const std::string& pid, std::string& why) const {
  auto identity = local_.identify(pid, why);
  if (!identity) return std::nullopt;
  const std::string host = full_host_name();
  if (!is_host_name(host) || !is_telling_host_name(host)) {
    why =
        "this host has no full name: 'hostname --fqdn' must print one that leads here from others";
    return std::nullopt;
  }
  identity->uid = Uid::found(host + ":" + identity->uid.str());
  return identity;
}

bool SshId::is_valid_uid(const std::string& text) const {
  return SshUid::parse(text).has_value();
}

std::optional<SshUid> SshId::parse(const Uid& uid) const {
  auto parsed = SshUid::parse(uid.str());
  if (!parsed) notify(uid, malformed());
  return parsed;
}

Told SshId::pid(const Uid& uid) const {
  const auto parsed = parse(uid);
  if (!parsed) return {static_cast<int>(SshIdExit::malformed)};
  return {static_cast<int>(SshIdExit::ok), std::to_string(parsed->process.pid)};
}

Told SshId::hostid(const Uid& uid) const {
  const auto parsed = parse(uid);
  if (!parsed) return {static_cast<int>(SshIdExit::malformed)};
  return {static_cast<int>(SshIdExit::ok), parsed->host};
}

int SshId::is_host_compatible(const std::string& host) const {
  return travel({"is_host_compatible", host}, Output::ours).status;
}

int SshId::kill(const Uid& uid, const std::optional<Record>& record, int signal,
                std::chrono::seconds patience) const {
  if (!parse(uid)) return static_cast<int>(SshIdExit::malformed);
  if (local_.check(uid, record).life != Life::unknown) {
    return static_cast<int>(local_.kill(uid, record, signal, patience));
  }
  return travel({"--wait", std::to_string(patience.count()), "kill", std::to_string(signal)},
                Output::ours, to_line(Subject{uid, record}))
      .status;
}

}  // namespace holdfast::identity
