/// Owner names that somebody made by hand, to have commands run for him.
#include "cluster/lock_scene.h"

using namespace holdfast::testing;

namespace {

/// A command in every field. There can be no slash in a name, so it works where it runs.
Words hostile_names() {
  const Words tricks = {
      "$(touch pwned)",
      "`touch pwned`",
      "'; touch pwned; '",
      "\"; touch pwned; \"",
      "'\"; touch pwned #",
      "1; touch pwned",
      "1|touch pwned",
      "1&touch pwned&",
      "1\ntouch pwned\n",
      "-oProxyCommand=touch pwned",
      "--help",
      "$HOME",
      "1 2",
      "*",
      "{print>\"pwned\"}",
      "user@host1.bed.test",
      "../../pwned",
  };
  Words names;
  for (const std::string& trick : tricks) {
    for (int field = 0; field < 4; ++field) {
      Words fields = {"host1.bed.test", "77", "88", "99"};
      fields[static_cast<std::size_t>(field)] = trick;
      names.push_back(fields[0] + ":" + fields[1] + ":" + fields[2] + ":" + fields[3]);
    }
  }
  return names;
}

}  // namespace

TEST_CASE("an owner's name is never run anywhere", "[cluster][H14]") {
  NEEDS_BED();
  const LockScene scene;
  const auto rival = scene.bed.sleeper("host2");
  const auto is_pwned = [&] {
    return scene.bed.script("host2", "find .. / -xdev -name 'pwned*' -newer notifier 2>/dev/null")
        .out;
  };
  boost::filesystem::create_directories(scene.bed.shared("lock/owner"));
  std::string many;
  for (const std::string& name : hostile_names()) {
    CAPTURE(name);
    CHECK(scene.ssh_id("host2", {"is_stale", name}).code == 20);
    CHECK(scene.ssh_id("host2", {"kill", name}).code == 20);
    CHECK(scene.notes().size() > 0);
    if (name.find('\n') == std::string::npos) many += name + "\n";
    if (name.find('/') != std::string::npos || name.find('\n') != std::string::npos) continue;

    write_file(scene.bed.shared("lock/owner/" + name), "");
    scene.age_markers();
    CHECK(scene.lock_ssh("host2", {"lock_check", "lock", rival->pid()}).code == 1);
    CHECK(scene.lock_ssh("host2", {"is_stale", "lock"}).code == 20);
    CHECK(scene.lock_ssh("host2", {"kill_owner", "lock"}).code == 20);
    CHECK(scene.owners() == Words{name});
    boost::filesystem::remove(scene.bed.shared("lock/owner/" + name));
  }
  RunOptions input;
  input.input = many;
  const Result all = scene.bed.run("host2", {"ssh_id", "are_stale"}, input);
  INFO(all);
  CHECK(all.out.find(" stale") == std::string::npos);
  CHECK(scene.logins("host1.bed.test") == 0);
  CHECK(is_pwned().empty());
}
