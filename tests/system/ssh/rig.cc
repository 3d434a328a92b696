#include "rig.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>

namespace holdfast::testing {
namespace {

/// Makes the world that the user sees, and keeps it until it is killed.
const std::string kHolder = R"sh(
set -e
cd "$1"
ip link set lo up
[ -d /run/sshd ] || { mount -t tmpfs tmpfs /run && mkdir /run/sshd; }
for file in passwd shadow hosts resolv.conf; do
    [ ! -e /etc/$file ] || mount --bind etc/$file /etc/$file
done
mount --bind etc/ssh /etc/ssh
: > ready
exec sleep 100000
)sh";

std::string with_own_home(const std::string& home) {
  std::ifstream passwd("/etc/passwd");
  std::string made;
  for (std::string line; std::getline(passwd, line);) {
    if (!line.starts_with("root:")) made += line + "\n";
  }
  return "root:x:0:0:root:" + home + ":/bin/sh\n" + made;
}

std::string field(const std::string& line, const std::string& name) {
  return line.substr(std::string("  =").size() + name.size());
}

std::vector<Told> parse(const std::string& text) {
  std::vector<Told> all;
  std::istringstream lines(text);
  bool is_output = false;
  for (std::string line; std::getline(lines, line);) {
    if (is_output && line != "  end") {
      all.back().output += line + "\n";
      continue;
    }
    is_output = false;
    if (!line.starts_with("  ")) {
      std::istringstream words(line);
      Told told;
      std::string verdict;
      words >> told.host >> verdict >> told.status;
      told.is_answered = verdict == "answered";
      all.push_back(told);
      continue;
    }
    Told& told = all.back();
    for (const auto& [name, to] : {std::pair{"why", &told.why},
                                   {"engine", &told.engine},
                                   {"login", &told.login},
                                   {"host_key", &told.host_key},
                                   {"known_by", &told.known_by}}) {
      if (line.starts_with("  " + std::string(name) + "=")) *to = field(line, name);
    }
    if (line.starts_with("  size=")) told.size = std::stoul(field(line, "size"));
    is_output = line == "  output";
  }
  return all;
}

}  // namespace

std::ostream& operator<<(std::ostream& to, const Told& told) {
  return to << told.host << (told.is_answered ? " answered " : " silent ") << told.status
            << "\nwhy: " << told.why << "\nengine: " << told.engine << "\nlogin: " << told.login
            << "\nhost key: " << told.host_key << "\nknown by: " << told.known_by
            << "\noutput: " << told.output;
}

bool Rig::is_possible() {
  return is_root() && has_program("ip") && has_program("nsenter") && has_program("ssh") &&
         access("/usr/sbin/sshd", X_OK) == 0 &&
         run({"unshare", "-m", "-n", "-p", "--fork", "true"}).code == 0;
}

Rig::Rig() {
  const std::string& dir = dir_.path();
  REQUIRE(
      run({"sh", "-c",
           "mkdir -p \"$1\"/home/.ssh \"$1\"/etc/ssh \"$1\"/hosts && chmod 700 "
           "\"$1\"/home \"$1\"/home/.ssh && ssh-keygen -q -t ed25519 -N '' -f "
           "\"$1\"/home/.ssh/id_ed25519 && cp \"$1\"/home/.ssh/id_ed25519.pub \"$1\"/authorized",
           "sh", dir})
          .code == 0);
  write_file(dir_ / "etc/passwd", with_own_home(home()));
  write_file(dir_ / "etc/shadow", "root:*:19000:0:99999:7:::\nsshd:!:19000::::::\n");
  write_file(dir_ / "etc/resolv.conf", "");
  write_hosts();
  holder_ = std::make_unique<Process>(
      Words{"unshare", "-m", "-n", "-p", "--fork", "--kill-child", "sh", "-c", kHolder, "sh", dir});
  REQUIRE(eventually([&] { return access((dir_ / "ready").c_str(), F_OK) == 0; }));
  const std::string pid = holder_->pid_text();
  inside_ = read_file("/proc/" + pid + "/task/" + pid + "/children");
  inside_ = inside_.substr(0, inside_.find(' '));
  REQUIRE_FALSE(inside_.empty());
}

Rig::~Rig() = default;

std::string Rig::home(const std::string& name) const {
  return dir_.path() + "/home" + (name.empty() ? "" : "/" + name);
}

std::string Rig::address(const std::string& name) {
  const auto at = std::find(names_.begin(), names_.end(), name);
  const auto place = at - names_.begin();
  if (at == names_.end()) {
    names_.push_back(name);
    write_hosts();
  }
  return "127.0.1." + std::to_string(place + 1);
}

void Rig::write_hosts() const {
  std::string text = "127.0.0.1 localhost\n";
  for (std::size_t i = 0; i < names_.size(); ++i) {
    text += "127.0.1." + std::to_string(i + 1) + " " + names_[i] + ".test\n";
  }
  std::ofstream(dir_ / "etc/hosts") << text;  // in place: it is mounted
}

