/// check_lock as a shell user meets it.

#include "court.h"

using namespace holdfast::testing;
using Catch::Contains;
using Catch::EndsWith;
using Catch::Matches;
using Catch::StartsWith;

namespace {

const Tree kHeldByA = {"owner/", "owner/a"};

}  // namespace

TEST_CASE("check_lock takes a free lock without asking the checker", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "./judge", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree("L") == kHeldByA);
  CHECK(at.asked().empty());
}

TEST_CASE("check_lock refuses with 1 while the checker says alive", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.tree("L") == kHeldByA);
  CHECK(at.asked() == "a|\n");
}

TEST_CASE("check_lock takes the lock of an owner that the checker calls stale", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L 'a dead id'");
  at.condemn("a dead id");
  CHECK(at.run({"check_lock", "./judge", "lock", "L", "b"}) == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/b"});
  CHECK(at.asked() == "a dead id|\n");
}

TEST_CASE("only the status 0 of a checker means stale", "[e2e]") {
  const std::string checker =
      GENERATE("exit 1", "exit 2", "exit 9", "exit 10", "exit 127", "exit 255", "kill -9 $$");
  const Court at;
  at.must("fast_lock lock L a; printf '#!/bin/bash\\n" + checker + "\\n' > judge");
  CAPTURE(checker);
  const Result result = at.run({"check_lock", "./judge", "lock", "L", "b"});
  CHECK(result.code == 1);
  CHECK(result.out.empty());
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("a checker that does not exist frees nothing", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./no-such-checker", "lock", "L", "b"}).code == 1);
  CHECK(at.run({"check_lock", "./no-such-checker", "owner", "L"}).out == "a\n");
  CHECK(at.run({"check_lock", "./no-such-checker", "unlock", "L", "b"}).code == 0);
  CHECK(at.run({"check_lock", "./no-such-checker", "clean", "L"}).code == 1);
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("check_lock tells an id that holds already with 20", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck");
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", action, "L", "a"}) ==
        Result{20, "", " ERROR - L already locked by a\n"});
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("check_lock answers 2 with a reason when the lock cannot be built", "[e2e]") {
  const std::string action = GENERATE("lock", "lock_nocheck");
  const Court at;
  at.must("touch L");
  check_failed(at.run({"check_lock", "./judge", action, "L", "a"}), 2, "Not a directory");
}

TEST_CASE("the words after -s go before the id in their order", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "-s", "one", "-s", "two words", "-s", "3", "lock", "L",
                "b"}) == kSilentNo);
  CHECK(at.asked() == "one|two words|3|a|\n");
}

TEST_CASE("a word after -s may be empty or begin with a dash", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "-s", "-c", "-s", "--debug", "-s", "", "-s", "-s", "lock",
                "L", "b"}) == kSilentNo);
  CHECK(at.asked() == "-c|--debug||-s|a|\n");
}

TEST_CASE("a shell one-liner is a checker", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "bash", "-s", "-c", "-s", "test \"$0\" = a", "lock", "L", "b"}) ==
        kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/b"});
}

TEST_CASE("an action's name as a checker word stays a checker word", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "-s", "lock_nocheck", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.asked() == "lock_nocheck|a|\n");
}

TEST_CASE("what the checker prints is passed through", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L a; printf '#!/bin/bash\\necho to out; echo to err >&2; exit 1\\n' > c");
  at.must("chmod +x c");
  CHECK(at.run({"check_lock", "./c", "lock", "L", "b"}) == Result{1, "to out\n", "to err\n"});
}

