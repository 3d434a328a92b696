/// Owner names that somebody made by hand, to have commands run for him.
#include "system/cluster/lock_scene.h"

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

/// Of each name in the file `names` the codes of all who meet it, a line each. What has a slash or
/// a newline in it cannot be an owner.
const std::string kMeetAll = R"sh(
    note() { "$@" > /dev/null 2>> errors; codes="$codes $?"; }
    while IFS= read -r -d '' name; do
        codes=
        note ssh_id --on-check-fail "$NOTIFIER" is_stale "$name"
        note ssh_id kill "$name"
        if [[ $name != *[/$'\n']* ]]; then
            mkdir -p lock/owner
            : > "lock/owner/$name"
            note lock_ssh --grace-seconds 0 --on-check-fail "$NOTIFIER" lock lock $$
            note lock_ssh --on-check-fail "$NOTIFIER" lock_check lock $$
            note lock_ssh is_stale lock
            note lock_ssh kill_owner lock
            [ -f "lock/owner/$name" ] || codes=" lost"
            rm -r lock
        fi
        echo "$codes"
    done < names
    )sh";

}  // namespace

TEST_CASE("an owner's name is never run anywhere", "[cluster][H14]") {
  NEEDS_BED();
  const std::string engine = GENERATE("libssh", "ssh");
  CAPTURE(engine);
  const LockScene scene(engine);
  const Words names = hostile_names();
  std::string text;
  for (const std::string& name : names) text += name + '\0';
  write_file(scene.bed.shared("names"), text);
  const Result met = scene.script("host2", "NOTIFIER=" + scene.notifier() + kMeetAll);
  const Words codes = lines_of(met.out);
  REQUIRE(codes.size() == names.size());
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i]);
    const bool can_be_owner = names[i].find_first_of("/\n") == std::string::npos;
    CHECK(codes[i] == (can_be_owner ? " 20 20 1 1 20 20" : " 20 20"));
  }
  CHECK(scene.notes().size() >= names.size());

  const Result all =
      scene.script("host2", R"sh(grep -zvP '\n' names | tr '\0' '\n' | ssh_id are_stale)sh");
  CHECK(all.code == 0);
  CHECK(all.out.find(" dead ") == std::string::npos);
  CHECK(scene.logins("host1.bed.test") == 0);
  // in the shared folder, in all homes, and where a tool may have gone
  const Result found = scene.bed.script(
      "host2",
      "find .. -name 'pwned*'; find / /root /tmp -maxdepth 1 -name 'pwned*' -newer notifier");
  CHECK(found.out == "");
}
