/// Words and directories that make no sense, given to each tool that lets in several, has a line or
/// takes several locks: a clear message, the code of the table, and nothing left.

#include <boost/filesystem.hpp>

#include "session.h"

using namespace holdfast::testing;
using Catch::Contains;

namespace {

using Words = std::vector<std::string>;

Words operator+(Words a, const Words& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// A session with two living processes.
struct Scene : Session {
  Process self{kSleeper};
  Process other{kSleeper};

  /// SELF and OTHER stand for their pids.
  Result ask(Words words) const {
    for (std::string& word : words) {
      if (word == "SELF") word = self.pid_text();
      if (word == "OTHER") word = other.pid_text();
    }
    return run(words);
  }
  void must_do(const Words& words) const { REQUIRE(ask(words) == kSilentYes); }

  /// One ERROR line with these words in it, at once, and the disk as it was.
  void check_refused(const Words& words, int code, const std::string& reason) const {
    const Tree before = tree();
    CAPTURE(words);
    const auto begin = std::chrono::steady_clock::now();
    check_failed(ask(words), code, reason);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
    CHECK(tree() == before);
  }
};

/// Each way to a semaphore of a number of permits, up to and including the action.
std::vector<Words> acquires() {
  return {{"semaphore", "-l", "acquire"},
          {"semaphore", "-l", "fast_acquire"},
          {"semaphore", tool("lock_ssh"), "acquire"},
          {"semaphore", "/usr/bin/env", "-a", tool("lock_local"), "acquire"},
          {"semaphore_ssh", "acquire"},
          {"semaphore_ssh", "fast_acquire"},
          {"fair_semaphore", "acquire"},
          {"fair_semaphore", "--wait", "60", "acquire"}};
}

bool has_full_name() {
  return run({"ssh_id", "uid", std::to_string(getpid())}).code == 0;
}

bool needs_full_name(const Words& words) {
  return words[0] == "semaphore_ssh" || words[1] == tool("lock_ssh");
}

/// Each way to a lock with a line: the words for SELF, and what gives it back.
struct Taking {
  Words take;
  Words give_back;
};

std::vector<Taking> takings() {
  return {
      {{"rw_lock", "shared", "L", "SELF"}, {"rw_lock", "unlock", "L", "SELF"}},
      {{"rw_lock", "exclusive", "L", "SELF"}, {"rw_lock", "unlock", "L", "SELF"}},
      {{"rw_lock", "--prefer-writers", "shared", "L", "SELF"}, {"rw_lock", "unlock", "L", "SELF"}},
      {{"fair_lock", "lock", "L", "SELF"}, {"fair_lock", "unlock", "L", "SELF"}},
      {{"fair_semaphore", "acquire", "L", "1", "SELF"}, {"fair_semaphore", "release", "L", "SELF"}},
      {{"multi_lock", "--id", "SELF", "--nowait", "acquire", "L"},
       {"multi_lock", "--id", "SELF", "release", "L"}},
      {{"multi_lock", "--id", "SELF", "--nowait", "acquire", "s:L"},
       {"multi_lock", "--id", "SELF", "release", "L"}}};
}

/// The same with a wait.
Words waiting(Words words) {
  std::erase(words, "--nowait");
  words.insert(words.begin() + 1, {"--wait", "60"});
  return words;
}

/// Names that are no places in line, some of them nearly.
void fill_with_junk(const Session& at) {
  at.must(
      "mkdir -p L/.queue; cd L/.queue; touch -- junk 0000000001 0000000002.x.a 00000001.w.a "
      ".hidden "
      "0000000003.w. 00000000001.w.a -000000001.w.a '+000000001.w.a' 000000000a.w.a "
      "'0000000004 w a' 'two words' '-' '*' \"$(printf 'two\\nlines')\" \"$(printf '%0250d' 7)\" "
      "0000000001.W.a; mkdir folder 0000000001.w.folder 0000000002.w.full; "
      "touch 0000000002.w.full/x; ln -s nowhere 0000000003.r.link; ln -s . 0000000004.w.loop");
}

}  // namespace

TEST_CASE("a max of 0 lets in nobody and leaves nothing", "[e2e][input]") {
  const Scene at;
  for (const Words& acquire : acquires()) {
    if (needs_full_name(acquire) && !has_full_name()) continue;
    CAPTURE(acquire);
    CHECK(at.ask(acquire + Words{"S", "0", "SELF"}) == kSilentNo);
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a max that is negative, no number or above a million is a usage error", "[e2e][input]") {
  const Scene at;
  const std::string max =
      GENERATE("-1", "-0", "+1", "x", "1x", "1.5", " 1", "0x10", "1e3", "1000001", "4294967297",
               "18446744073709551617", "99999999999999999999999");
  for (const Words& acquire : acquires()) {
    CAPTURE(acquire, max);
    check_usage(at.ask(acquire + Words{"S", max, "SELF"}), "max is");
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a max of a million is one", "[e2e][input]") {
  const Scene at;
  at.must_do({"fair_semaphore", "acquire", "S", "1000000", "SELF"});
  at.must_do({"semaphore", "-l", "acquire", "S", "1000000", "OTHER"});
  at.must_do({"fair_semaphore", "release", "S", "SELF"});
  at.must_do({"fair_semaphore", "release", "S", "OTHER"});
  CHECK(at.tree().empty());
}

TEST_CASE("permits that are none, no number or above the max are a usage error", "[e2e][input]") {
  const Scene at;
  const std::string permits = GENERATE("0", "-1", "x", "1.5", "1000001", "99999999999999999999");
  CAPTURE(permits);
  check_usage(at.ask({"fair_semaphore", "--permits", permits, "acquire", "S", "2", "SELF"}),
              "--permits is a number");
  check_usage(at.ask({"fair_semaphore", "--permits", permits, "release", "S", "SELF"}),
              "--permits is a number");
  check_usage(at.ask({"fair_semaphore", "--permits", "3", "acquire", "S", "2", "SELF"}),
              "--permits 3 are never free of 2");
  CHECK(at.tree().empty());
}

TEST_CASE("a process that already holds is told so with 20, at once, and keeps what it has",
          "[e2e][input]") {
  for (const Taking& first : takings()) {
    const Scene at;
    at.must_do(first.take);
    const bool is_semaphore = first.take[0] == "fair_semaphore";
    for (const Taking& again : takings()) {
      if (is_semaphore != (again.take[0] == "fair_semaphore")) continue;
      CAPTURE(first.take);
      at.check_refused(again.take, 20, "L already ");
      at.check_refused(waiting(again.take), 20, "L already ");
    }
    if (is_semaphore) {
      at.check_refused({"fair_semaphore", "--permits", "2", "acquire", "L", "5", "SELF"}, 20,
                       "L already acquired by");
      at.check_refused({"semaphore", "-l", "acquire", "L", "5", "SELF"}, 20,
                       "L already acquired by");
    }
    at.must_do(first.give_back);
    CHECK(at.tree().empty());
  }
}

TEST_CASE("an upgrade without a shared hold is told 19, at once, and changes nothing",
          "[e2e][input]") {
  const Scene at;
  const Words upgrade = {"rw_lock", "upgrade", "L", "SELF"};
  SECTION("of a free lock") {}
  SECTION("of a lock that another shares") {
    at.must_do({"rw_lock", "shared", "L", "OTHER"});
  }
  SECTION("of a lock that another has alone") {
    at.must_do({"rw_lock", "exclusive", "L", "OTHER"});
  }
  at.check_refused(upgrade, 19, "L is not locked by");
  at.check_refused(waiting(upgrade), 19, "L is not locked by");
}

TEST_CASE("a downgrade without an exclusive hold is told 19 and changes nothing", "[e2e][input]") {
  const Scene at;
  const Words downgrade = {"rw_lock", "downgrade", "L", "SELF"};
  at.check_refused(downgrade, 19, "L is not locked by");
  at.must_do({"rw_lock", "exclusive", "L", "OTHER"});
  at.check_refused(downgrade, 19, "L is not locked by");
  at.must_do({"rw_lock", "downgrade", "L", "OTHER"});
  at.check_refused(downgrade, 19, "L is not locked by");
  at.must_do({"rw_lock", "shared", "L", "SELF"});
  at.check_refused(downgrade, 19, "L is only shared by");
}

TEST_CASE("a list of locks with a bad one takes none of them", "[e2e][input]") {
  const Scene at;
  at.must("mkdir many; touch file");
  const auto [bad, reason] = GENERATE(table<std::string, std::string>({
      {"nowhere/x", "cannot look into nowhere: No such file or directory"},
      {"s:many/nowhere/x", "cannot look into many/nowhere: No such file or directory"},
      {"file/x", "cannot look into file: Not a directory"},
      {"file", "file/.queue: Not a directory"},
      {"s:./file", "./file/.queue: Not a directory"},
      {"many/held", "many/held already locked by"},
  }));
  at.must_do({"multi_lock", "--id", "SELF", "acquire", "many/held"});
  const int code = bad == "many/held" ? 20 : 2;
  // Short enough for the time limit of check_refused on a busy disk; the next test has a thousand.
  Words list;
  for (int i = 0; i < 99; ++i) list.push_back((i % 2 ? "s:many/" : "many/") + std::to_string(i));
  // at the end of the words, which is not that of the order in which they are taken
  for (const Words& acquire :
       {Words{"--nowait", "acquire"}, Words{"--wait", "60", "acquire"}, Words{"acquire"}}) {
    at.check_refused(Words{"multi_lock", "--id", "SELF"} + acquire + list + Words{bad}, code,
                     reason);
  }
}

TEST_CASE("of a thousand locks one that is held has all refused, and nothing is left",
          "[e2e][input]") {
  const Scene at;
  at.must("mkdir many");
  at.must_do({"multi_lock", "--id", "OTHER", "acquire", "s:many/500"});
  const Tree before = at.tree();
  Words words{"multi_lock", "--id", "SELF", "--nowait", "acquire"};
  for (int i = 0; i < 1000; ++i) words.push_back("many/" + std::to_string(i));
  const Result refused = at.ask(words);
  CHECK(refused.code == 1);
  CHECK(refused.err == "many/500 is refused, and nothing was taken\n");
  CHECK(at.tree() == before);
}

TEST_CASE("a thousand names of one lock are one", "[e2e][input]") {
  const Scene at;
  Words list;
  std::string dots;
  for (int i = 0; i < 1000; ++i) {
    list.push_back((i == 700 ? "x:" : "s:") + dots + "L");
    if (i < 100) dots += i % 2 ? "./" : ".//";
  }
  at.must_do(Words{"multi_lock", "--id", "SELF", "acquire"} + list);
  CHECK(at.tree("").size() == 3);  // L/, L/owner/ and the leaf
  CHECK(at.run({"rw_lock", "owners", "L"}).out.starts_with("X "));
  at.must_do(Words{"multi_lock", "--id", "SELF", "release"} + list);
  CHECK(at.tree().empty());
}

TEST_CASE("a list without a path in it is a usage error", "[e2e][input]") {
  const Scene at;
  for (const char* action : {"acquire", "release", "owners"}) {
    check_usage(at.run({"multi_lock", action}), "needs [x:|s:]<lock_path>");
    check_usage(at.run({"multi_lock", action, "one", ""}), "no path in ''");
    check_usage(at.run({"multi_lock", action, "one", "s:"}), "no path in 's:'");
  }
  CHECK(at.tree().empty());
}

TEST_CASE("a line full of junk names holds up nobody and is left as it is", "[e2e][input]") {
  for (const Taking& one : takings()) {
    const Scene at;
    fill_with_junk(at);
    const Tree before = at.tree();
    CAPTURE(one.take);
    CHECK(at.run({"rw_lock", "queue", "L"}) == kSilentYes);
    at.must_do(one.take);
    at.must_do(one.give_back);
    at.must_do(waiting(one.take));
    at.must_do(one.give_back);
    CHECK(at.tree() == before);
  }
}

TEST_CASE("who waits in a line full of junk names gets its turn", "[e2e][input]") {
  for (const Taking& one : takings()) {
    const Scene at;
    fill_with_junk(at);
    const Tree before = at.tree();
    CAPTURE(one.take);
    const bool is_semaphore = one.take[0] == "fair_semaphore";
    at.must_do(is_semaphore ? Words{"fair_semaphore", "acquire", "L", "1", "OTHER"}
                            : Words{"rw_lock", "exclusive", "L", "OTHER"});
    RunOptions here;
    here.cwd = at.path("");
    Words words = waiting(one.take);
    for (std::string& word : words) {
      if (word == "SELF") word = at.self.pid_text();
    }
    Process waiter(words, here);
    REQUIRE(eventually([&] { return !at.run({"rw_lock", "queue", "L"}).out.empty(); }));
    at.must_do(is_semaphore ? Words{"fair_semaphore", "release", "L", "OTHER"}
                            : Words{"rw_lock", "unlock", "L", "OTHER"});
    CHECK(waiter.wait() == 0);
    at.must_do(one.give_back);
    CHECK(at.tree() == before);
  }
}

TEST_CASE("places in line that name nobody are taken out", "[e2e][input]") {
  for (const Taking& one : takings()) {
    const Scene at;
    at.must(
        "mkdir -p L/.queue; cd L/.queue; touch 0000000001.w.junk 0000000001.r.1 '0000000007.w. '; "
        "mkfifo 0000000002.w.fifo; echo garbage > 0000000003.r.a; "
        "head -c 100000 /dev/zero > 0000000004.w.zeros");
    CAPTURE(one.take);
    at.must_do(one.take);
    at.must_do(one.give_back);
    CHECK(at.tree().empty());
  }
}

TEST_CASE("a file in the place of a lock, or of its line, is told with 2", "[e2e][input]") {
  const std::string file = GENERATE("L", "L/.queue");
  for (const Taking& one : takings()) {
    const Scene at;
    at.must(file == "L" ? "touch L" : "mkdir L; touch L/.queue");
    at.check_refused(one.take, 2, "L/.queue: Not a directory");
    at.check_refused(waiting(one.take), 2, "L/.queue: Not a directory");
  }
}

TEST_CASE("foreign files in a semaphore are no slots and stay", "[e2e][input]") {
  const auto [acquire, lead] = GENERATE(table<Words, Words>({
      {{"semaphore", "-l", "acquire"}, {"semaphore", "-l"}},
      {{"semaphore_ssh", "acquire"}, {"semaphore_ssh"}},
      {{"fair_semaphore", "acquire"}, {"fair_semaphore"}},
      {{"fair_semaphore", "--wait", "1", "acquire"}, {"fair_semaphore"}},
  }));
  if (needs_full_name(acquire) && !has_full_name()) SKIP_TEST("this host has no full name");
  CAPTURE(acquire);
  const Scene at;
  at.must(
      "mkdir -p S/.git S/folder/more; touch S/1 S/notes S/.hidden S/folder/owner.txt; "
      "ln -s nowhere S/3; mkfifo S/4");
  const Tree before = at.tree();
  at.must_do(acquire + Words{"S", "4", "SELF"});  // all but 2 are in the way of something else
  CHECK(at.ask(lead + Words{"slot", "S", "SELF"}).out == "2\n");
  const Result second = at.ask(acquire + Words{"S", "4", "OTHER"});
  INFO(second);
  CHECK((second.code == 1 || second.code == 2));
  CHECK(at.ask(lead + Words{"stale", "S"}) == kSilentYes);
  CHECK(at.ask(lead + Words{"clean", "S"}).code == 1);
  at.must_do(lead + Words{"release", "S", "SELF"});
  CHECK(at.ask(lead + Words{"release", "S", "SELF"}).code == 19);
  CHECK(at.tree() == before);
}

TEST_CASE("a name that cannot be a slot is a usage error", "[e2e][input]") {
  const Scene at;
  const std::string slot = GENERATE("../x", "a/b", ".queue", "..", ".");
  for (const Words& lead :
       {Words{"semaphore", "-l"}, Words{"semaphore_ssh"}, Words{"fair_semaphore"}}) {
    CAPTURE(lead, slot);
    check_usage(at.run(lead + Words{"owner", "S", slot}), "cannot be a slot");
  }
  CHECK(at.tree().empty());
}

TEST_CASE("an action that is none is named as the user wrote it", "[e2e][input]") {
  const Scene at;
  for (const char* tool : {"rw_lock", "fair_lock", "fair_semaphore", "multi_lock"}) {
    CAPTURE(tool);
    check_usage(at.run({tool}), "unspecified <ACTION>");
    check_usage(at.run({tool, "bogus"}), "unknown action (bogus)");
    check_usage(at.run({tool, "bogus", "L", "1"}), "neither 'bogus' nor 'L' is an action");
    check_usage(at.run({tool, "./judge", "bogus", "L"}),
                "neither './judge' nor 'bogus' is an action");
    CHECK_THAT(at.run({tool, "--help"}).out, Contains(std::string(tool) + " [stale_checker] "));
  }
  CHECK(at.tree().empty());
}