TEST_CASE("lock_nocheck and owner_nocheck ask no checker", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  at.condemn("a");
  CHECK(at.run({"check_lock", "lock_nocheck", "L", "b"}) == kSilentNo);
  CHECK(at.run({"check_lock", "./judge", "lock_nocheck", "L", "b"}) == kSilentNo);
  CHECK(at.run({"check_lock", "owner_nocheck", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"check_lock", "./judge", "owner_nocheck", "L"}) == Result{0, "a\n", ""});
  CHECK(at.asked().empty());
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("lock_nocheck takes a free lock", "[e2e]") {
  const Session at;
  CHECK(at.run({"check_lock", "lock_nocheck", "L", "a"}) == kSilentYes);
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("owner_nocheck of a free lock prints nothing", "[e2e]") {
  const Session at;
  CHECK(at.run({"check_lock", "owner_nocheck", "L"}) == kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("owner prints a living owner", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "./judge", "owner", "L"}) == kSilentYes);
  CHECK(at.asked().empty());
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("owner cleans a stale owner and prints nothing", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  at.condemn("a");
  CHECK(at.run({"check_lock", "./judge", "owner", "L"}) == kSilentYes);
  CHECK(at.tree() == Tree{"asked", "dead", "judge"});
}

TEST_CASE("check_lock is_mine needs no checker and asks none", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "is_mine", "L", "a"}) == kSilentNo);
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({"check_lock", "is_mine", "L", "b"}) == kSilentNo);
  CHECK(at.run({"check_lock", "is_mine", "L", ""}) == kSilentNo);
  CHECK(at.run({"check_lock", "./judge", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.asked().empty());
}

TEST_CASE("check_lock unlock frees the lock with 0", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "unlock", "L", "a"}) == kSilentYes);
  CHECK(at.tree("L").empty());
  CHECK(at.tree() == Tree{"asked", "dead", "judge"});
}

TEST_CASE("check_lock unlock by a stranger answers 0 with a message", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "./judge", "unlock", "L", "b"}) ==
        Result{0, "", " ERROR - L is not locked by b\n"});
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "./judge", "unlock", "L", "b"}) ==
        Result{0, "", " ERROR - L is not locked by b\n"});
  CHECK(eventually([&] { return at.asked() == "a|\n"; }));
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("with --strict an unlock by a stranger answers 1", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  CHECK(at.run({"check_lock", "--strict", "./judge", "unlock", "L", "b"}) ==
        Result{1, "", " ERROR - L is not locked by b\n"});
  CHECK(eventually([&] { return at.asked() == "a|\n"; }));
  CHECK(at.run({"check_lock", "--strict", "./judge", "unlock", "L", "a"}) == kSilentYes);
}

TEST_CASE("after an unlock every stale id in use is cleaned", "[e2e]") {
  const Court at;
  at.must(
      "fast_lock lock L a; for id in 'dead one' dead2 .dead3 alive; do"
      " mkdir -p \"L/build/$id/owner\"; touch \"L/build/$id/owner/$id\"; done");
  for (const char* id : {"dead one", "dead2", ".dead3"}) at.condemn(id);
  CHECK(at.run({"check_lock", "./judge", "unlock", "L", "a"}) == kSilentYes);
  const Tree alive = {"build/", "build/alive/", "build/alive/owner/", "build/alive/owner/alive"};
  CHECK(eventually([&] { return at.tree("L") == alive; }));
  CHECK_THAT(at.asked(), Contains("dead one|\n"));
}

TEST_CASE("an unlock by a stranger cleans a stale owner too", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  at.condemn("a");
  CHECK(at.run({"check_lock", "./judge", "unlock", "L", "b"}).code == 0);
  CHECK(eventually([&] { return at.tree() == Tree{"asked", "dead", "judge"}; }));
}

TEST_CASE("an unlock does not wait for a slow checker", "[e2e]") {
  const Session at;
  at.must(
      "mkfifo gate; fast_lock lock L a; mkdir -p L/build/b/owner; touch L/build/b/owner/b;"
      "printf '#!/bin/bash\\ntouch called; read < gate\\n' > slow; chmod +x slow");
  CHECK(at.run({"check_lock", "./slow", "unlock", "L", "a"}) == kSilentYes);
  CHECK(eventually([&] { return at.shell("test -e called").code == 0; }));
  CHECK(at.run({"fast_lock", "ids_in_use", "L"}) == Result{0, "b\n", ""});
  at.must("echo > gate");
  CHECK(eventually([&] { return at.tree() == Tree{"called", "gate", "slow"}; }));
}

