#include "ssh/known_hosts.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;
using namespace holdfast::ssh;

namespace {

const std::string kKey = "AAAAC3NzaC1lZDI1NTE5AAAAIKN73J6MvtfjDRpe6ihLKH5Y7oEJl+mMuBq5j+hHLDOW";
const std::string kOther = "AAAAC3NzaC1lZDI1NTE5AAAAIBBBBBBMvtfjDRpe6ihLKH5Y7oEJl+mMuBq5j+hHLDOW";
const HostKey kShown{"ssh-ed25519", kKey, "SHA256:x"};

using Kind = Judgement::Kind;

Known known_from(const TempDir& dir, const KeyName& name, const std::string& text) {
  write_file(dir / "known_hosts", text);
  const std::vector<std::string> files{dir / "known_hosts"};
  std::string why;
  const std::optional<Known> known = look_up(name, files, why);
  REQUIRE(known);
  return *known;
}

Kind judged(const KeyName& name, const std::string& text) {
  const TempDir dir;
  return judge(name, known_from(dir, name, text), kShown).kind;
}

}  // namespace

TEST_CASE("a line of known hosts speaks of the hosts that ssh would see in it", "[ssh]") {
  const std::string key = " ssh-ed25519 " + kKey + "\n";
  const auto [hosts, is_known] = GENERATE(table<std::string, bool>({
      {"alpha.test", true},
      {"ALPHA.test", true},
      {"alpha", false},
      {"beta.test,alpha.test", true},
      {"*.test", true},
      {"a?pha.test", true},
      {"*", true},
      {"*.test,!alpha.test", false},
      {"!alpha.test,*.test", false},
      {"*.test,!beta.test", true},
      {"[alpha.test]:22", false},
      {"[alpha.test]:2222", false},
      {"#alpha.test", false},
      {"|1|", false},
      {"|1|rubbish|rubbish", false},
  }));
  CAPTURE(hosts);
  CHECK((judged({"alpha.test", ""}, hosts + key) == Kind::known) == is_known);
}

TEST_CASE("hashed names are found as ssh keygen makes them", "[ssh]") {
  if (!has_program("ssh-keygen")) SKIP_TEST("no ssh-keygen");
  const TempDir dir;
  write_file(dir / "k", "alpha.test ssh-ed25519 " + kKey + "\n");
  REQUIRE(run({"ssh-keygen", "-q", "-H", "-f", dir / "k"}).code == 0);
  const std::string hashed = read_file(dir / "k");
  REQUIRE_THAT(hashed, Catch::StartsWith("|1|"));
  CHECK(judged({"alpha.test", ""}, hashed) == Kind::known);
  CHECK(judged({"beta.test", ""}, hashed) == Kind::unknown);
}

TEST_CASE("a host is judged by what is known of it", "[ssh]") {
  const KeyName plain{"alpha.test", ""};
  const KeyName port{"[alpha.test]:2222", "alpha.test"};
  const std::string same = " ssh-ed25519 " + kKey + "\n";
  const std::string other = " ssh-ed25519 " + kOther + "\n";
  const std::string rsa = " ssh-rsa AAAAB3Nza\n";
  struct Case {
    const char* what;
    KeyName name;
    std::string text;
    Kind kind;
  };
  const Case given = GENERATE_COPY(values<Case>({
      {"nothing is known", plain, "", Kind::unknown},
      {"the same key", plain, "alpha.test" + same, Kind::known},
      {"a comment behind the key", plain, "alpha.test ssh-ed25519 " + kKey + " me@here\n",
       Kind::known},
      {"no newline at the end", plain, "alpha.test ssh-ed25519 " + kKey, Kind::known},
      {"another key", plain, "alpha.test" + other, Kind::refused},
      {"one of several keys", plain, "alpha.test" + other + "alpha.test" + same, Kind::known},
      {"a key of another type", plain, "alpha.test" + rsa, Kind::refused},
      {"revoked", plain, "@revoked alpha.test" + same, Kind::refused},
      {"revoked and known", plain, "alpha.test" + same + "@revoked *" + same, Kind::refused},
      {"another one revoked", plain, "@revoked alpha.test" + other, Kind::unknown},
      {"an authority", plain, "@cert-authority *" + other, Kind::unknown},
      {"an unknown marker", plain, "@marker alpha.test" + same, Kind::unknown},
      {"by name and port", port, "[alpha.test]:2222" + same, Kind::known},
      {"another key by name and port", port, "[alpha.test]:2222" + other, Kind::refused},
      {"by its name alone", port, "alpha.test" + same, Kind::known},
      {"another key at its usual port", port, "alpha.test" + other, Kind::unknown},
      {"the port decides", port, "alpha.test" + same + "[alpha.test]:2222" + other, Kind::refused},
      {"revoked by its name alone", port, "@revoked alpha.test" + same, Kind::refused},
      {"a key of the first protocol", plain, "alpha.test 1024 65537 12345\n", Kind::unknown},
      {"half a line", plain, "alpha.test ssh-ed25519\n", Kind::unknown},
  }));
  CAPTURE(given.what);
  CHECK(judged(given.name, given.text) == given.kind);
}

