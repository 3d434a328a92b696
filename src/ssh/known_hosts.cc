#include "ssh/known_hosts.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/text.h"

namespace holdfast::ssh {
namespace {

using Words = std::vector<std::string_view>;

Words split(std::string_view text, std::string_view at) {
  Words words;
  for (std::size_t from = text.find_first_not_of(at); from != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(at, from), text.size());
    words.push_back(text.substr(from, end - from));
    from = text.find_first_not_of(at, end);
  }
  return words;
}

/// `*` and `?`, in either case of letters; brackets mean themselves.
bool matches(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    return matches(pattern.substr(1), name) || (!name.empty() && matches(pattern, name.substr(1)));
  }
  if (name.empty()) return false;
  const bool fits = pattern.front() == '?' || lower(pattern.front()) == lower(name.front());
  return fits && matches(pattern.substr(1), name.substr(1));
}

std::string decoded(std::string_view base64) {
  std::string bytes(base64.size(), '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(base64.data()),
                                   static_cast<int>(base64.size()));
  const auto padding = std::count(base64.begin(), base64.end(), '=');
  if (size < padding) return {};
  bytes.resize(static_cast<std::size_t>(size - padding));
  return bytes;
}

/// "|1|SALT|HASH", where HASH is the HMAC-SHA1 of the name.
bool matches_hash(std::string_view hashed, std::string_view name) {
  const Words parts = split(hashed, "|");
  if (parts.size() != 3) return false;
  const std::string salt = decoded(parts[1]);
  std::array<unsigned char, EVP_MAX_MD_SIZE> made{};
  unsigned int size = 0;
  if (!HMAC(EVP_sha1(), salt.data(), static_cast<int>(salt.size()),
            reinterpret_cast<const unsigned char*>(name.data()), name.size(), made.data(), &size)) {
    return false;
  }
  return decoded(parts[2]) == std::string_view(reinterpret_cast<const char*>(made.data()), size);
}

bool names(std::string_view hosts, std::string_view name) {
  if (hosts.starts_with("|1|")) return matches_hash(hosts, name);
  bool is_named = false;
  for (const std::string_view pattern : split(hosts, ",")) {
    if (pattern.front() == '!') {
      if (matches(pattern.substr(1), name)) return false;
    } else if (matches(pattern, name)) {
      is_named = true;
    }
  }
  return is_named;
}

/// One line of a file, if it speaks of the host.
void take_line(std::string_view line, const KeyName& name, const std::string& file, int number,
               Known& known) {
  Words words = split(line, " \t\r");
  if (words.empty() || words.front().front() == '#') return;
  std::string_view marker;
  if (words.front().front() == '@') {
    marker = words.front();
    words.erase(words.begin());
  }
  if (words.size() < 3 || words[1].find_first_not_of("0123456789") == std::string_view::npos) {
    return;  // or a key of the first ssh protocol, which nobody speaks any more
  }
  const bool is_full = names(words[0], name.full);
  const bool is_bare = !name.bare.empty() && names(words[0], name.bare);
  if (!is_full && !is_bare) return;
  KnownKey key{std::string(words[1]), std::string(words[2]), file, number};
  if (marker == "@revoked") {
    known.revoked.push_back(std::move(key));
  } else if (marker == "@cert-authority") {
    known.has_authority = true;
  } else if (marker.empty()) {
    (is_full ? known.keys : known.bare).push_back(std::move(key));
  }
}

/// 0, or the errno. A file that is not there is empty.
int read_whole(int fd, std::string& text) {
  std::array<char, 65536> bytes{};
  for (;;) {
    const ssize_t got = read(fd, bytes.data(), bytes.size());
    if (got == 0) return 0;
    if (got > 0) {
      text.append(bytes.data(), static_cast<std::size_t>(got));
    } else if (errno != EINTR) {
      return errno;
    }
  }
}

int read_file(const std::string& file, std::string& text) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (fd < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
  const int error = read_whole(fd, text);
  close(fd);
  return error;
}

