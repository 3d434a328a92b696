/// Whom a host key is believed: the same for libssh and for the ssh program.
#include "rig.h"

using namespace holdfast::testing;
using Catch::Contains;

TEST_CASE("a host that nobody knows is accepted once and remembered in a file of our own",
          "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Trip first = rig.errand(engine, "echo hello", {"alpha.test"});
  INFO(first[0]);
  CHECK(first[0].is_answered);
  CHECK(first[0].known_by == rig.own_known_hosts() + " (new)");
  CHECK(read_file(rig.own_known_hosts()) == "alpha.test " + rig.public_key("alpha") + "\n");
  CHECK(tree(rig.home(".ssh")) == Words{"id_ed25519", "id_ed25519.pub"});

  const Trip second = rig.errand(engine, "echo hello", {"alpha.test"});
  INFO(second[0]);
  CHECK(second[0].is_answered);
  CHECK(second[0].known_by == rig.own_known_hosts() + ":1");
  CHECK(read_file(rig.own_known_hosts()) == "alpha.test " + rig.public_key("alpha") + "\n");
}

TEST_CASE("a key that the user or the system knows is enough and is not copied", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool is_of_user = GENERATE(true, false);
  CAPTURE(engine[1], is_of_user);
  Rig rig;
  rig.start_host("alpha");
  const std::string line = "alpha.test " + rig.public_key("alpha") + "\n";
  write_file(is_of_user ? rig.known_hosts() : rig.path("etc/ssh/ssh_known_hosts"), line);
  const Trip trip = rig.errand(engine + Words{"--keys", "strict"}, "echo hello", {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK(trip[0].known_by == (is_of_user ? rig.known_hosts() : "/etc/ssh/ssh_known_hosts") + ":1");
  CHECK(tree(rig.home("state")).empty());
}

TEST_CASE("a changed key is refused and the message says where the old one is", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool is_ours = GENERATE(true, false);
  CAPTURE(engine[1], is_ours);
  Rig rig;
  rig.start_host("alpha");
  const std::string file = is_ours ? rig.own_known_hosts() : rig.known_hosts();
  if (is_ours) {
    CHECK(rig.errand(engine, "true", {"alpha.test"})[0].is_answered);
  } else {
    write_file(file, "# mine\nalpha.test " + rig.public_key("alpha") + "\n");
  }
  const std::string before = read_file(file);
  rig.set_up_anew("alpha");
  const std::string command = "touch " + rig.path("ran");
  const Trip trip = rig.errand(engine, command, {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("CHANGED"));
  CHECK_THAT(trip[0].why, Contains(file + (is_ours ? ":1 " : ":2 ")));
  CHECK_THAT(trip[0].why, Contains("ssh-keygen -R alpha.test -f " + file));
  CHECK(read_file(file) == before);
  CHECK(read_file(rig.path("ran")).empty());

  rig.must("ssh-keygen -R alpha.test -f " + file);  // what the message says
  CHECK(rig.errand(engine, "true", {"alpha.test"})[0].is_answered);
}

TEST_CASE("a host known by one of its keys is asked for that one", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  Rig rig;
  rig.start_host("alpha", {"ed25519", "ecdsa", "rsa"});
  for (const std::string type : {"ed25519", "ecdsa", "rsa"}) {
    CAPTURE(engine[1], type);
    const std::string key = rig.public_key("alpha", type);
    write_file(rig.known_hosts(), "alpha.test " + key + "\n");
    const Trip trip = rig.errand(engine, "true", {"alpha.test"});
    INFO(trip[0]);
    CHECK(trip[0].is_answered);
    CHECK_THAT(trip[0].host_key, Catch::StartsWith(key.substr(0, key.find(' ') + 1)));
    CHECK(trip[0].known_by == rig.known_hosts() + ":1");
  }
}

TEST_CASE("a host that shows only a new type of key has changed", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha", {"ecdsa"});
  CHECK(rig.errand(engine, "true", {"alpha.test"})[0].is_answered);
  rig.set_up_anew("alpha", {"ed25519"});
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("CHANGED") && Contains(rig.own_known_hosts() + ":1 "));
}

TEST_CASE("strict refuses an unknown host and remembers nothing", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool is_by_config = GENERATE(true, false);
  CAPTURE(engine[1], is_by_config);
  Rig rig;
  rig.start_host("alpha");
  if (is_by_config) rig.write(".ssh/config", "StrictHostKeyChecking yes\n");
  const Words options = is_by_config ? Words{} : Words{"--keys", "strict"};
  const Trip trip = rig.errand(engine + options, "touch " + rig.path("ran"), {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("not known") && Contains("by hand"));
  CHECK(tree(rig.home("state")).empty());
  CHECK(read_file(rig.path("ran")).empty());
}

TEST_CASE("insecure accepts anything and remembers nothing", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.start_host("beta");
  write_file(rig.known_hosts(), "alpha.test " + rig.public_key("beta") + "\n");
  const Trip trip =
      rig.errand(engine + Words{"--keys", "insecure"}, "echo hello", {"alpha.test", "beta.test"});
  INFO(trip[0] << trip[1]);
  CHECK(trip[0].is_answered);
  CHECK(trip[1].is_answered);
  CHECK(tree(rig.home("state")).empty());
  CHECK(read_file(rig.known_hosts()) == "alpha.test " + rig.public_key("beta") + "\n");
}

TEST_CASE("a config that checks nothing does not loosen the rule", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.write(".ssh/config", "StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n");
  CHECK(rig.errand(engine, "true", {"alpha.test"})[0].is_answered);
  CHECK(read_file(rig.own_known_hosts()) == "alpha.test " + rig.public_key("alpha") + "\n");
  rig.set_up_anew("alpha");
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("CHANGED"));
}

TEST_CASE("a revoked key is refused whatever else knows it", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const bool is_known = GENERATE(true, false);
  CAPTURE(engine[1], is_known);
  Rig rig;
  rig.start_host("alpha");
  const std::string key = rig.public_key("alpha") + "\n";
  write_file(rig.known_hosts(), (is_known ? "alpha.test " + key : "") + "@revoked * " + key);
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("revoked") && Contains(rig.known_hosts()));
  CHECK(read_file(rig.own_known_hosts()).empty());
}

TEST_CASE("a known hosts file that cannot be read refuses every host", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.must("mkdir -p .ssh/known_hosts");
  const Trip trip = rig.errand(engine, "true", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains("cannot read") && Contains(rig.known_hosts()));
  CHECK(read_file(rig.own_known_hosts()).empty());
}

TEST_CASE("a host that cannot be remembered is refused with a way out", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.write("state", "in the way of the folder\n");
  const Trip trip = rig.errand(engine, "touch " + rig.path("ran"), {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
  CHECK_THAT(trip[0].why, Contains(rig.own_known_hosts()) && Contains("by hand"));
  CHECK(read_file(rig.path("ran")).empty());
}

TEST_CASE("many who meet a host for the first time at once remember one line", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  const Words hosts(6, "alpha.test");
  const Trip trip = rig.errand(engine, "echo hello", hosts);
  for (const Told& told : trip.told) {
    INFO(told);
    CHECK(told.is_answered);
  }
  CHECK(read_file(rig.own_known_hosts()) == "alpha.test " + rig.public_key("alpha") + "\n");
}

TEST_CASE("a key is kept under the name and port and under an alias as ssh does", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  const auto [config, name] = GENERATE(table<std::string, std::string>({
      {"Host a\nHostName alpha.test\n", "alpha.test"},
      {"Host a\nHostName alpha.test\nPort 2222\n", "[alpha.test]:2222"},
      {"Host a\nHostName alpha.test\nPort 2222\nHostKeyAlias cluster\n", "cluster"},
  }));
  CAPTURE(engine[1], config);
  Rig rig;
  rig.start_host("alpha", {"ed25519"}, "Port 22\nPort 2222\n");
  rig.write(".ssh/config", config);
  const Trip trip = rig.errand(engine, "true", {"a"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK(read_file(rig.own_known_hosts()) == name + " " + rig.public_key("alpha") + "\n");
}

TEST_CASE("known hosts files may have blanks and per cent signs in their names", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.start_host("beta");
  const std::string mine = rig.home("my known hosts");
  write_file(mine, "alpha.test " + rig.public_key("alpha") + "\n");
  rig.write(".ssh/config", "UserKnownHostsFile \"" + mine + "\" ~/.ssh/known_hosts\n");
  const std::map<std::string, std::string> env{{"XDG_STATE_HOME", rig.home("my %h state")}};
  for (const std::string suffix : {" (new)", ":1"}) {
    const Trip trip = rig.errand(engine, "true", {"alpha.test", "beta.test"}, env);
    INFO(trip[0] << trip[1]);
    CHECK(trip[0].is_answered);
    CHECK(trip[0].known_by == mine + ":1");
    CHECK(trip[1].is_answered);
    CHECK(trip[1].known_by == rig.home("my %h state/holdfast/known_hosts") + suffix);
  }
}

TEST_CASE("a host that an authority vouches for must show a certificate", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.must("ssh-keygen -q -t ed25519 -N '' -f ca");
  write_file(rig.known_hosts(), "@cert-authority *.test " + read_file(rig.home("ca.pub")));
  const Trip trip = rig.errand(engine, "echo hello", {"alpha.test"});
  INFO(trip[0]);
  CHECK_FALSE(trip[0].is_answered);
}

TEST_CASE("a host that an authority vouches for is left to the ssh program", "[ssh]") {
  NEEDS_RIG();
  const Words engine = either_engine();
  CAPTURE(engine[1]);
  Rig rig;
  rig.start_host("alpha");
  rig.must(
      "ssh-keygen -q -t ed25519 -N '' -f ca && ssh-keygen -q -s ca -I alpha -h -n alpha.test " +
      rig.path("hosts/alpha/ed25519.pub"));
  const std::string certified =
      "HostCertificate " + rig.path("hosts/alpha/ed25519-cert.pub") + "\n";
  write_file(rig.path("alpha.conf"), read_file(rig.path("alpha.conf")) + certified);
  rig.restart_host("alpha");
  write_file(rig.known_hosts(), "@cert-authority *.test " + read_file(rig.home("ca.pub")));
  const Trip trip = rig.errand(engine + Words{"--keys", "strict"}, "echo hello", {"alpha.test"});
  INFO(trip[0]);
  CHECK(trip[0].is_answered);
  CHECK_THAT(trip[0].engine, Catch::StartsWith("ssh program"));
}
