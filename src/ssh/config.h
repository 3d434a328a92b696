#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "ssh/known_hosts.h"

namespace holdfast::ssh {

/// What the user's ssh config makes of a host's name.
struct HostConfig {
  std::string hostname;
  std::string port = "22";
  std::string user;
  std::string key_alias;  ///< HostKeyAlias
  int family = 0;         ///< AF_UNSPEC, AF_INET or AF_INET6
  std::optional<std::chrono::seconds> connect_timeout;

  std::vector<std::string> identity_files;  ///< those that exist
  std::string agent;                        ///< socket; empty: none
  bool uses_only_named_identities = false;
  bool may_use_gssapi = false;

  std::vector<std::string> user_known_hosts;
  std::vector<std::string> global_known_hosts;
  bool is_strict = false;  ///< StrictHostKeyChecking yes

  std::vector<std::string> host_key_algorithms;
  std::string key_exchanges, ciphers, macs, key_types;

  std::string beyond_libssh;    ///< what libssh cannot do of it; empty: nothing
  std::string other_host_keys;  ///< what besides files may know host keys; empty: nothing

  bool has_shared_connection = false;       ///< ControlPath leads to a live one
  std::vector<std::string> counteractions;  ///< options without which ssh would not run a command

  bool has_program = true;  ///< false: libssh read the config, and `hostname` is as asked

  KeyName key_name() const;
  /// For a person whose login was refused: "~/.ssh/id_rsa, the agent".
  std::string means_of_login() const;
};

/// As `ssh -G` tells it, which is how ssh itself sees it. Nothing if ssh refuses the config, with
/// its words; where there is no ssh program, libssh reads what it can.
std::optional<HostConfig> read_config(const std::string& host, std::string& why);

}  // namespace holdfast::ssh
