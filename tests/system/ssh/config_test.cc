/// The user's ssh config decides how a host is reached, whoever speaks ssh.
#include <unistd.h>

#include "rig.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::StartsWith;

TEST_CASE("name and port and user of the config are used", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha", {"ed25519"}, "Port 22\nPort 2222\n");
  rig.write(".ssh/config",
            "Host short\n  HostName alpha.test\n  Port 2222\n  User root\n"
            "Host wrong\n  HostName alpha.test\n  User nobody-of-that-name\n");
  const Trip trip = rig.errand(engine, "echo $SSH_CONNECTION", {"short", "wrong"});
  INFO(trip[0] << "\n" << trip[1]);
  CHECK(trip[0].is_answered);
  CHECK_THAT(trip[0].output, Contains(rig.address("alpha") + " 2222\n"));
  CHECK_FALSE(trip[1].is_answered);
  CHECK_THAT(trip[1].why, Contains("login as nobody-of-that-name refused"));
  if (engine[1] == "automatic") CHECK(trip[0].engine == "libssh");
}

TEST_CASE("what libssh cannot do is done by the ssh program with a note", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const std::string way = GENERATE("ProxyJump beta.test", "ProxyCommand ssh -W %h:%p beta.test");
  const bool is_automatic = engine[1] == "automatic";
  CAPTURE(engine[1], way);
  Rig rig;
  rig.start_host("alpha");
  rig.start_host("beta");
  write_file(rig.known_hosts(), "beta.test " + rig.public_key("beta") + "\n");
  rig.write(".ssh/config", "Host alpha.test\n  " + way + "\n");
  const Trip trip =
      rig.errand(engine + Words{"--log", "info"}, "echo $SSH_CONNECTION", {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK_THAT(trip[0].engine, StartsWith("ssh program"));
  CHECK(read_file(rig.own_known_hosts()) == "alpha.test " + rig.public_key("alpha") + "\n");
  const std::string note = "alpha.test: using the ssh program: proxy";
  if (is_automatic) CHECK_THAT(trip.err, Contains(note));
  CHECK(rig.errand(engine, "true", {"alpha.test"}).err.empty());
}

TEST_CASE("a proxy that fails says so in its own words", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.address("alpha");
  rig.write(".ssh/config", "ProxyCommand sh -c 'echo no way through >&2; exit 1'\n");
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("no way through"));
}

TEST_CASE("a connection that the user shares is used and none is opened", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  write_file(rig.known_hosts(), "alpha.test " + rig.public_key("alpha") + "\n");
  rig.write(".ssh/config",
            "ControlMaster auto\nControlPersist 1000\nControlPath " + rig.path("shared") + "\n");
  CHECK(rig.errand(engine, "true", {"alpha.test"})[0].is_answered);
  CHECK(access(rig.path("shared").c_str(), F_OK) != 0);

  const auto master = rig.start_as_user({"ssh", "-M", "-N", "alpha.test"});
  REQUIRE(eventually([&] { return access(rig.path("shared").c_str(), F_OK) == 0; }));
  rig.must(": > ../authorized");  // from now on nobody can log in anew
  const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK_THAT(trip[0].engine, StartsWith("ssh program"));
}

TEST_CASE("a broken config is told in the words of ssh", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.write(".ssh/config", "Host *\n  Bogus yes\n");
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains(rig.home(".ssh/config") + ": line 2: Bad configuration option"));
}

TEST_CASE("a config with commands and forwardings of its own does not get in the way", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  Rig rig;
  rig.start_host("alpha");
  for (const std::string line :
       {"RemoteCommand touch other", "RequestTTY force", "SessionType none",
        "ForkAfterAuthentication yes", "PermitLocalCommand yes\nLocalCommand touch other",
        "LocalForward 127.0.0.1:4000 127.0.0.1:22", "LogLevel QUIET", "ConnectTimeout 5",
        "Compression yes", "AddressFamily inet", "HashKnownHosts yes",
        "Ciphers aes256-gcm@openssh.com", "KexAlgorithms sntrup761x25519-sha512@openssh.com"}) {
    CAPTURE(engine[1], line);
    rig.write(".ssh/config", line + "\n");
    const Trip trip = rig.errand(engine, "echo hello; exit 7", {"alpha.test"});
    INFO(trip[0]);
    CHECK(trip[0].is_answered);
    CHECK(trip[0].status == 7);
    CHECK(trip[0].output == "hello\n\n");
    CHECK(access(rig.home("other").c_str(), F_OK) != 0);
  }
}

TEST_CASE("without an ssh program libssh reads the config by itself", "[ssh]") {
  NEEDS_RIG();
  Rig rig;
  rig.start_host("alpha", {"ed25519"}, "Port 2222\n", "2222");
  rig.write(".ssh/config", "Host a\n  HostName alpha.test\n  Port 2222\n");
  const std::map<std::string, std::string> env{{"PATH", rig.path("nothing")}};
  const Trip trip = rig.errand({}, "echo hello", {"a"}, env);
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK(trip[0].engine == "libssh");
  CHECK(read_file(rig.own_known_hosts()) == "[alpha.test]:2222 " + rig.public_key("alpha") + "\n");
  rig.write(".ssh/config", "Host a\n  HostName alpha.test\n  Port 2222\n  ProxyCommand false\n");
  for (const std::string engine : {"command", "automatic"}) {
    const Trip without = rig.errand({"--engine", engine}, "true", {"a"}, env);
    INFO(without[0]);
    CHECK_FALSE(without[0].is_answered);
    CHECK_THAT(without[0].why, Contains("the ssh program is not installed"));
  }
}

TEST_CASE("under a proc of another pid namespace the ssh program is not trusted with files",
          "[ssh]") {
  NEEDS_RIG();
  Rig rig;
  rig.start_host("alpha");
  const Words elsewhere{"unshare", "-p", "--fork", "--kill-child"};
  const auto said = [&](const Words& engine) {
    return rig.as_user(elsewhere + rig.errand_words(engine, "true", {"alpha.test"})).out;
  };
  CHECK_THAT(said({"--engine", "command"}), Contains("alpha.test silent") && Contains("/proc"));
  CHECK_THAT(said({"--engine", "automatic"}), Contains("alpha.test answered 0"));
}

TEST_CASE("a word that is no host name reaches no program", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Words words{"-oProxyCommand=touch\tran",
                    "-V",
                    "root@alpha.test",
                    "alpha.test;touch\tran",
                    "$(touch\tran)",
                    "ssh://alpha.test",
                    "alpha.test/",
                    "'"};
  const Trip trip = rig.errand(engine, "true", words + Words{"alpha.test"});
  for (std::size_t i = 0; i < words.size(); ++i) {
    INFO(trip[i]);
    CHECK_FALSE(trip[i].is_answered);
    CHECK_THAT(trip[i].why, StartsWith("not a host name"));
  }
  CHECK(trip.told.back().is_answered);
  CHECK(access(rig.home("ran").c_str(), F_OK) != 0);
}