TEST_CASE("a refusal names the file and the line of the other key", "[ssh]") {
  const TempDir dir;
  const KeyName name{"[alpha.test]:2222", "alpha.test"};
  const Known known =
      known_from(dir, name, "# first\nbeta x y\n[alpha.test]:2222 ssh-ed25519 " + kOther + "\n");
  const std::string file = dir / "known_hosts";
  const std::string why = judge(name, known, kShown).text;
  CHECK_THAT(why, Catch::Contains(file + ":3 "));
  CHECK_THAT(why, Catch::EndsWith("ssh-keygen -R '[alpha.test]:2222' -f " + file));
}

TEST_CASE("a known hosts file that cannot be read makes no host unknown", "[ssh]") {
  const TempDir dir;
  REQUIRE(mkdir((dir / "folder").c_str(), 0700) == 0);
  REQUIRE(symlink("loop", (dir / "loop").c_str()) == 0);
  const std::string name = GENERATE("folder", "loop");
  const std::vector<std::string> files{dir / "missing", dir / name};
  std::string why;
  CHECK_FALSE(look_up({"alpha.test", ""}, files, why));
  CHECK_THAT(why, Catch::Contains(dir / name));
}

TEST_CASE("a host is asked for the types of key that are known", "[ssh]") {
  const std::vector<std::string> wanted{"ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519",
                                        "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"};
  using Names = std::vector<std::string>;
  Known known;
  CHECK(host_key_algorithms(wanted, known) ==
        Names{"ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512", "rsa-sha2-256"});
  known.bare.push_back({"ecdsa-sha2-nistp256", kKey, "f", 1});
  CHECK(host_key_algorithms(wanted, known).front() == "ecdsa-sha2-nistp256");
  CHECK(host_key_algorithms(wanted, known).size() == 4);
  known.keys.push_back({"ssh-rsa", kKey, "f", 1});
  CHECK(host_key_algorithms(wanted, known) == Names{"rsa-sha2-512", "rsa-sha2-256"});
  known.has_authority = true;
  CHECK(host_key_algorithms(wanted, known).front() == "ssh-ed25519-cert-v01@openssh.com");
}

TEST_CASE("a new host is remembered once in a file for the user alone", "[ssh]") {
  const TempDir dir;
  const std::string file = dir / "state/holdfast/known_hosts";
  const KeyName name{"alpha.test", ""};
  CHECK(remember(file, name, kShown) == "");
  CHECK(remember(file, name, kShown) == "");
  CHECK(read_file(file) == "alpha.test ssh-ed25519 " + kKey + "\n");
  struct stat is {};
  REQUIRE(stat(file.c_str(), &is) == 0);
  CHECK((is.st_mode & 0777) == 0600);
  REQUIRE(stat((dir / "state/holdfast").c_str(), &is) == 0);
  CHECK((is.st_mode & 0777) == 0700);
  CHECK_THAT(remember(file, name, {"ssh-ed25519", kOther, ""}), Catch::Contains("CHANGED"));
  CHECK(remember(file, {"beta.test", ""}, {"ssh-ed25519", kOther, ""}) == "");
  const std::string both = read_file(file);
  CHECK(std::count(both.begin(), both.end(), '\n') == 2);
}

TEST_CASE("a key goes on a line of its own behind one that was cut short", "[ssh]") {
  const TempDir dir;
  write_file(dir / "known_hosts", "beta.test ssh-ed25519 AAA");
  REQUIRE(remember(dir / "known_hosts", {"alpha.test", ""}, kShown) == "");
  CHECK(read_file(dir / "known_hosts") ==
        "beta.test ssh-ed25519 AAA\nalpha.test ssh-ed25519 " + kKey + "\n");
}

TEST_CASE("a key that cannot be remembered is refused with a way out", "[ssh]") {
  const TempDir dir;
  write_file(dir / "state", "in the way");
  const std::string why = remember(dir / "state/holdfast/known_hosts", {"a", ""}, kShown);
  CHECK_THAT(why, Catch::Contains(dir / "state/holdfast/known_hosts"));
  CHECK_THAT(why, Catch::Contains("by hand"));
  CHECK(why_not_writable(dir / "state/holdfast/known_hosts") == why);
}

TEST_CASE("of two who meet a host at once with different keys one is believed", "[ssh]") {
  const TempDir dir;
  const std::string file = dir / "known_hosts";
  const int first = open(file.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  REQUIRE(flock(first, LOCK_EX) == 0);
  std::atomic<bool> is_done = false;
  std::string why;
  std::thread second([&] {
    why = remember(file, {"alpha.test", ""}, kShown);
    is_done = true;
  });
  CHECK_FALSE(eventually([&] { return is_done.load(); }, std::chrono::seconds(1)));
  const std::string line = "alpha.test ssh-ed25519 " + kOther + "\n";
  CHECK(write(first, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  close(first);  // and with it the lock
  second.join();
  CHECK_THAT(why, Catch::Contains("CHANGED"));
  CHECK(read_file(file) == line);
}