TEST_CASE("with local_id as the checker an unlock has cleaned when it returns", "[e2e]") {
  const Session at;
  const std::string one = dead_uid();
  const std::string two = dead_uid();
  at.must("fast_lock lock L a; for id in " + one + " " + two +
          "; do mkdir -p L/build/$id/owner; touch L/build/$id/owner/$id; done");
  CHECK(at.run({"check_lock", tool("local_id"), "-s", "is_stale", "unlock", "L", "a"}) ==
        kSilentYes);
  CHECK(at.tree().empty());
}

TEST_CASE("local_id as the checker tells the dead from the living", "[e2e]") {
  const std::string checker = GENERATE(as<std::string>(), "local_id", "lockers/local_id.sh");
  const std::string command =
      checker == "local_id" ? tool("local_id") : build_dir() + "/libexec/holdfast/" + checker;
  const Session at;
  Process holder(kSleeper);
  const std::string uid = uid_of(holder.pid_text());
  const std::vector<std::string> lock = {"check_lock", command, "-s", "is_stale", "lock", "L", "b"};
  at.must("fast_lock lock L " + uid);
  CHECK(at.run(lock) == kSilentNo);
  CHECK(at.run({"fast_lock", "owner", "L"}).out == uid + "\n");
  holder.kill_and_wait();
  CHECK(at.run(lock) == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/b"});
}

TEST_CASE("a checker found by PATH works like one found by its path", "[e2e]") {
  const Session at;
  at.must("fast_lock lock L " + dead_uid());
  const Result result = at.shell("check_lock local_id -s is_stale lock L b");
  CHECK(result == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/b"});
}

TEST_CASE("too few words are a usage error that makes nothing", "[e2e]") {
  const auto words = GENERATE(values<std::vector<std::string>>({{},
                                                                {""},
                                                                {"true"},
                                                                {"true", "-s"},
                                                                {"true", "-s", "x"},
                                                                {"true", "lock"},
                                                                {"true", "lock", "L"},
                                                                {"true", "lock", "L", ""},
                                                                {"true", "lock", "", "a"},
                                                                {"true", "unlock", "L"},
                                                                {"true", "unlock", "L", ""},
                                                                {"true", "owner"},
                                                                {"true", "owner", ""},
                                                                {"true", "is_stale"},
                                                                {"true", "clean"},
                                                                {"lock", "L", "a"},
                                                                {"owner", "L"},
                                                                {"lock_nocheck"},
                                                                {"lock_nocheck", "L"},
                                                                {"lock_nocheck", "L", ""},
                                                                {"lock_nocheck", "", "a"},
                                                                {"owner_nocheck"},
                                                                {"owner_nocheck", ""},
                                                                {"is_mine"},
                                                                {"is_mine", "", "a"},
                                                                {"is_mine", "L"}}));
  const Session at;
  std::vector<std::string> command = {"check_lock"};
  command.insert(command.end(), words.begin(), words.end());
  CAPTURE(command);
  check_usage(at.run(command));
  CHECK(at.tree().empty());
}

TEST_CASE("check_lock runs no unknown action", "[e2e]") {
  const Session at;
  check_usage(at.run({"check_lock", "true", "touch", "L", "a"}), "touch");
  check_usage(at.run({"check_lock", "true", "clean_stale", "L"}), "clean_stale");
  CHECK(at.tree().empty());
}

TEST_CASE("check_lock refuses unknown options before and after the checker", "[e2e]") {
  const Session at;
  check_usage(at.run({"check_lock", "-x", "true", "lock", "L", "a"}), "-x");
  check_usage(at.run({"check_lock", "true", "-x", "lock", "L", "a"}), "-x");
  check_usage(at.run({"check_lock", "true", "-s", "a", "--older-than", "lock", "L", "a"}));
  CHECK(at.tree().empty());
}

TEST_CASE("the help of check_lock shows which actions need a checker", "[e2e]") {
  CHECK_THAT(run({"check_lock", "--help"}).out,
             Contains("check_lock <stale_checker> lock <lock_path> <id>") &&
                 Contains("check_lock lock_nocheck <lock_path> <id>"));
}

TEST_CASE("check_lock at info level tells the recovery", "[e2e]") {
  const std::vector<std::string> options =
      GENERATE(values<std::vector<std::string>>({{"--info", "./judge"}, {"./judge", "-di"}}));
  const Court at;
  at.must("fast_lock lock L a");
  at.condemn("a");
  CHECK_THAT(at.run({"check_lock", options[0], options[1], "lock", "L", "b"}).err,
             EndsWith("recovery needed for a\nL locked by b\n"));
  CHECK(at.run({"check_lock", options[0], options[1], "unlock", "L", "b"}) ==
        Result{0, "", "L unlocked by b\n"});
}

TEST_CASE("check_lock at info level with local_id tells each id that it cleaned", "[e2e]") {
  const Session at;
  const std::string dead = dead_uid();
  at.must("fast_lock lock L a; mkdir -p L/build/" + dead + "/owner");
  CHECK(at.run({"check_lock", "--info", tool("local_id"), "-s", "is_stale", "unlock", "L", "a"}) ==
        Result{0, "", "L unlocked by a\ncleaned stale id " + dead + "\n"});
}

TEST_CASE("check_lock at debug level puts the date before every line", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a");
  at.condemn("a");
  const Result result = at.run({"check_lock", "-d", "./judge", "lock", "L", "b"});
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Matches("(" + kDate + " [^\n]+\n)+"));
  CHECK_THAT(result.err, Contains("recovery needed for a\n") && EndsWith("L locked by b\n"));
}

TEST_CASE("check_lock heeds the variable DEBUG", "[e2e]") {
  const Session at;
  CHECK(at.run({"check_lock", "false", "lock", "L", "a"}, {{"DEBUG", "INFO"}}) ==
        Result{0, "", "L locked by a\n"});
}

TEST_CASE("check_lock takes locks and ids that look like options", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "./judge", "lock", "--help x", "--help 1"}) == kSilentYes);
  CHECK(at.run({"check_lock", "./judge", "owner", "--help x"}) == Result{0, "--help 1\n", ""});
  CHECK(at.asked() == "--help 1|\n");
  CHECK(at.run({"check_lock", "is_mine", "--help x", "--help 1"}) == kSilentYes);
  CHECK(at.run({"check_lock", "./judge", "unlock", "--help x", "--help 1"}) == kSilentYes);
  CHECK(at.tree() == Tree{"asked", "dead", "judge"});
}

