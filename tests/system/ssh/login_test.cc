/// Who we are to a host: keys and agents of the user, and never a question.
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"

using namespace holdfast::testing;
using Catch::Contains;

namespace {

/// An agent with the keys of the given files.
struct Agent {
  Agent(const Rig& rig, const Words& files) : socket(rig.path("agent")) {
    process = rig.start_as_user({"ssh-agent", "-D", "-a", socket});
    const Words add = Words{"ssh-add", "-q"} + files;
    REQUIRE(eventually([&] { return access(socket.c_str(), F_OK) == 0; }));
    REQUIRE(rig.as_user(add, env()).code == 0);
  }
  std::map<std::string, std::string> env() const { return {{"SSH_AUTH_SOCK", socket}}; }

  std::string socket;
  std::unique_ptr<Process> process;
};

/// Has the rig's key moved into the agent, so that no file opens a host.
void hide_key(const Rig& rig) {
  rig.must("mv .ssh/id_ed25519 hidden; mv .ssh/id_ed25519.pub hidden.pub");
}

void lock_key(const Rig& rig) {
  rig.must("ssh-keygen -q -p -P '' -N secret -f .ssh/id_ed25519");
}

}  // namespace

TEST_CASE("a key file of any usual kind opens a host", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  Rig rig;
  rig.must(
      "cd .ssh; rm id_ed25519*; mkdir kinds; cd kinds; ssh-keygen -q -t ed25519 -N '' -f ed25519; "
      "ssh-keygen -q -t ecdsa -N '' -f ecdsa; ssh-keygen -q -t rsa -b 2048 -N '' -f rsa; "
      "cp rsa pem; cp rsa.pub pem.pub; ssh-keygen -q -p -m PEM -N '' -f pem; "
      "cat *.pub > ../../../authorized");
  rig.start_host("alpha");
  for (const std::string kind : {"ed25519", "ecdsa", "rsa", "pem"}) {
    CAPTURE(engine[1], kind);
    const std::string file = rig.home(".ssh/id_" + (kind == "pem" ? "rsa" : kind));
    rig.must("rm -f .ssh/id_*; mv .ssh/kinds/" + kind + " " + file);
    const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"});
    INFO(trip[0]);
    CHECK(trip[0].is_answered);
    CHECK_THAT(trip[0].login, Catch::StartsWith("root with " + file));
    if (kind != "pem") CHECK_THAT(trip[0].login, Contains("SHA256:"));
  }
}

TEST_CASE("the key that the config names is used", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  Rig rig;
  rig.must("mkdir keys; mv .ssh/id_ed25519 keys/cluster; rm .ssh/id_ed25519.pub");
  rig.start_host("alpha");
  for (const std::string name : {"~/keys/cluster", "%d/keys/%n", "${HOME}/keys/cluster"}) {
    CAPTURE(engine[1], name);
    rig.write(".ssh/config",
              "Host cluster\nHostName alpha.test\nIdentityFile " + name + "\nIdentitiesOnly yes\n");
    const Trip trip = rig.errand(engine, "echo hello", {"cluster"});
    INFO(trip[0]);
    CHECK(trip[0].is_answered);
    CHECK_THAT(trip[0].login, Contains(rig.home("keys/cluster")));
  }
}

TEST_CASE("a key of the agent opens a host", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  Rig rig;
  hide_key(rig);
  const Agent agent(rig, {rig.home("hidden")});
  rig.start_host("alpha");
  const auto check = [&](const std::string& config, const std::map<std::string, std::string>& env) {
    CAPTURE(engine[1], config);
    rig.write(".ssh/config", config);
    const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"}, env);
    INFO(trip[0]);
    CHECK(trip[0].is_answered);
    CHECK_THAT(trip[0].login, Contains("agent") || Contains("hidden"));
    if (engine[1] == "automatic") CHECK(trip[0].engine == "libssh");
  };
  check("", agent.env());
  check("IdentityAgent " + agent.socket + "\n", {{"SSH_AUTH_SOCK", "/nowhere"}});
  check("IdentityAgent $MINE\n", {{"SSH_AUTH_SOCK", "/nowhere"}, {"MINE", agent.socket}});
}