void take_file(std::string_view text, const KeyName& name, const std::string& file, Known& known) {
  int number = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    take_line(text.substr(0, end), name, file, ++number, known);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

bool same_key(const KnownKey& a, const HostKey& b) {
  return split(a.key, "=") == split(b.key, "=");  // padding is optional
}

const KnownKey* find(const std::vector<KnownKey>& keys, const HostKey& key) {
  const auto at = std::find_if(keys.begin(), keys.end(),
                               [&](const KnownKey& known) { return same_key(known, key); });
  return at == keys.end() ? nullptr : &*at;
}

/// The type of key that an algorithm signs with.
std::string_view key_type(std::string_view algorithm) {
  return algorithm.starts_with("rsa-sha2-") ? "ssh-rsa" : algorithm;
}

bool has_type(const std::vector<KnownKey>& keys, std::string_view type) {
  return std::any_of(keys.begin(), keys.end(), [&](const KnownKey& k) { return k.type == type; });
}

std::string cannot_keep(const std::string& file, int error) {
  return "its host key is new and cannot be remembered in " + file + ": " + std::strerror(error) +
         "; make that possible, or log in once by hand with ssh so that your own known hosts file "
         "has it";
}

/// A descriptor, or -1 with errno.
int open_own(const std::string& file) {
  for (std::size_t at = file.find('/', 1); at != std::string::npos; at = file.find('/', at + 1)) {
    if (mkdir(file.substr(0, at).c_str(), 0700) != 0 && errno != EEXIST) {
      struct stat there {};
      if (stat(file.substr(0, at).c_str(), &there) != 0) return -1;
    }
  }
  return open(file.c_str(), O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0600);
}

/// Under the lock.
std::string append(int fd, const std::string& file, const KeyName& name, const HostKey& key) {
  while (flock(fd, LOCK_EX) != 0) {
    if (errno != EINTR) return cannot_keep(file, errno);
  }
  std::string text;
  if (const int error = read_whole(fd, text)) return cannot_keep(file, error);
  Known now;
  take_file(text, name, file, now);
  now.bare.clear();
  const Judgement judgement = judge(name, now, key);
  if (judgement.kind == Judgement::Kind::refused) return judgement.text;
  if (judgement.kind == Judgement::Kind::known) return {};
  std::string line = text.empty() || text.back() == '\n' ? "" : "\n";
  line += name.full + " " + key.type + " " + key.key + "\n";
  const ssize_t wrote = write(fd, line.data(), line.size());
  if (wrote != static_cast<ssize_t>(line.size()))
    return cannot_keep(file, wrote < 0 ? errno : ENOSPC);
  return fsync(fd) == 0 || errno == EINVAL ? "" : cannot_keep(file, errno);
}

}  // namespace

std::optional<Known> look_up(const KeyName& name, std::span<const std::string> files,
                             std::string& why) {
  Known known;
  for (const std::string& file : files) {
    std::string text;
    if (const int error = read_file(file, text)) {
      why = "cannot read the known hosts in " + file + ": " + std::strerror(error);
      return std::nullopt;
    }
    take_file(text, name, file, known);
  }
  return known;
}

Judgement judge(const KeyName& name, const Known& known, const HostKey& key) {
  using Kind = Judgement::Kind;
  if (const KnownKey* revoked = find(known.revoked, key)) {
    return {Kind::refused, revoked_message(name, *revoked)};
  }
  if (const KnownKey* same = find(known.keys, key)) return {Kind::known, same->place()};
  for (const KnownKey& other : known.keys) {
    if (other.type == key.type) {
      return {Kind::refused, changed_message(name, other.place(), other.file)};
    }
  }
  if (!known.keys.empty()) {
    return {Kind::refused, other_type_message(name, known.keys.front())};
  }
  if (const KnownKey* same = find(known.bare, key)) return {Kind::known, same->place()};
  return {Kind::unknown, unknown_message(name)};
}

std::vector<std::string> host_key_algorithms(std::span<const std::string> wanted,
                                             const Known& known) {
  std::vector<std::string> chosen;
  chosen.reserve(wanted.size());
  for (const std::string& algorithm : wanted) {
    const std::string_view type = key_type(algorithm);
    const bool is_certificate = type.find("-cert-") != std::string_view::npos;
    if (is_certificate ? known.has_authority : known.keys.empty() || has_type(known.keys, type)) {
      chosen.push_back(algorithm);
    }
  }
  if (known.keys.empty()) {
    std::stable_partition(chosen.begin(), chosen.end(), [&](const std::string& algorithm) {
      return has_type(known.bare, key_type(algorithm));
    });
  }
  return chosen;
}

std::string remember(const std::string& file, const KeyName& name, const HostKey& key) {
  const int fd = open_own(file);
  if (fd < 0) return cannot_keep(file, errno);
  std::string why = append(fd, file, name, key);
  close(fd);  // and with it the lock
  return why;
}

std::string why_not_writable(const std::string& file) {
  const int fd = open_own(file);
  if (fd < 0) return cannot_keep(file, errno);
  close(fd);
  return {};
}

std::string unknown_message(const KeyName& name) {
  return "its host key is not known, and only known ones are accepted; log in once by hand with "
         "ssh, or add a line for " +
         name.quoted() + " to your known hosts file";
}

std::string changed_message(const KeyName& name, const std::string& place,
                            const std::string& file) {
  return "its host key has CHANGED: " + place +
         " holds another one. Either the host was set up "
         "anew, or somebody stands in between. If it was set up anew, type: ssh-keygen -R " +
         name.quoted() + " -f " + file;
}

std::string other_type_message(const KeyName& name, const KnownKey& known) {
  return "its host key has CHANGED: it shows no key of the type in " + known.place() + " (" +
         known.type + "). If the host was set up anew, type: ssh-keygen -R " + name.quoted() +
         " -f " + known.file;
}

std::string revoked_message(const KeyName& name, const KnownKey& revoked) {
  return "its host key is marked as revoked for " + name.full + " in " + revoked.place();
}

}  // namespace holdfast::ssh