TEST_CASE("check_lock refuses ids that cannot be one file name", "[e2e]") {
  const std::string id = GENERATE("a/b", ".", "..", "a\nb");
  const std::string action = GENERATE("lock", "unlock", "is_mine", "lock_nocheck");
  const Session at;
  check_usage(at.run({"check_lock", "false", action, "L", id}));
  CHECK(at.tree().empty());
}

TEST_CASE("check_lock is_stale is 0 stale and 1 alive and 2 free and changes nothing", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "./judge", "is_stale", "L"}) == Result{2, "", ""});
  at.must("fast_lock lock L a; mkdir -p L/build/b/owner");
  const Tree before = at.tree();
  CHECK(at.run({"check_lock", "./judge", "is_stale", "L"}) == kSilentNo);
  at.condemn("a");
  at.condemn("b");
  CHECK(at.run({"check_lock", "./judge", "is_stale", "L"}) == kSilentYes);
  CHECK(at.tree() == before);
}

TEST_CASE("check_lock is_stale passes on the status of a checker that cannot tell", "[e2e]") {
  const int status = GENERATE(10, 11, 13, 20, 127);
  const Court at;
  at.must("fast_lock lock L a; printf '#!/bin/bash\\nexit " + std::to_string(status) +
          "\\n' > judge");
  CHECK(at.run({"check_lock", "./judge", "is_stale", "L"}).code == status);
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("check_lock is_stale with local_id cannot tell of an id of another kind", "[e2e][H12]") {
  const Session at;
  at.must("fast_lock lock L far.example.org:12:34:56");
  CHECK(at.run({"check_lock", tool("local_id"), "-s", "is_stale", "is_stale", "L"}).code == 13);
  CHECK(at.tree("L") == Tree{"owner/", "owner/far.example.org:12:34:56"});
}

TEST_CASE("a checker that cannot tell frees nothing and is reported", "[e2e]") {
  const Court at;
  at.must("fast_lock lock L a; printf '#!/bin/bash\\nexit 13\\n' > judge");
  const Result result = at.run({"check_lock", "./judge", "lock", "L", "b"});
  CHECK(result.code == 1);
  CHECK_THAT(result.err, Contains("WARNING") && Contains("L") && Contains(" a"));
  CHECK(at.tree("L") == kHeldByA);
}

TEST_CASE("check_lock clean removes stale ids and keeps living ones", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentYes);
  at.must("fast_lock lock L a; mkdir -p L/build/b/owner L/build/.gone.1 L/in_use/c");
  at.condemn("b");
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentNo);
  CHECK(at.tree("L") == kHeldByA);
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentNo);
  at.condemn("a");
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentYes);
  CHECK(at.tree() == Tree{"asked", "dead", "judge"});
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentYes);
}

