/// ssh_id as a shell user meets it, as far as that needs no other host: those are in
/// tests/system/cluster.

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;

namespace {

std::string full_name() {
  const std::string name = run({"hostname", "--fqdn"}).out;
  REQUIRE(name.ends_with('\n'));
  return name.substr(0, name.size() - 1);
}

/// Where nobody listens: no journey gets anywhere, and none is long.
const Env kNobody = {{"HOLDFAST_SSH_CONNECT_TIMEOUT", "2"}, {"HOLDFAST_SSH_TIMEOUT", "3"}};
const std::string kFar = "nowhere.invalid:4242:5000:1700000000";

std::string warning(const std::string& uid, const std::string& reason) {
  return "WARNING: host(" + full_name() + ") is unable to identify live/staleness for " + uid +
         ": " + reason;
}

}  // namespace

TEST_CASE("ssh_id names a process by its full host name and its local id", "[e2e]") {
  const Process process(kSleeper);
  const Result made = run({"ssh_id", "uid", process.pid_text()});
  CHECK(made == Result{0, full_name() + ":" + uid_of(process.pid_text()) + "\n", ""});
}

TEST_CASE("ssh_id has no uid for what does not run", "[e2e]") {
  const Process process(kSleeper);
  CHECK(run({"ssh_id", "uid", kNoPid}) == kSilentNo);
  CHECK(run({"ssh_id", "uid", "x"}) == kSilentNo);
  CHECK(run({"ssh_id", "uid", uid_of(process.pid_text())}) == kSilentNo);
  CHECK(run({"ssh_id", "uid", ""}) == Result{127, "", ""});
}

TEST_CASE("ssh_id has no uid for a host without a full name", "[e2e]") {
  if (!is_root()) SKIP_TEST("needs root for a host name of its own");
  const Session at;
  const Result result = at.shell(
      "unshare --uts --mount sh -c 'mount --bind /dev/null /etc/hosts; "
      "hostname no-such-host.invalid; ssh_id uid $$'");
  INFO(result);
  CHECK(result.code == 12);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Contains("no full name"));
}

TEST_CASE("ssh_id has no uid for a host without a boot time", "[e2e]") {
  if (!is_root()) SKIP_TEST("needs root for a /proc/stat of its own");
  const Session at;
  const std::string rest = GENERATE("", "grep -v ^btime /proc/stat");
  CAPTURE(rest);
  at.must(rest + " > stat");
  const Result result =
      at.shell("unshare --mount sh -c 'mount --bind stat /proc/stat && ssh_id uid $$'");
  check_failed(result, 12, "no boot time in /proc/stat");
}

TEST_CASE("ssh_id takes a uid apart", "[e2e]") {
  const std::string uid = "build7.example.org:4242:5000:1700000000";
  CHECK(run({"ssh_id", "pid", uid}) == Result{0, "4242\n", ""});
  CHECK(run({"ssh_id", "hostid", uid}) == Result{0, "build7.example.org\n", ""});
  CHECK(run({"ssh_id", "sshdest", uid}) == Result{0, "build7.example.org\n", ""});
  CHECK(run({"ssh_id", "is_valid_uid", uid}) == kSilentYes);
  CHECK(run({"ssh_id", "is_valid_uid", "4242"}) == kSilentNo);
}

TEST_CASE("ssh_id says 20 of what is no uid and runs nothing of it", "[e2e][H14]") {
  const Session at;
  const std::string uid =
      GENERATE(as<std::string>(), "malformed", "h:1:2", "h:$(touch hit):2:3", "h;touch hit:1:2:3",
               "h:1:2:3'; touch hit; '", "-oProxyCommand=touch hit:1:2:3", "h:1`touch hit`:2:3");
  CAPTURE(uid);
  for (const char* action : {"pid", "hostid", "sshdest", "is_stale", "kill"}) {
    CAPTURE(action);
    const Result result = at.run({"ssh_id", action, uid}, kNobody);
    INFO(result);
    CHECK(result.code == 20);
    CHECK(result.out.empty());
    CHECK_THAT(result.err, Contains(warning(uid, "Malformed UID") + "\n"));
  }
  CHECK(at.tree().empty());
}

TEST_CASE("ssh_id does not take a silent host for dead", "[e2e]") {
  const Result result = run({"ssh_id", "is_stale", kFar}, {.cwd = {}, .env = kNobody, .input = {}});
  INFO(result);
  CHECK(result.code == 10);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, Catch::StartsWith(warning(kFar, "SSHDEST Incompatible") + "\n"));
  CHECK_THAT(result.err, Contains("nowhere.invalid: "));
}

TEST_CASE("ssh_id runs the notifier with its words and then host and uid and message", "[e2e]") {
  const Session at;
  const Result result = at.run({"ssh_id", "--on-check-fail", "printf", "--on-check-fail", "%s|",
                                "--on-check-fail", "two words", "is_stale", kFar},
                               kNobody);
  INFO(result);
  CHECK(result.code == 10);
  CHECK(result.out == "two words|" + full_name() + "|" + kFar + "|" +
                          warning(kFar, "SSHDEST Incompatible") + "|");
}

TEST_CASE("a notifier that fails or does not exist changes no answer", "[e2e]") {
  const std::string notifier = GENERATE(as<std::string>(), "/no/such/notifier", "false");
  const Session at;
  CHECK(at.run({"ssh_id", "--on-check-fail", notifier, "is_stale", kFar}, kNobody).code == 10);
  CHECK(at.run({"ssh_id", "--on-check-fail", notifier, "pid", "x"}, kNobody).code == 20);
}

TEST_CASE("ssh_id answers each line of many in its order", "[e2e]") {
  RunOptions options;
  options.env = kNobody;
  options.input = "malformed\n" + kFar + "\n\nh:1:2 dead gone\n";
  const Result result = run({"ssh_id", "are_stale"}, options);
  INFO(result);
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::Matches("malformed unknown Malformed UID: [^\n]+\n"
                                        "nowhere.invalid:4242:5000:1700000000 unknown SSHDEST "
                                        "Incompatible: [^\n]+\n"
                                        "h:1:2.dead.gone unknown Malformed UID: [^\n]+\n"));
  options.input = "";
  CHECK(run({"ssh_id", "are_stale"}, options) == kSilentYes);
}

TEST_CASE("ssh_id refuses what it does not know", "[e2e]") {
  check_usage(run({"ssh_id"}));
  check_usage(run({"ssh_id", "uid"}));
  check_usage(run({"ssh_id", "ls", "/"}), "unknown action");
  check_usage(run({"ssh_id", "--bogus", "uid", "1"}));
  check_usage(run({"ssh_id", "kill", kFar, "NOSUCH"}), "unknown signal");
}

TEST_CASE("an engine or a time that makes no sense is told and asks nobody", "[e2e]") {
  const auto [variable, value] = GENERATE(table<std::string, std::string>({
      {"HOLDFAST_SSH", "telnet"},
      {"HOLDFAST_SSH_TIMEOUT", "soon"},
      {"HOLDFAST_SSH_TIMEOUT", "-1"},
      {"HOLDFAST_SSH_CONNECT_TIMEOUT", "0"},
  }));
  CAPTURE(variable, value);
  const Session at;
  const Result result = at.run({"ssh_id", "is_stale", kFar}, {{variable, value}});
  INFO(result);
  CHECK(result.code == 10);
  CHECK_THAT(result.err, Contains(variable + " must be"));
}
