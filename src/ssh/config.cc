#include "ssh/config.h"

#include <libssh/libssh.h>
#include <pwd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "ssh/child.h"
#include "ssh/report.h"

namespace holdfast::ssh {
namespace {

constexpr std::size_t kLongestConfig = std::size_t{1} << 20;

/// Lines of `ssh -G`: a word in small letters and its value.
using Lines = std::multimap<std::string, std::string, std::less<>>;

Lines parse(std::string_view text) {
  Lines lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t blank = std::min(line.find(' '), line.size());
    lines.emplace(line.substr(0, blank), line.substr(std::min(blank + 1, line.size())));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string value(const Lines& lines, std::string_view name) {
  const auto at = lines.find(name);
  return at == lines.end() || at->second == "none" ? std::string() : at->second;
}

bool is_yes(const Lines& lines, std::string_view name) {
  const std::string said = value(lines, name);
  return said == "yes" || said == "true";
}

std::vector<std::string> split_commas(const std::string& list) {
  std::vector<std::string> items;
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t end = std::min(list.find(',', from), list.size());
    items.push_back(list.substr(from, end - from));
    from = end + 1;
  }
  return items;
}

/// `ssh -G` puts blanks between file names, and none around those inside of them. All names are
/// absolute by then, so a name begins where a slash follows a blank.
std::vector<std::string> split_files(const std::string& list) {
  std::vector<std::string> files;
  for (std::size_t from = 0; from < list.size();) {
    const std::size_t end = std::min(list.find(" /", from), list.size());
    std::string file = list.substr(from, end - from);
    if (file != "none" && file != "/dev/null") files.push_back(std::move(file));
    from = end + 1;
  }
  return files;
}

std::string home_dir() {
  const passwd* user = getpwuid(geteuid());  // as ssh does, whatever $HOME is
  return user ? user->pw_dir : "";
}

std::string user_name() {
  const passwd* user = getpwuid(geteuid());
  return user ? user->pw_name : "";
}

std::string local_host() {
  std::string name(256, '\0');
  gethostname(name.data(), name.size() - 1);
  return name.c_str();
}

/// The value of a token of the ssh config, such as %h. False if it is not one that we know.
bool expand_token(char token, const HostConfig& config, const std::string& asked, std::string& to) {
  switch (token) {
    case '%':
      to += '%';
      return true;
    case 'd':
      to += home_dir();
      return true;
    case 'h':
      to += config.hostname;
      return true;
    case 'n':
      to += asked;
      return true;
    case 'p':
      to += config.port;
      return true;
    case 'r':
      to += config.user;
      return true;
    case 'u':
      to += user_name();
      return true;
    case 'i':
      to += std::to_string(geteuid());
      return true;
    case 'l':
      to += local_host();
      return true;
    case 'L':
      to += local_host().substr(0, local_host().find('.'));
      return true;
    case 'k':
      to += config.key_alias.empty() ? asked : config.key_alias;
      return true;
    default:
      return false;
  }
}

/// A path with ~, %tokens and ${VARIABLES}, or nothing if there is one that we do not know.
std::optional<std::string> expand(std::string_view path, const HostConfig& config,
                                  const std::string& asked) {
  std::string made;
  if (path.starts_with("~/")) {
    made = home_dir();
    path.remove_prefix(1);
  } else if (path.starts_with("~")) {
    return std::nullopt;
  }
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (path[i] == '%' && i + 1 < path.size()) {
      if (!expand_token(path[++i], config, asked, made)) return std::nullopt;
    } else if (path.substr(i).starts_with("${")) {
      const std::size_t end = path.find('}', i);
      if (end == std::string_view::npos) return std::nullopt;
      const char* variable = std::getenv(std::string(path.substr(i + 2, end - i - 2)).c_str());
      if (!variable) return std::nullopt;
      made += variable;
      i = end;
    } else {
      made += path[i];
    }
  }
  return made;
}

bool exists(const std::string& path) {
  return access(path.c_str(), F_OK) == 0;
}

/// Of a connection that the user opened before and shares.
bool is_live_socket(const std::string& path) {
  sockaddr_un address{};
  if (path.empty() || path.size() >= sizeof address.sun_path) return false;
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool is_live =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return is_live;
}

void take_identities(const Lines& lines, const std::string& asked, HostConfig& config) {
  const auto [first, last] = lines.equal_range("identityfile");
  for (auto at = first; at != last; ++at) {
    const std::optional<std::string> file = expand(at->second, config, asked);
    if (!file) {
      config.beyond_libssh = "IdentityFile " + at->second;
      continue;
    }
    if (exists(*file + "-cert.pub")) config.beyond_libssh = "certificate " + *file + "-cert.pub";
    if (exists(*file)) config.identity_files.push_back(*file);
  }
  if (lines.contains("certificatefile")) config.beyond_libssh = "CertificateFile";

  std::string agent = lines.contains("identityagent") ? lines.find("identityagent")->second
                                                      : std::string("SSH_AUTH_SOCK");
  if (agent == "none") return;
  if (agent == "SSH_AUTH_SOCK") agent = "$SSH_AUTH_SOCK";
  if (agent.front() == '$' && !agent.starts_with("${")) {
    const char* path = std::getenv(agent.c_str() + 1);
    config.agent = path ? path : "";
  } else if (const std::optional<std::string> path = expand(agent, config, asked)) {
    config.agent = *path;
  } else {
    config.beyond_libssh = "IdentityAgent " + agent;
  }
}

void take_limits_of_libssh(const Lines& lines, HostConfig& config) {
  static constexpr std::array<std::string_view, 7> kUnknownToLibssh = {
      "proxyjump",   "proxycommand",  "pkcs11provider",   "revokedhostkeys",
      "bindaddress", "bindinterface", "knownhostscommand"};
  for (const std::string_view name : kUnknownToLibssh) {
    const std::string said = value(lines, name);
    if (!said.empty()) config.beyond_libssh = std::string(name) + " " + said;
  }
  for (const std::string_view name : {"hostbasedauthentication", "gssapikeyexchange"}) {
    if (is_yes(lines, name)) config.beyond_libssh = std::string(name) + " yes";
  }
  if (lines.contains("pubkeyauthentication") && value(lines, "pubkeyauthentication") == "false") {
    config.beyond_libssh = "pubkeyauthentication no";
  }
  const std::string preferred = value(lines, "preferredauthentications");
  if (!preferred.empty() && !preferred.starts_with("publickey")) {
    config.beyond_libssh = "preferredauthentications " + preferred;
  }
  const std::string control = value(lines, "controlpath");
  config.has_shared_connection = is_live_socket(control);
  if (config.has_shared_connection) config.beyond_libssh = "the shared connection at " + control;
  for (const std::string_view name : {"knownhostscommand", "verifyhostkeydns"}) {
    const std::string said = value(lines, name);
    if (!said.empty() && said != "false") config.other_host_keys = std::string(name) + " " + said;
  }
}

HostConfig from_program(const Lines& lines, const std::string& asked) {
  HostConfig config;
  config.hostname = value(lines, "hostname");
  config.port = value(lines, "port");
  config.user = value(lines, "user");
  config.key_alias = value(lines, "hostkeyalias");
  const std::string family = value(lines, "addressfamily");
  config.family = family == "inet" ? AF_INET : family == "inet6" ? AF_INET6 : AF_UNSPEC;
  if (const int limit = std::atoi(value(lines, "connecttimeout").c_str()); limit > 0) {
    config.connect_timeout = std::chrono::seconds(limit);
  }
  config.user_known_hosts = split_files(value(lines, "userknownhostsfile"));
  config.global_known_hosts = split_files(value(lines, "globalknownhostsfile"));
  config.is_strict = is_yes(lines, "stricthostkeychecking");
  config.host_key_algorithms = split_commas(value(lines, "hostkeyalgorithms"));
  config.key_exchanges = value(lines, "kexalgorithms");
  config.ciphers = value(lines, "ciphers");
  config.macs = value(lines, "macs");
  config.key_types = value(lines, "pubkeyacceptedalgorithms");
  config.uses_only_named_identities = is_yes(lines, "identitiesonly");
  config.may_use_gssapi = is_yes(lines, "gssapiauthentication");
  // older programs do not know these words, and do not need them
  if (lines.contains("sessiontype")) config.counteractions.emplace_back("SessionType=default");
  if (lines.contains("forkafterauthentication")) {
    config.counteractions.emplace_back("ForkAfterAuthentication=no");
  }
  take_identities(lines, asked, config);
  take_limits_of_libssh(lines, config);
  return config;
}

std::string option_of(ssh_session session, ssh_options_e option) {
  char* text = nullptr;
  if (ssh_options_get(session, option, &text) != SSH_OK || !text) return {};
  std::string value = text;
  ssh_string_free_char(text);
  return value;
}

/// What libssh makes of the config. Its own session reads it again and knows the rest.
std::optional<HostConfig> from_libssh(const std::string& asked, std::string& why) {
  ssh_session session = ssh_new();
  ssh_options_set(session, SSH_OPTIONS_HOST, asked.c_str());
  const bool is_read = ssh_options_parse_config(session, nullptr) == SSH_OK;
  HostConfig config;
  config.has_program = false;
  config.hostname = option_of(session, SSH_OPTIONS_HOST);
  config.user = option_of(session, SSH_OPTIONS_USER);
  if (config.user.empty()) config.user = user_name();
  unsigned int port = 0;
  if (ssh_options_get_port(session, &port) == SSH_OK && port != 0) {
    config.port = std::to_string(port);
  }
  config.user_known_hosts = {home_dir() + "/.ssh/known_hosts", home_dir() + "/.ssh/known_hosts2"};
  config.global_known_hosts = {"/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2"};
  config.host_key_algorithms = {"ssh-ed25519",         "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384",
                                "ecdsa-sha2-nistp521", "rsa-sha2-512",        "rsa-sha2-256"};
  const char* agent = std::getenv("SSH_AUTH_SOCK");
  config.agent = agent ? agent : "";
  if (!is_read) why = "libssh cannot read the ssh config: " + one_line(ssh_get_error(session));
  ssh_free(session);
  if (!is_read) return std::nullopt;
  return config;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

KeyName HostConfig::key_name() const {
  if (!key_alias.empty()) return {key_alias, {}};
  std::string name = hostname;
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (port == "22") return {name, {}};
  return {"[" + name + "]:" + port, name};
}

std::string HostConfig::means_of_login() const {
  std::string means;
  for (const std::string& file : identity_files) means += (means.empty() ? "" : ", ") + file;
  if (!agent.empty()) means += (means.empty() ? "the agent at " : ", the agent at ") + agent;
  return means.empty() ? "nothing: there is no key file and no agent" : means;
}

std::optional<HostConfig> read_config(const std::string& host, std::string& why) {
  std::string text;
  const ChildEnd end =
      run_child({"ssh", "-T", "-G", "-o", "RemoteCommand=none", "--", host, "true"}, kLongestConfig,
                [&](std::string_view part) { text += part; });
  if (!end.is_started || end.status == 127) return from_libssh(host, why);
  if (end.status != 0) {
    why = "the ssh config is not usable: " + one_line(first_line(end.errors));
    return std::nullopt;
  }
  return from_program(parse(text), host);
}

}  // namespace holdfast::ssh