TEST_CASE("check_lock clean leaves young proposals of living ids", "[e2e]") {
  const Court at;
  at.must("mkdir -p L/build/b/owner; touch L/build/b/owner/b");
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentNo);
  CHECK(at.tree("L").size() == 4);
  CHECK(at.run({"check_lock", "--older-than", "0", "./judge", "clean", "L"}) == kSilentYes);
  CHECK(at.tree("L").empty());
}

TEST_CASE("check_lock with folders as leaves works through its whole life", "[e2e]") {
  const Court at;
  CHECK(at.run({"check_lock", "--dir-leaf", "./judge", "lock", "L", "a"}) == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/a/"});
  CHECK(at.run({"check_lock", "./judge", "owner", "L"}) == Result{0, "a\n", ""});
  CHECK(at.run({"check_lock", "is_mine", "L", "a"}) == kSilentYes);
  CHECK(at.run({"check_lock", "./judge", "lock", "L", "b"}) == kSilentNo);
  CHECK(at.run({"check_lock", "./judge", "clean", "L"}) == kSilentNo);
  at.condemn("a");
  CHECK(at.run({"check_lock", "--dir-leaf", "./judge", "lock", "L", "b"}) == kSilentYes);
  CHECK(at.tree("L") == Tree{"owner/", "owner/b/"});
  CHECK(at.run({"check_lock", "./judge", "unlock", "L", "b"}) == kSilentYes);
  CHECK(at.tree("L").empty());
}

TEST_CASE("a refusal of check_lock at info level names the holder", "[e2e]") {
  const std::vector<std::string> words = GENERATE(
      values<std::vector<std::string>>({{"check_lock", "--info", "./judge", "lock", "L", "b"},
                                        {"check_lock", "--info", "lock_nocheck", "L", "b"}}));
  const Court at;
  at.must("export LOGNAME=anna; fast_lock lock L the-holder");
  const Result refused = at.run(words);
  CHECK(refused.code == 1);
  CHECK_THAT(refused.err, Contains("\nL is held by "));
  CHECK_THAT(refused.err, Contains("the-holder"));
  CHECK_THAT(refused.err, Contains("(LOGNAME anna) on ") && Contains(" since "));
}
