/// A shell script with dear checks and our grace_lock on one lock directory: they share the checks
/// out between them by the marks.
#include <catch2/catch.hpp>

#include "support/process.h"
#include "support/temp_dir.h"

using namespace holdfast::testing;

namespace {

using Words = std::vector<std::string>;

enum class Kind { shell, ours };

/// One lock and a checker that notes whom it is asked about, and calls dead whose file is there.
struct Meeting {
  TempDir dir;

  Meeting() {
    write_file(dir / "judge", "#!/bin/bash\necho \"$1\" >> '" + (dir / "asked") + "'\ntest -e '" +
                                  (dir / "dead.") + "'\"$1\"\n");
    REQUIRE(run({"/bin/chmod", "+x", dir / "judge"}).code == 0);
  }

  int act(Kind kind, const std::string& action, const std::string& id,
          const std::string& grace = "1000") const {
    const Words words =
        kind == Kind::shell
            ? Words{source_dir() + "/tests/system/compat/grace_peer", grace, dir / "judge"}
            : Words{"grace_lock", "--grace-seconds", grace, dir / "judge"};
    Words all = words;
    all.insert(all.end(), {action, dir / "lock", id});
    const Result result = run(all);
    INFO(result.err);
    CHECK(result.out.empty());
    return result.code;
  }
  void make_due(const std::string& id) const {
    REQUIRE(run({"/bin/touch", "-d", "1 hour ago", dir / ("lock/in_use/" + id)}).code == 0);
  }
  void kill(const std::string& id) const { write_file(dir / ("dead." + id), ""); }
  std::string asked() const { return read_file(dir / "asked"); }
  Words files() const { return tree(dir / "lock"); }
};

}  // namespace

TEST_CASE("shell and ours leave the same marks and each unlocks what the other locked",
          "[compat][grace]") {
  const auto [locker, unlocker] = GENERATE(table<Kind, Kind>({
      {Kind::shell, Kind::shell},
      {Kind::shell, Kind::ours},
      {Kind::ours, Kind::shell},
      {Kind::ours, Kind::ours},
  }));
  const Meeting at;
  CHECK(at.act(locker, "lock", "a") == 0);
  CHECK(at.files() == Words{"in_use/", "in_use/a/", "owner/", "owner/a"});
  CHECK(at.act(unlocker, "lock", "b") == 1);
  CHECK(at.files() == Words{"in_use/", "in_use/a/", "owner/", "owner/a"});
  CHECK(at.act(unlocker, "unlock", "a") == 0);
  CHECK(at.files().empty());
  CHECK(at.asked().empty());
}

TEST_CASE("a check by one of them gives the holder a new grace for the other", "[compat][grace]") {
  const auto [first, second] =
      GENERATE(table<Kind, Kind>({{Kind::shell, Kind::ours}, {Kind::ours, Kind::shell}}));
  const Meeting at;
  REQUIRE(at.act(first, "lock", "a") == 0);
  at.make_due("a");
  // 2 s: half of what is below it is no pause
  CHECK(at.act(first, "lock", "b", "2") == 1);
  CHECK(at.asked() == "a\n");
  CHECK(at.act(second, "lock", "c") == 1);
  CHECK(at.act(first, "lock", "b") == 1);
  CHECK(at.asked() == "a\n");
}

TEST_CASE("each of them recovers the dead of the other after the grace", "[compat][grace]") {
  const auto [locker, heir] =
      GENERATE(table<Kind, Kind>({{Kind::shell, Kind::ours}, {Kind::ours, Kind::shell}}));
  const Meeting at;
  REQUIRE(at.act(locker, "lock", "a") == 0);
  at.kill("a");
  CHECK(at.act(heir, "lock", "b") == 1);
  CHECK(at.asked().empty());
  at.make_due("a");
  CHECK(at.act(heir, "lock", "b", "2") == 1);
  CHECK(at.act(heir, "lock", "b", "2") == 0);
  CHECK(at.asked() == "a\n");
  CHECK(at.files() == Words{"in_use/", "in_use/b/", "owner/", "owner/b"});
}

TEST_CASE("a crowd of both kinds asks about a due holder once and not each time",
          "[compat][grace]") {
  const Meeting at;
  REQUIRE(at.act(Kind::ours, "lock", "a") == 0);
  at.make_due("a");
  for (int round = 0; round < 6; ++round) {
    const Kind kind = round % 2 ? Kind::shell : Kind::ours;
    CHECK(at.act(kind, "lock", std::string(1, static_cast<char>('b' + round)),
                 round ? "1000" : "2") == 1);
  }
  CHECK(at.asked() == "a\n");
  CHECK(at.files() == Words{"in_use/", "in_use/a/", "owner/", "owner/a"});
}
