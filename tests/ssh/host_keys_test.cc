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