void Rig::make_keys(const std::string& name, const Words& key_types) const {
  const std::string keys = dir_ / "hosts/" + name;
  std::string script = "rm -rf \"$1\" && mkdir \"$1\"";
  for (const std::string& type : key_types) {
    script += " && ssh-keygen -q -t " + type + (type == "rsa" ? " -b 2048" : "") +
              " -N '' -C '' -f \"$1\"/" + type;
  }
  REQUIRE(run({"sh", "-c", script, "sh", keys}).code == 0);
}

void Rig::start_host(const std::string& name, const Words& key_types,
                     const std::string& more_config, const std::string& port) {
  make_keys(name, key_types);
  std::string config = "ListenAddress " + address(name) + "\nAuthorizedKeysFile " +
                       (dir_ / "authorized") +
                       "\nStrictModes no\nUsePAM no\nPidFile none\nPasswordAuthentication no\n"
                       "KbdInteractiveAuthentication no\nMaxStartups 100\nLogLevel ERROR\n";
  for (const std::string& type : key_types) {
    config += "HostKey " + (dir_ / "hosts/" + name + "/" + type) + "\n";
  }
  write_file(dir_ / name + ".conf", config + more_config);
  restart_host(name, port);
}

void Rig::restart_host(const std::string& name, const std::string& port) {
  stop_host(name);
  launch(name, {"/usr/sbin/sshd", "-D", "-e", "-f", dir_ / name + ".conf"}, port);
}

void Rig::start_silent(const std::string& name, const std::string& greeting) {
  launch(name, Words{helper("silent_server"), "tcp", address(name), "22"} +
                   (greeting.empty() ? Words{} : Words{greeting}));
}

void Rig::launch(const std::string& name, const Words& words, const std::string& port) {
  servers_.push_back({name, std::make_unique<Process>(enter(true) + words)});
  const std::string probe = "exec 3<>/dev/tcp/" + address(name) + "/" + port;
  REQUIRE(eventually([&] { return as_user({"bash", "-c", probe}).code == 0; }));
}

/// nsenter -p forks: its child, the server, has to go as well, before its address is free.
void Rig::stop_host(const std::string& name) {
  for (Server& server : servers_) {
    if (server.name != name || !server.process) continue;
    const std::string pid = server.process->pid_text();
    std::istringstream children(read_file("/proc/" + pid + "/task/" + pid + "/children"));
    for (pid_t child = 0; children >> child;) ::kill(child, SIGKILL);
    server.process->wait();
    server.process.reset();
  }
  std::erase_if(servers_, [&](const Server& server) { return server.name == name; });
}

void Rig::set_up_anew(const std::string& name, const Words& key_types) {
  start_host(name, key_types);
}

std::string Rig::public_key(const std::string& host, const std::string& type) const {
  std::istringstream words(read_file(dir_ / "hosts/" + host + "/" + type + ".pub"));
  std::string kind, key;
  words >> kind >> key;
  return kind + " " + key;
}

Words Rig::enter(bool with_processes) const {
  Words words{"nsenter", "-t", inside_, "-m", "-n"};
  if (with_processes) words.push_back("-p");
  // nsenter goes to the root folder, whatever folder it was started in
  return words + Words{"env", "-C", home()};
}

/// As words for env: nsenter itself keeps ours.
Words Rig::environment(const std::map<std::string, std::string>& more) const {
  std::map<std::string, std::string> env{{"HOME", home()},
                                         {"XDG_STATE_HOME", home("state")},
                                         {"SSH_AUTH_SOCK", ""},
                                         {"DISPLAY", ":9"},
                                         {"SSH_ASKPASS", dir_ / "askpass"}};
  for (const auto& [name, value] : more) env[name] = value;
  Words words;
  for (const auto& [name, value] : env) words.push_back(name + "=" + value);
  return words;
}

Result Rig::as_user(const Words& command, const std::map<std::string, std::string>& env) const {
  return run(enter(false) + environment(env) + command);
}

std::unique_ptr<Process> Rig::start_as_user(const Words& command,
                                            const std::map<std::string, std::string>& env) const {
  return std::make_unique<Process>(enter(false) + environment(env) + command);
}

Words Rig::errand_words(const Words& options, const std::string& command,
                        const Words& hosts) const {
  return Words{helper("ssh_errand")} + options + Words{command} + hosts;
}

Trip Rig::errand(const Words& options, const std::string& command, const Words& hosts,
                 const std::map<std::string, std::string>& env) const {
  const auto start = std::chrono::steady_clock::now();
  const Result result = as_user(errand_words(options, command, hosts), env);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  INFO(result.err);
  Trip trip{parse(result.out), result.err, result.code, took.count()};
  CHECK(trip.code == 0);  // 9: it left children behind
  REQUIRE(trip.told.size() == hosts.size());
  return trip;
}

void Rig::must(const std::string& script) const {
  const Result result = as_user({"bash", "-ec", script});
  INFO(script << "\n" << result.out << result.err);
  REQUIRE(result.code == 0);
}

void Rig::write(const std::string& name, const std::string& text) const {
  write_file(home(name), text);
}

}  // namespace holdfast::testing
