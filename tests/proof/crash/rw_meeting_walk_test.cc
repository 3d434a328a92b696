#include <catch2/catch.hpp>

#include "walk.h"

using namespace holdfast::testing;

namespace {

/// What the writer was told, once it came.
int told(const TempDir& dir) {
  const std::string text = read_file(dir / "told");
  return text.empty() ? -1 : std::stoi(text);
}

/// How often each got in.
struct In {
  int writers = 0;
  int readers = 0;
};

/// A reader is stopped before each of its system calls in turn; meanwhile `event` runs to its end,
/// and then a writer tries. Never both are in, the last word of each is true, and when all are gone
/// nothing is left.
In walk_readers(const Words& before, const std::string& event) {
  const Process sharer(kSleeper), reader(kSleeper), writer(kSleeper);
  In in;
  for (long call = 1;; ++call) {
    const TempDir dir;
    const std::string lock = dir / "lock";
    Words prepare = before;
    for (std::string& word : prepare) {
      if (word == "LOCK") word = lock;
      if (word == "SHARER") word = sharer.pid_text();
    }
    if (!prepare.empty()) REQUIRE(run(prepare).code == 0);
    const std::string script = "LOCK='" + lock + "'; SHARER=" + sharer.pid_text() + "; " + event +
                               "; " + tool("rw_lock") + " exclusive \"$LOCK\" " +
                               writer.pid_text() + "; echo $? > '" + (dir / "told") + "'";
    const Stop stop =
        stop_at(call, "all", "run:" + script, {tool("rw_lock"), "shared", lock, reader.pid_text()});
    if (!stop.was_hit) {
      CHECK(call > 30);
      return in;
    }
    CAPTURE(call, stop.call, stop.said);
    const std::string owners = run({"rw_lock", "owners", lock}).out;
    const bool writer_is_in = owners.find("X " + uid_of(writer)) != std::string::npos;
    const bool reader_is_in = owners.find("S " + uid_of(reader)) != std::string::npos;
    CHECK_FALSE((writer_is_in && reader_is_in));
    CHECK(told(dir) == (writer_is_in ? 0 : 1));
    CHECK(stop.code == (reader_is_in ? 0 : 1));
    in.writers += writer_is_in;
    in.readers += reader_is_in;
    for (const Process* one : {&sharer, &reader, &writer}) {
      run({"rw_lock", "unlock", lock, one->pid_text()});
    }
    CHECK(tree(lock).empty());
  }
}

}  // namespace

TEST_CASE(
    "adversarial 1: a writer that tries while a reader is stopped at any call is told the truth",
    "[crash][meet][adversarial-1]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  const In of_free = walk_readers({}, ":");
  CHECK(of_free.writers > 0);
  CHECK(of_free.readers > 0);
  const In of_shared = walk_readers({"rw_lock", "shared", "LOCK", "SHARER"}, ":");
  CHECK(of_shared.writers == 0);
  CHECK(of_shared.readers > 0);
}

TEST_CASE("adversarial 2: a writer that claims a lock under a stopped reader stays alone in it",
          "[crash][meet][adversarial-2]") {
  if (!can_stop()) SKIP_TEST("processes cannot be traced here");
  const In in = walk_readers({"rw_lock", "shared", "LOCK", "SHARER"},
                             tool("rw_lock") + " unlock \"$LOCK\" $SHARER");
  CHECK(in.writers > 0);
  CHECK(in.readers > 0);
}
