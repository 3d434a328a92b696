#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace holdfast::ssh {

/// The names under which a host's keys are kept: with its port if that is not 22, "[name]:port",
/// and then also without it, for a key that was noted before the port changed.
struct KeyName {
  std::string full;
  std::string bare;  ///< empty if the full name is bare

  /// As one word of a command line.
  std::string quoted() const { return bare.empty() ? full : "'" + full + "'"; }
};

struct KnownKey {
  std::string type;  ///< "ssh-ed25519"
  std::string key;   ///< base64
  std::string file;
  int line = 0;

  std::string place() const { return file + ":" + std::to_string(line); }
};

/// What the known hosts files hold about one host.
struct Known {
  std::vector<KnownKey> keys;     ///< by its full name
  std::vector<KnownKey> bare;     ///< by its name without the port
  std::vector<KnownKey> revoked;  ///< by either, must never be accepted
  bool has_authority = false;     ///< a certificate authority vouches for it

  bool is_empty() const { return keys.empty() && bare.empty() && !has_authority; }
};

/// Nothing if one of the files cannot be read, which must not make a known host unknown; a file
/// that is not there holds nothing.
std::optional<Known> look_up(const KeyName& name, std::span<const std::string> files,
                             std::string& why);

struct HostKey {
  std::string type;
  std::string key;          ///< base64
  std::string fingerprint;  ///< "SHA256:..."
};

struct Judgement {
  enum class Kind { known, unknown, refused } kind;
  std::string text;  ///< where it is known, or why it is refused
};
Judgement judge(const KeyName& name, const Known& known, const HostKey& key);

/// The algorithms of `wanted` that prove a key of a known type: no others, or a host that has
/// several keys would show one that nobody has seen. All of them for an unknown host.
std::vector<std::string> host_key_algorithms(std::span<const std::string> wanted,
                                             const Known& known);

/// Appends a line for a host that is met for the first time, under a lock: of two who meet it at
/// once with different keys, the second is refused. Makes the folder (0700) and the file (0600).
/// Gives the reason if the key is not kept, with a way out.
std::string remember(const std::string& file, const KeyName& name, const HostKey& key);

/// Why `file` could not be written; empty if it can. Makes it.
std::string why_not_writable(const std::string& file);

std::string unknown_message(const KeyName& name);
std::string changed_message(const KeyName& name, const std::string& place, const std::string& file);
std::string other_type_message(const KeyName& name, const KnownKey& known);
std::string revoked_message(const KeyName& name, const KnownKey& revoked);

}  // namespace holdfast::ssh
