/// btime moves when the clock is stepped: every id that was made before then looks different.
#include <unistd.h>

#include "scene.h"

using namespace holdfast::testing;

namespace {

/// Runs a script in a world whose boot time is off by so many seconds.
Result under_shift(const Scene& scene, int seconds, const std::string& script) {
  return scene.script("shift=" + std::to_string(seconds) + R"sh(
      while read -r key value rest; do
        [ "$key" = btime ] && value=$((value + shift))
        echo "$key $value${rest:+ $rest}"
      done < /proc/stat > "$DIR/stat"
      mount --bind "$DIR/stat" /proc/stat || exit 90
      )sh" + script,
                      kNewMountNamespace);
}

int shifted_by(const std::string& before, const std::string& after) {
  return std::stoi(after.substr(after.rfind(':') + 1)) -
         std::stoi(before.substr(before.rfind(':') + 1));
}

}  // namespace

TEST_CASE("a holder keeps its lock when the clock is stepped and can unlock", "[identity][H9]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const int shift = GENERATE(1, -1, 2, 100, -100, 100000);
  CAPTURE(shift);
  const Scene scene;
  const Process holder(kSleeper);
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  const std::string id = shell_uid(holder.pid_text());

  const Result moved = under_shift(scene, shift, "local_id uid " + holder.pid_text());
  REQUIRE(shifted_by(id, moved.out) == shift);
  CHECK(under_shift(scene, shift, "lock_local lock \"$LOCK\" $$").code == 1);
  CHECK(under_shift(scene, shift, "lock_local is_stale \"$LOCK\"").code == 1);
  CHECK(under_shift(scene, shift, "lock_local owner_pid \"$LOCK\"").out ==
        holder.pid_text() + "\n");
  CHECK(under_shift(scene, shift, "lock_local --older-than 0 clean \"$LOCK\"").code == 1);
  CHECK(scene.owners() == Words{id});
  CHECK(under_shift(scene, shift, "lock_local is_mine \"$LOCK\" " + holder.pid_text()).code == 0);
  CHECK(
      under_shift(scene, shift, "lock_local --strict unlock \"$LOCK\" " + holder.pid_text()).code ==
      0);
  CHECK(tree(scene.lock()).empty());
}

TEST_CASE("a shell holder keeps its lock when the clock is stepped", "[identity][H9]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const auto [shift, staleness] = GENERATE(
      table<int, int>({{1, 1}, {-1, 1}, {2, 13}, {-2, 13}, {100, 13}, {-100, 13}, {100000, 13}}));
  CAPTURE(shift);
  const Scene scene;
  const Process holder(kSleeper);
  const std::string id = shell_uid(holder.pid_text());
  scene.hold_without_record(id);

  const Result refused = under_shift(scene, shift, "lock_local lock \"$LOCK\" $$");
  CHECK(refused.code == 1);
  CHECK((refused.err.find("WARNING") != std::string::npos) == (staleness == 13));
  CHECK(under_shift(scene, shift, "lock_local is_stale \"$LOCK\"").code == staleness);
  CHECK(under_shift(scene, shift, "lock_local --older-than 0 clean \"$LOCK\"").code == 1);
  CHECK(scene.owners() == Words{id});
}

TEST_CASE("a dead holder is recovered although the clock was stepped", "[identity][H9]") {
  if (!can_unshare()) SKIP_TEST("needs root and namespaces of its own");
  const int shift = GENERATE(1, -1, 100);
  const bool has_record = GENERATE(true, false);
  CAPTURE(shift, has_record);
  const Scene scene;
  Process holder(kSleeper);
  REQUIRE(scene.lock_as(holder.pid_text()) == 0);
  if (!has_record) scene.forget_records();
  holder.kill_and_wait();
  CHECK(under_shift(scene, shift, "lock_local lock \"$LOCK\" $$").code == 0);
}