TEST_CASE("an agent that the config turns off is not asked", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  hide_key(rig);
  const Agent agent(rig, {rig.home("hidden")});
  rig.write(".ssh/config", "IdentityAgent none\n");
  rig.start_host("alpha");
  CHECK_FALSE(rig.errand(engine, "true", {"alpha.test"}, agent.env())[0].is_answered);
}

TEST_CASE("an agent that is gone does not keep key files from being used", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const std::string socket = GENERATE("missing", "dead");
  CAPTURE(engine[1], socket);
  Rig rig;
  rig.write("dead", "nobody listens here");
  rig.start_host("alpha");
  const Trip trip =
      rig.errand(engine, "echo hello", {"alpha.test"}, {{"SSH_AUTH_SOCK", rig.home(socket)}});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
}

TEST_CASE("an agent that hangs costs the time limit and no more", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const std::string socket = rig.path("agent");
  const auto server = rig.start_as_user({helper("silent_server"), "unix", socket, "0"});
  REQUIRE(eventually([&] { return access(socket.c_str(), F_OK) == 0; }));
  const Trip trip = rig.errand(engine + Words{"--total", "1500"}, "echo hello", {"alpha.test"},
                               {{"SSH_AUTH_SOCK", socket}});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("no answer within 1500 ms, while "));
  CHECK(trip.seconds < 25);
}

TEST_CASE("a key with a passphrase is passed over and nobody is asked for it", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  lock_key(rig);
  write_file(rig.path("askpass"), "#!/bin/sh\ntouch " + rig.path("asked") + "\necho secret\n");
  REQUIRE(chmod(rig.path("askpass").c_str(), 0755) == 0);
  rig.start_host("alpha");
  // on a terminal, where ssh would ask
  std::string line;
  for (const std::string& word : rig.errand_words(engine, "true", {"alpha.test"}))
    line += word + " ";
  const Result seen = rig.as_user({"script", "-qec", line, "/dev/null"});
  INFO(seen.out);
  CHECK_THAT(seen.out, Contains("alpha.test silent"));
  CHECK_THAT(seen.out, Contains(rig.home(".ssh/id_ed25519")));
  CHECK_THAT(seen.out, !Contains("Enter passphrase"));
  CHECK(access(rig.path("asked").c_str(), F_OK) != 0);
}

TEST_CASE("a key with a passphrase that the agent holds opens a host", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool is_only_named = GENERATE(false, true);
  CAPTURE(engine[1], is_only_named);
  Rig rig;
  rig.must("cp .ssh/id_ed25519 open; chmod 600 open");
  lock_key(rig);
  if (is_only_named)
    rig.write(".ssh/config", "IdentitiesOnly yes\nIdentityFile ~/.ssh/id_ed25519\n");
  const Agent agent(rig, {rig.home("open")});
  rig.start_host("alpha");
  const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"}, agent.env());
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
}

TEST_CASE("more keys in the agent than the host wants to see do not keep the named one out",
          "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.must("for i in 1 2 3 4; do ssh-keygen -q -t ed25519 -N '' -f other$i; done");
  const Agent agent(rig, {rig.home("other1"), rig.home("other2"), rig.home("other3"),
                          rig.home("other4"), rig.home(".ssh/id_ed25519")});
  rig.start_host("alpha", {"ed25519"}, "MaxAuthTries 3\n");
  const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"}, agent.env());
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
}

TEST_CASE("a refused login says what was tried", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool has_key = GENERATE(true, false);
  CAPTURE(engine[1], has_key);
  Rig rig;
  rig.must(": > ../authorized");
  if (!has_key) hide_key(rig);
  rig.start_host("alpha");
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("login as root refused"));
  CHECK_THAT(trip[0].why, Contains(has_key ? rig.home(".ssh/id_ed25519") : "there is no key file"));
}

TEST_CASE("a certificate of the user is left to the ssh program", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.must(
      ": > ../authorized; ssh-keygen -q -t ed25519 -N '' -f ca; "
      "ssh-keygen -q -s ca -I me -n root .ssh/id_ed25519.pub");
  rig.start_host("alpha", {"ed25519"}, "TrustedUserCAKeys " + rig.home("ca.pub") + "\n");
  const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK_THAT(trip[0].engine, Catch::StartsWith("ssh program"));
}
